"""FedFomo: the identities of starts that are mixed from others' models."""

import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from pflbench.api import Client, Task
from pflbench.data.partition import Partition
from pflbench.methods import registry
from pflbench.rng import stream
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy


def module() -> Any:
    return sys.modules[registry.load("fedfomo").__module__]


def local_step(federation, client, theta):
    """Local training of this theta on these samples."""
    local = toy("local", {"lr": federation.algorithm.hp.lr}).algorithm
    _, state = local.client_update(replace(client, state={"theta": theta}), {})
    return state["theta"]


@pytest.mark.parametrize("M", [0, 5])
def test_without_others_it_is_local_on_the_training_part(M: int):
    settings: dict[str, Any] = {"clients": 1} if M else {}
    federation = toy("fedfomo", {"lr": 0.05, "M": M}, **settings)
    algorithm: Any = federation.algorithm
    theta = algorithm.task.initial
    for _ in range(3):
        training, _ = algorithm.divided(federation.client(0))
        federation.step()
        theta = local_step(federation, training, theta)
        assert equal(federation.states[0]["theta"], theta)


def test_the_first_round_is_local_for_any_number_of_models():
    federation = toy("fedfomo", {"lr": 0.05})
    algorithm: Any = federation.algorithm
    expected = [
        local_step(federation, algorithm.divided(federation.client(i))[0], algorithm.task.initial)
        for i in range(4)
    ]
    record, _ = federation.step()
    assert all(equal(federation.states[i]["theta"], expected[i]) for i in range(4))
    assert sum(record["bytes"]["down"].values()) == 0


def test_weights_by_hand():
    losses = torch.tensor([1.0, 0.4, 0.9, 1.2, 0.1])
    distances = torch.tensor([2.0, 1.0, 1.0, 0.0])
    found = module().first_order_weights(losses, distances)
    torch.testing.assert_close(found, torch.tensor([0.3, 0.1, -0.2, 0.0]))


def with_losses(monkeypatch, federation, losses):
    """The client's merge where candidates and base have these validation losses, base first."""
    values = iter(torch.tensor(losses, dtype=torch.float64))
    monkeypatch.setattr(module(), "mean_loss", lambda client, theta: next(values))
    message = federation.algorithm.download(federation.server, (0,))[0]
    return message, federation.algorithm.merged(federation.client(0), message)


def ready(M: int = 2):
    """A federation in which the first client gets two models."""
    return played(toy("fedfomo", {"lr": 0.3, "M": M, "eps": 0.0}, clients=3), 2)


def test_the_start_is_the_mean_of_candidates_by_their_positive_weights(monkeypatch):
    federation: Any = ready()
    base, own = federation.states[0]["base"], federation.states[0]["theta"]
    message, (start, weights) = with_losses(monkeypatch, federation, [1.0, 0.4, 1.2, 0.9])
    first, _ = message["models"].values()
    d = [module().distance(theta, base).item() for theta in (first, own)]
    raw = [0.6 / d[0], 0.1 / d[1]]
    assert weights[0].item() == pytest.approx(raw[0])
    assert weights[1] < 0
    assert weights[2].item() == pytest.approx(raw[1])
    share = raw[0] / sum(raw)
    for name, p in start.items():
        expected = share * first[name] + (1 - share) * own[name]
        torch.testing.assert_close(p, expected, rtol=1e-5, atol=1e-6)


def test_one_positive_weight_starts_from_that_model_and_none_from_the_own(monkeypatch):
    federation: Any = ready()
    message, (start, _) = with_losses(monkeypatch, federation, [1.0, 2.0, 0.5, 1.5])
    assert equal(start, message["models"]["1"])
    _, (start, _) = with_losses(monkeypatch, federation, [1.0, 2.0, 1.0, 1.5])
    assert equal(start, federation.states[0]["theta"])


def test_the_distance_is_that_of_all_parameters():
    first = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([1.0])}
    second = {"a": torch.tensor([0.0, 4.0]), "b": torch.tensor([1.0])}
    assert module().distance(first, second).item() == 5


