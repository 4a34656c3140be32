"""FedProto: the identities of private models that share prototypes."""

import pytest
import torch

from pflbench.api import Client
from pflbench.testing import TOY, equal, played, split_by_class, toy


def message_of(federation, id=0):
    return federation.algorithm.download(federation.server, (id,))[id]


def split(train, test):
    return split_by_class(TOY["dataset"], train, test)


def uploads(federation, hp_of_server):
    """What all clients send with the common initial body, and the server's prototypes."""
    replies = {
        i: federation.algorithm.client_update(federation.client(i), message_of(federation))[0]
        for i in range(4)
    }
    server = toy("fedproto", hp_of_server).algorithm
    return replies, server.aggregate(server.init_server(), replies)["omega"]


def test_lambda_0_is_local_at_the_same_rate_with_the_same_head_accuracy():
    ours, local = toy("fedproto", {"lam": 0.0, "lr": 0.05}), toy("local", {"lr": 0.05})
    played(ours)
    played(local)
    assert all(equal(ours.states[i]["theta"], local.states[i]["theta"]) for i in range(4))
    assert ours.evaluation()["accuracy"]["head"] == local.evaluation()["accuracy"]["pre"]


@pytest.mark.parametrize("lam", [0.0, 0.1, 50.0])
def test_round_1_is_local_for_every_lambda_and_round_2_is_not(lam):
    ours, local = toy("fedproto", {"lam": lam, "lr": 0.05}), toy("local", {"lr": 0.05})
    played(ours, 1)
    played(local, 1)
    assert all(equal(ours.states[i]["theta"], local.states[i]["theta"]) for i in range(4))
    played(ours, 1)
    played(local, 1)
    assert equal(ours.states[0]["theta"], local.states[0]["theta"]) == (lam == 0.0)


@pytest.mark.parametrize("collect", ["during", "after"])
def test_one_body_for_all_weighted_prototypes_are_pooled_ones(collect):
    federation = toy("fedproto", {"lr": 0.0, "collect": collect})  # nothing moves: one body for all
    _, G = uploads(federation, {"weights": "counts"})
    net = federation.algorithm.net(federation.algorithm.task.initial)
    x, y = (
        torch.cat(part)
        for part in zip(*(next(federation.client(i).samples()) for i in range(4)), strict=True)
    )
    z = net.body(x).detach()
    assert G["labels"].tolist() == [0, 1, 2, 3]
    for mean, label in zip(G["means"], G["labels"], strict=True):
        torch.testing.assert_close(mean, z[y == label].mean(0))


@pytest.mark.parametrize(
    "shares, same", [([[0, 1], [0, 1]], True), ([[0, 1], [0, 0, 0, 1]], False)]
)
def test_one_body_for_all_plain_means_are_the_pooled_ones_iff_counts_are_equal(shares, same):
    given = split(shares, [[0], [1]])
    found = {}
    for weights in ("equal", "counts"):
        federation = toy("fedproto", {"lr": 0.0, "weights": weights}, given)
        federation.step()
        found[weights] = federation.server["omega"]["means"]
    assert torch.allclose(found["equal"], found["counts"], atol=1e-6) == same


def test_prototype_term_reaches_neither_the_head_nor_the_prototypes():
    federation = played(toy("fedproto", {"lr": 0.05}), 1)
    client, message = federation.client(0), message_of(federation)
    before = message["omega"]["means"].clone()
    kept = {}
    for lam in (0.0, 5.0):  # one step on all data: the gradient of CE is the same in both
        hp = {"lam": lam, "lr": 0.05, "batch_size": 1000}
        _, state = toy("fedproto", hp).algorithm.client_update(client, message)
        kept[lam] = state["theta"]
    for name, p in kept[0.0].items():
        assert torch.equal(p, kept[5.0][name]) == name.startswith("head.")
    assert torch.equal(message["omega"]["means"], before)
    assert not message["omega"]["means"].requires_grad


def test_class_held_by_nobody_is_never_predicted():
    given = split([[0, 1] * 6, [1, 2] * 6], [[0, 3], [2, 3]])
    federation = played(toy("fedproto", {"lr": 0.05}, given))
    client = federation.client(0)
    model = federation.algorithm.personal_model(client, message_of(federation))
    x = 10 * torch.randn(200, *client.task.shape, generator=torch.Generator().manual_seed(0))
    scores = federation.algorithm.predict(model, x)
    assert torch.all(scores[:, 3] == -torch.inf)
    assert scores[:, :3].isfinite().all()  # class 2, of the other client only, is allowed
    assert 3 not in scores.argmax(1)


