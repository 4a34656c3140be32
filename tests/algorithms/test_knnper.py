"""kNN-Per: the identities of a vote among stored representations."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from pflbench.ops import representations
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy
from pflbench.testing.problem import TOY_CNN


def method(hparams=None, **settings) -> Any:
    return toy("knnper", hparams or {}, **settings).algorithm


@pytest.mark.parametrize(
    "hparams", [{}, {"lam": 1.0, "neighbours": 3}, {"choose": "loo", "capacity": 0.5}], ids=str
)
def test_the_shared_model_is_fedavgs(hparams):
    own = toy("knnper", {"lr": 0.05, **hparams}, participation=0.5)
    fedavg = toy("fedavg", {"lr": 0.05}, participation=0.5)
    for _ in range(3):
        record, _ = own.step()
        other, _ = fedavg.step()
        assert equal(own.server["theta"], fedavg.server["theta"])
        assert record["accuracy"]["global"] == other["accuracy"]["pre"]


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_without_a_share_of_the_vote_it_predicts_as_fedavg(settings):
    federation = played(toy("knnper", {"lr": 0.1, "lam": 0.0}, **settings), 2)
    x, _ = next(federation.client(0).samples())
    net = federation.algorithm.task.net(federation.server["theta"])
    scores = federation.algorithm.predict(personal(federation), x)
    torch.testing.assert_close(scores, net(x).softmax(1))


def test_the_nearest_of_a_training_sample_is_itself():
    federation = played(toy("knnper", {"lr": 0.1, "lam": 1.0, "neighbours": 1}), 1)
    for id in range(4):
        x, y = next(federation.client(id).samples())
        scores = federation.algorithm.predict(personal(federation, id), x)
        assert torch.equal(scores, torch.nn.functional.one_hot(y, 4).float())


def test_two_neighbours_by_hand():
    algorithm = method({"scale": 3.0})
    d2 = torch.tensor([[0.0, 8 * 3.0 * math.log(2), 1000.0]])  # k = 8
    y = torch.tensor([0, 1, 2])
    torch.testing.assert_close(algorithm.vote(d2, y, 2), torch.tensor([[2 / 3, 1 / 3, 0, 0]]))
    far = algorithm.vote(d2 + 1e6, y, 2)  # exp of these is 0
    torch.testing.assert_close(far, torch.tensor([[2 / 3, 1 / 3, 0, 0]]), rtol=1e-2, atol=0)


def test_of_equally_near_samples_the_first_vote_and_fewer_than_asked_all():
    algorithm = method()
    y = torch.tensor([3, 1, 1])
    d2 = torch.ones(1, 3)
    assert algorithm.vote(d2, y, 1).tolist() == [[0, 0, 0, 1]]
    torch.testing.assert_close(algorithm.vote(d2, y, 10), torch.tensor([[0, 2 / 3, 0, 1 / 3]]))


def test_votes_are_shares_and_absent_classes_have_none():
    split = split_by_class(TOY["dataset"], [[0, 2] * 8, [1] * 6], [[0], [1]])
    federation = played(toy("knnper", {"lr": 0.1, "lam": 1.0}, split), 1)
    x, _ = next(federation.client(0).samples())
    votes = federation.algorithm.predict(personal(federation, 0), x)
    assert votes.min() >= 0
    torch.testing.assert_close(votes.sum(1), torch.ones(16))
    assert votes[:, [1, 3]].max() == 0
    assert votes[:, 0].min() < 0.9
    only = federation.algorithm.predict(personal(federation, 1), x)
    torch.testing.assert_close(only[:, 1], torch.ones(16))


def test_a_rotation_of_the_representations_changes_nothing():
    algorithm = method()
    draws = torch.Generator().manual_seed(0)
    z, stored = torch.rand(5, 8, generator=draws), torch.rand(20, 8, generator=draws)
    rotation, _ = torch.linalg.qr(torch.randn(8, 8, generator=draws))
    y = torch.arange(20) % 4
    votes = [
        algorithm.vote(torch.cdist(a, b).square(), y, 6)
        for a, b in ((z, stored), (z @ rotation, stored @ rotation))
    ]
    torch.testing.assert_close(*votes, rtol=1e-4, atol=1e-5)


def test_a_large_scale_counts_votes_and_their_order_does_not_matter():
    algorithm = method({"scale": 1e9})
    d2 = torch.rand(4, 20)
    y = torch.arange(20) % 3
    order = torch.randperm(20)
    votes = algorithm.vote(d2, y, 6)
    for row in range(4):
        nearest = y[d2[row].argsort()[:6]]
        torch.testing.assert_close(votes[row], torch.bincount(nearest, minlength=4) / 6)
    torch.testing.assert_close(algorithm.vote(d2[:, order], y[order], 6), votes)


def test_what_is_evaluated_is_the_mixture_with_the_newest_representations():
    federation = played(toy("knnper", {"lr": 0.1, "lam": 0.3}), 2)
    algorithm: Any = federation.algorithm
    client, theta = federation.client(1), federation.server["theta"]
    x, _ = next(federation.client(0).samples())
    net = algorithm.task.net(theta)
    z = representations(theta, client)
    d2 = (net.body(x)[:, None] - z[None]).square().sum(2)
    votes = algorithm.vote(d2, client.y, 10)
    expected = 0.3 * votes + 0.7 * net(x).softmax(1)
    torch.testing.assert_close(algorithm.predict(personal(federation, 1), x), expected)
    alone = algorithm.extra_models(client, federation.server)["knn"]
    torch.testing.assert_close(algorithm.predict(alone, x), votes)
    trained = algorithm.trained_model(client, {}, {"theta": algorithm.task.initial})
    torch.testing.assert_close(trained["z"], representations(algorithm.task.initial, client))


def test_part_of_the_samples_is_stored_the_same_in_every_round():
    federation = toy("knnper", {"capacity": 0.5})
    algorithm: Any = federation.algorithm
    client = federation.client(0)
    stored = algorithm.stored(client)
    assert len(stored.y) == len(client.y) // 2
    later = algorithm.stored(replace(client, round=7))
    assert torch.equal(next(later.samples())[0], next(stored.samples())[0])
    assert len(personal(federation)["y"]) == len(stored.y)


def test_the_share_by_leave_one_out():
    federation = played(toy("knnper", {"lr": 0.05, "choose": "loo", "neighbours": 3}), 1)
    algorithm: Any = federation.algorithm
    client, theta = federation.client(0), federation.server["theta"]
    net, n = algorithm.task.net(theta), len(client.y)
    x, y = next(client.samples())
    z, soft = net.body(x), net(x).softmax(1)
    correct = []
    for place in range(11):
        hits = 0
        for row in range(n):
            others = [other for other in range(n) if other != row]
            d2 = (z[row] - z[others]).square().sum(1)[None]
            votes = algorithm.vote(d2, y[others], 3)
            hits += int((place / 10 * votes + (1 - place / 10) * soft[row]).argmax() == y[row])
        correct.append(hits)
    assert len(set(correct)) > 1
    assert personal(federation)["lam"].item() == pytest.approx(correct.index(max(correct)) / 10)


@pytest.mark.parametrize("choose", ["fixed", "loo"])
def test_clients_with_one_sample_or_none(choose: str):
    split = split_by_class(TOY["dataset"], [[0, 1] * 5, [2]], [[0], [2]])
    federation = played(toy("knnper", {"choose": choose}, split), 1)
    algorithm = federation.algorithm
    one = personal(federation, 1)
    assert one["lam"].item() == (0.5 if choose == "fixed" else 0.0)
    nothing = replace(federation.client(1), y=federation.client(1).y[:0])
    model = algorithm.personal_model(nothing, federation.server)
    x, _ = next(federation.client(0).samples())
    net = algorithm.task.net(federation.server["theta"])
    torch.testing.assert_close(algorithm.predict(model, x), net(x).softmax(1))