def test_validation_losses_are_means_over_the_validation_part():
    federation: Any = ready()
    _, validation = federation.algorithm.divided(federation.client(0))
    theta = federation.states[0]["theta"]
    x, y = next(validation.samples())
    mean = torch.nn.functional.cross_entropy(federation.algorithm.task.net(theta)(x), y)
    assert module().mean_loss(validation, theta).item() == pytest.approx(mean.item(), rel=1e-6)
    base, own = federation.states[0]["base"], theta
    _, weights = federation.algorithm.merged(federation.client(0), {"models": {}})
    gain = module().mean_loss(validation, base) - module().mean_loss(validation, own)
    torch.testing.assert_close(weights, (gain / module().distance(own, base))[None])


def test_training_and_validation_rows_are_apart_the_same_in_every_round_and_all():
    algorithm: Any = toy("fedfomo").algorithm
    client = toy("fedfomo").client(0)
    training, validation = algorithm.divided(client)
    rows = [part.x.rows for part in (training, validation)]
    assert sorted(torch.cat(rows).tolist()) == list(range(len(client.y)))
    assert len(rows[1]) == len(client.y) // 5
    later = algorithm.divided(replace(client, round=9))
    assert torch.equal(later[1].x.rows, rows[1])


def test_a_single_sample_is_in_both_parts():
    split = split_by_class(TOY["dataset"], [[0], [1, 2, 1]], [[0], [1]])
    federation: Any = toy("fedfomo", split=split)
    sizes = [
        [len(part.y) for part in federation.algorithm.divided(federation.client(i))] for i in (0, 1)
    ]
    assert sizes == [[1, 1], [2, 1]]


def server_of(algorithm, P, seen, t=0):
    models = {str(i): {"a": torch.tensor(float(i))} for i in seen}
    return {"models": models, "P": P, "t": torch.tensor(t, dtype=torch.int32)}


def test_the_best_others_are_sent_and_ties_go_to_the_lower_id():
    algorithm: Any = toy("fedfomo", {"M": 2, "eps": 0.0}, clients=5).algorithm
    P = torch.eye(5)
    P[1] = torch.tensor([0.5, 1.0, 0.7, 0.7, 0.9])
    assert algorithm.candidates(server_of(algorithm, P, range(5)), 1) == [4, 2]
    assert algorithm.candidates(server_of(algorithm, P, (0, 1, 3)), 1) == [3, 0]
    assert algorithm.candidates(server_of(algorithm, P, (1,)), 1) == []
    sent = algorithm.download(server_of(algorithm, P, range(5)), (1,))[1]["models"]
    assert [float(theta["a"]) for theta in sent.values()] == [4.0, 2.0]


def test_permuted_ids_give_permuted_candidates():
    algorithm: Any = toy("fedfomo", {"M": 3, "eps": 0.0}, clients=5).algorithm
    P = torch.rand(5, 5, generator=torch.Generator().manual_seed(0))
    order = [3, 0, 4, 1, 2]  # the old id of each new one
    permuted = server_of(algorithm, P[order][:, order], range(5))
    for new, old in enumerate(order):
        found = algorithm.candidates(permuted, new)
        assert [order[other] for other in found] == algorithm.candidates(
            server_of(algorithm, P, range(5)), old
        )


def with_ids(monkeypatch: pytest.MonkeyPatch, order: list[int]) -> None:
    """Give client `new` the random streams of client `order[new]`."""
    monkeypatch.setattr(
        Client,
        "generator",
        lambda self, *names: stream(self.task.seed, "client", order[self.id], self.round, *names),
    )

    def server_stream(self, *names):
        renamed = [names[0], order[names[1]], *names[2:]] if names[0] == "validation" else names
        return stream(self.seed, "server", *renamed)

    monkeypatch.setattr(Task, "generator", server_stream)