def test_scores_are_mean_squared_distances_of_the_own_representation_to_each_prototype():
    federation = played(toy("fedproto", {"lr": 0.05}), 2)
    client, G = federation.client(1), message_of(federation)["omega"]
    x = next(client.samples())[0]
    scores = federation.algorithm.predict(
        federation.algorithm.personal_model(client, {"omega": G}), x
    )
    z = federation.algorithm.net(client.state["theta"]).body(x).detach()
    for label, mean in zip(G["labels"].tolist(), G["means"], strict=True):
        torch.testing.assert_close(
            -scores[:, label], (z - mean).square().mean(1), rtol=1e-4, atol=1e-6
        )


def test_pull_is_averaged_over_batch_and_entries_and_skips_classes_without_prototype():
    federation = toy("fedproto", {"lam": 2.0, "lr": 0.1, "batch_size": 1000})
    algorithm, client = federation.algorithm, federation.client(0)
    label = int(client.y[0])
    G = {"means": torch.ones(1, 8), "labels": torch.tensor([label]).int()}
    _, state = algorithm.client_update(client, {"omega": G})
    net = algorithm.net(algorithm.task.initial).train()
    for p in net.parameters():
        p.requires_grad_()
    x, y = next(client.samples())
    z = net.body(x)
    pull = (z[y == label] - 1.0).square().sum() / (len(y) * 8)
    (torch.nn.functional.cross_entropy(net.head(z), y) + 2.0 * pull).backward()
    for name, p in net.named_parameters():
        torch.testing.assert_close(state["theta"][name], p.detach() - 0.1 * p.grad)
    assert len(client.counts.nonzero()) > 1  # there was a class to skip


def test_means_collected_while_training_are_those_of_each_batch_before_its_step():
    federation = toy("fedproto", {"lr": 0.05, "epochs": 2})
    algorithm, client = federation.algorithm, federation.client(0)
    reply, _ = algorithm.client_update(client, message_of(federation))
    local, theta, seen = toy("local", {"lr": 0.05}).algorithm, algorithm.task.initial, []
    # step by step, through a client whose data are this batch only
    for x, y in client.batches(16, 2):
        seen.append((algorithm.net(theta).body(x).detach(), y))
        alone = OneBatch(client.id, 0, client.task, x, y, {"theta": theta})
        theta = local.client_update(alone, {})[1]["theta"]
    z, y = (torch.cat(part) for part in zip(*seen, strict=True))
    for mean, label, count in zip(
        *(reply["omega"][name] for name in ("means", "labels", "counts")), strict=True
    ):
        torch.testing.assert_close(mean, z[y == label].mean(0))
        assert 2 * count == (y == label).sum()


@pytest.mark.parametrize("hp", [{"collect": "after", "epochs": 2}, {"epochs": 0}], ids=str)
def test_means_collected_after_training_or_without_any_are_those_of_the_body_that_is_kept(hp):
    federation = toy("fedproto", {"lr": 0.5, **hp})
    client = federation.client(0)
    reply, state = federation.algorithm.client_update(client, message_of(federation))
    x, y = next(client.samples())
    z = federation.algorithm.net(state["theta"]).body(x).detach()
    assert torch.equal(reply["omega"]["counts"], client.counts[client.counts > 0])
    for mean, label in zip(reply["omega"]["means"], reply["omega"]["labels"], strict=True):
        torch.testing.assert_close(mean, z[y == label].mean(0))


class OneBatch(Client):
    def batches(self, size, epochs=1, stream="train"):
        yield self.x, self.y


def test_class_that_nobody_of_the_cohort_holds_keeps_its_prototype():
    algorithm = toy("fedproto").algorithm
    old = {
        "means": torch.zeros(2, 8),
        "labels": torch.tensor([1, 2]).int(),
        "counts": torch.tensor([5, 5]).int(),
    }
    sent = {
        "means": torch.ones(1, 8),
        "labels": torch.tensor([2]).int(),
        "counts": torch.tensor([3]).int(),
    }
    G = algorithm.aggregate({"omega": old}, {0: {"omega": sent}})["omega"]
    assert G["labels"].tolist() == [1, 2]
    assert G["means"][:, 0].tolist() == [0.0, 1.0]


def test_head_is_evaluated_before_there_are_prototypes():
    accuracy = toy("fedproto").start()[0]["accuracy"]
    assert accuracy["pre"] == accuracy["head"] == toy("local").start()[0]["accuracy"]["pre"]