def test_permuting_ids_permutes_models_starts_and_affinities(monkeypatch: pytest.MonkeyPatch):
    """Whole rounds, bit for bit: streams go with the clients, and no two affinities are equal."""
    hparams = {"lr": 0.3, "M": 2, "eps": 0.0}
    order = [2, 0, 3, 1]  # the old id of each new one
    P = torch.eye(4) + 0.01 * torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
    first: Any = toy("fedfomo", hparams)
    train, test = first.partition.train, first.partition.test
    split = Partition(tuple(train[i] for i in order), tuple(test[i] for i in order))
    second: Any = toy("fedfomo", hparams, split)
    first.server = {**first.server, "P": P}
    second.server = {**second.server, "P": P[order][:, order]}
    played(first)
    with_ids(monkeypatch, order)
    played(second)
    assert torch.equal(second.server["P"], first.server["P"][order][:, order])
    assert not torch.equal(first.server["P"], P)
    for new, old in enumerate(order):
        for part in ("theta", "base"):
            assert equal(second.states[new][part], first.states[old][part])
        assert equal(second.server["models"][str(new)], first.server["models"][str(old)])


def test_places_are_explored_less_and_less():
    algorithm: Any = toy("fedfomo", {"M": 1, "eps": 0.5, "eps_decay": 0.05}, clients=5).algorithm
    P = torch.eye(5)
    P[:, 4] = 0.5
    P[4, 3] = 0.5
    explored = []
    for t in (0, 5, 10):
        server = server_of(algorithm, P, range(5), t)
        hits = 0
        for seed in range(200):
            task = replace(algorithm.task, seed=seed)
            method = type(algorithm)(algorithm.hp, task)
            hits += method.candidates(server, 0) != [4]
        explored.append(hits / 200)
    # half of the time one of four at random, then a quarter, then never
    assert explored[0] == pytest.approx(0.5 * 3 / 4, abs=0.1)
    assert explored[1] == pytest.approx(0.25 * 3 / 4, abs=0.08)
    assert explored[2] == 0
    every = type(algorithm)(replace(algorithm.hp, M=4, eps=1.0), algorithm.task)
    assert sorted(every.candidates(server_of(algorithm, P, range(5)), 0)) == [1, 2, 3, 4]


def test_affinities_grow_by_the_weights_of_what_was_sent_and_of_participants_only():
    federation: Any = toy("fedfomo", {"lr": 0.3, "M": 2}, clients=6, participation=0.5)
    for _ in range(4):
        before = federation.server
        cohort = federation.select()
        messages = federation.algorithm.download(before, cohort)
        weights = {
            id: federation.algorithm.merged(federation.client(id), messages[id])[1] for id in cohort
        }
        federation.step()
        grown = before["P"].clone()
        for id in cohort:
            for place, other in enumerate(federation.algorithm.candidates(before, id)):
                grown[id, other] += weights[id][place].float()
        torch.testing.assert_close(federation.server["P"], grown)
        for id in cohort:
            assert equal(federation.server["models"][str(id)], federation.states[id]["theta"])
    assert not torch.equal(federation.server["P"], torch.eye(6))


def test_the_mixture_is_where_training_starts_and_what_is_evaluated_before():
    federation: Any = ready()
    mixture = personal(federation)
    training, _ = federation.algorithm.divided(federation.client(0))
    expected = local_step(federation, training, mixture)
    federation.step()
    assert equal(federation.states[0]["base"], mixture)
    assert equal(federation.states[0]["theta"], expected)


def test_a_client_that_never_trained_gets_others_models():
    federation: Any = toy("fedfomo", {"lr": 0.3}, clients=6, participation=0.5)
    played(federation, 1)
    absent = next(id for id in range(6) if id not in federation.states)
    message = federation.algorithm.download(federation.server, (absent,))[absent]
    assert len(message["models"]) == 3
    assert str(absent) not in federation.server["models"]
    assert not equal(personal(federation, absent), federation.algorithm.task.initial)
