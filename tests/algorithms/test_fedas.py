"""FedAS: the identities of aligned bodies and of weights by Fisher information."""

from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from pflbench.api import Client, collect_logs
from pflbench.data.partition import Partition
from pflbench.ops import class_prototypes, phi, pi
from pflbench.rng import stream
from pflbench.testing import equal, played, split_by_class, toy
from pflbench.testing.problem import TOY, TOY_CNN

DATA = str(TOY["dataset"])


def fedas(hparams=None, **settings):
    return toy("fedas", hparams, **settings)


def largest_change(first, second) -> float:
    return max(float((first[name] - second[name]).abs().max()) for name in second)


def replies_of(federation, ids=(0, 1, 2, 3)):
    return {
        id: federation.algorithm.client_update(federation.client(id), federation.server)[0]
        for id in ids
    }


def test_without_alignment_and_weighted_by_samples_it_is_fedper():
    federation = played(fedas({"lr": 0.05, "epochs": 2, "align_lr": 0.0, "weights": "samples"}), 3)
    fedper = played(toy("fedper", {"lr": 0.05, "epochs": 2}), 3)
    assert equal(federation.server["phi"], fedper.server["phi"])
    assert all(
        equal(pi(federation.states[id]["theta"]), fedper.states[id]["pi"]) for id in range(4)
    )


@pytest.mark.parametrize("hparams", [{"align_lr": 0.0}, {"weights": "samples"}])
def test_alignment_alone_and_fisher_weights_alone_make_another_method_than_fedper(
    hparams: dict[str, Any],
):
    federation = played(fedas({"lr": 0.05, "epochs": 2, **hparams}))
    fedper = played(toy("fedper", {"lr": 0.05, "epochs": 2}))
    assert not equal(federation.server["phi"], fedper.server["phi"])


def test_permuting_the_clients_leaves_the_body_and_all_replies_unchanged():
    federation = played(fedas({"lr": 0.05}))
    forwards, backwards = replies_of(federation), replies_of(federation, (3, 2, 1, 0))
    assert all(equal(forwards[id]["phi"], backwards[id]["phi"]) for id in forwards)
    first, second = (
        federation.algorithm.aggregate({}, replies)["phi"] for replies in (forwards, backwards)
    )
    assert equal(first, second)


def test_servers_body_is_bit_identical_after_the_clients_aligned_it():
    federation = played(fedas({"lr": 0.05, "align_lr": 0.1}))
    before = {name: p.clone() for name, p in federation.server["phi"].items()}
    for id in range(4):
        aligned = federation.algorithm.aligned(federation.client(id), federation.server)
        assert not equal(phi(aligned), before)
    assert equal(federation.server["phi"], before)


def test_identical_clients_weigh_the_same(monkeypatch: pytest.MonkeyPatch):
    split = fedas().partition
    split = Partition((split.train[0],) * 3, (split.test[0],) * 3)
    monkeypatch.setattr(Client, "generator", lambda self, *names: stream(self.round, *names))
    federation = fedas({"lr": 0.05}, split=split)
    for _ in range(2):
        replies = replies_of(federation, (0, 1, 2))
        fishers = [reply["fisher"] for reply in replies.values()]
        assert fishers[0] > 0
        assert all(torch.equal(fisher, fishers[0]) for fisher in fishers)
        federation.step()
        assert largest_change(federation.server["phi"], replies[0]["phi"]) < 1e-7


def test_fisher_traces_weigh_in_proportion_whatever_the_numbers_of_samples():
    federation = fedas({"lr": 0.05})
    replies = replies_of(federation, (0, 1))
    a, b = (replies[id]["phi"] for id in (0, 1))
    for fishers, share in (((2.0, 2.0), 0.5), ((1.0, 3.0), 0.25)):
        given = {id: {**replies[id], "fisher": torch.tensor(fishers[id])} for id in (0, 1)}
        mean = federation.algorithm.aggregate({}, given)["phi"]
        for name, p in mean.items():
            assert torch.equal(
                p, (share * a[name].double() + (1 - share) * b[name].double()).float()
            )


@pytest.mark.parametrize("fishers", [(0.0, 0.0), (float("inf"), 1.0), (float("nan"), 1.0)])
def test_degenerate_fisher_traces_fall_back_to_numbers_of_samples_and_say_so(
    fishers: tuple[float, float],
):
    federation = fedas({"lr": 0.05})
    replies = replies_of(federation, (0, 1))
    given = {id: {**replies[id], "fisher": torch.tensor(fishers[id])} for id in (0, 1)}
    with collect_logs() as logs:
        mean = federation.algorithm.aggregate({}, given)["phi"]
    assert logs["weighted_by_samples"] == 1
    by_samples = fedas({"weights": "samples"}).algorithm.aggregate({}, replies)["phi"]
    assert equal(mean, by_samples)
    with collect_logs() as logs:
        federation.algorithm.aggregate({}, replies)
    assert logs["weighted_by_samples"] == 0


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_alignment_leaves_the_head_untouched_and_changes_the_body(optimizer):
    federation = played(fedas({"lr": 0.05, "optimizer": optimizer}))
    for id in range(4):
        client = federation.client(id)
        aligned = federation.algorithm.aligned(client, federation.server)
        assert equal(pi(aligned), pi(client.state["theta"]))
        assert not equal(phi(aligned), federation.server["phi"])


def test_alignment_has_batches_of_its_own_size_and_one_of_all_data_is_one_gradient_step():
    """On the sum over classes of the mean squared distance to the prototype, per entry."""
    hparams = {"lr": 0.5, "align_lr": 0.1, "batch_size": 4, "align_batch_size": 1000}
    federation = played(fedas(hparams), 1)
    algorithm: Any = federation.algorithm
    client, own = federation.client(0), federation.states[0]["theta"]
    prototypes, _ = class_prototypes(algorithm.net(own), client)
    net = algorithm.net({**own, **federation.server["phi"]})
    x, y = next(client.samples())
    z = net.body(x)
    loss = sum((z[y == c] - prototypes[c]).square().mean() for c in y.unique())
    gradient = torch.autograd.grad(loss, list(net.body.parameters()))
    aligned = algorithm.aligned(client, federation.server)
    for (name, p), g in zip(net.body.named_parameters(), gradient, strict=True):
        torch.testing.assert_close(aligned[f"body.{name}"], p.detach() - 0.1 * g)
        assert g.any()


@pytest.mark.parametrize("hparams", [{"batch_size": 1}, {"fim": "per_sample"}])
@pytest.mark.parametrize("norm", ["sum", "mean"])
def test_fisher_trace_of_single_samples_is_the_sum_of_squared_gradient_norms(
    hparams: dict[str, Any], norm: str
):
    federation = fedas({**hparams, "fim_norm": norm, "dropout": 0.5})
    client, net = federation.client(0), federation.algorithm.net(federation.algorithm.task.initial)
    x, y = next(client.samples())

    def loss(theta, x, y):
        return cross_entropy(functional_call(net, theta, (x[None],)), y[None])

    each = vmap(grad(loss), (None, 0, 0))(dict(net.named_parameters()), x, y)  # name -> (n, ...)
    squared = sum(g.flatten(1).square().sum(1) for g in each.values())  # (n,)
    expected = squared.sum() if norm == "sum" else squared.mean()
    found = federation.algorithm.fisher(client, federation.algorithm.task.initial)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=0)


def test_fisher_trace_of_one_batch_is_the_squared_norm_of_the_mean_gradient():
    federation = fedas({"batch_size": 1000})
    client, net = federation.client(0), federation.algorithm.net(federation.algorithm.task.initial)
    x, y = next(client.samples())
    gradient = torch.autograd.grad(cross_entropy(net(x), y), list(net.parameters()))
    expected = torch.stack([g.square().sum() for g in gradient]).sum()
    found = federation.algorithm.fisher(client, federation.algorithm.task.initial)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("samples, unchanged", [(1, True), (3, False)])
def test_with_one_sample_of_a_class_and_the_clients_own_body_alignment_changes_nothing(
    samples: int, unchanged: bool
):
    split = split_by_class(DATA, [[0, 1, 2, 3] * samples, [0, 1]], [[0], [1]])
    federation = fedas({"align_lr": 0.1, "align_epochs": 3}, split=split)
    client = federation.client(0)
    with collect_logs() as logs:
        aligned = federation.algorithm.aligned(client, {"phi": phi(client.state["theta"])})
    change = largest_change(aligned, client.state["theta"])
    assert (logs["loss_align"] < 1e-12) == unchanged
    assert (change < 1e-7) == unchanged


def test_alignment_descends_the_summed_distances_to_the_prototypes_of_the_old_body():
    split = split_by_class(DATA, [[0] * 5 + [2] * 2 + [3], [0, 1]], [[0], [1]])
    federation = played(
        fedas({"lr": 0.5, "align_lr": 0.1, "align_batch_size": 1000}, split=split), 1
    )
    client, task = federation.client(0), federation.algorithm.task
    means, _ = class_prototypes(task.net(client.state["theta"]), client)
    net = task.net({**client.state["theta"], **federation.server["phi"]})
    x, y = next(client.samples())
    loss = sum(((net.body(x[y == c]) - means[c]) ** 2).mean() for c in (0, 2, 3))
    loss.backward()
    aligned = federation.algorithm.aligned(client, federation.server)
    for name, p in net.body.named_parameters():
        assert p.grad.abs().max() > 1e-3
        torch.testing.assert_close(
            aligned[f"body.{name}"], p.detach() - 0.1 * p.grad, rtol=1e-5, atol=1e-6
        )


def test_unselected_clients_keep_their_model():
    federation = played(fedas({"lr": 0.05}, clients=6, participation=0.34))
    for _ in range(3):
        cohort, before = (
            federation.select(),
            {id: state["theta"] for id, state in federation.states.items()},
        )
        federation.step()
        assert all(
            equal(federation.states[id]["theta"], before[id]) for id in before if id not in cohort
        )


def test_client_without_training_data_can_be_evaluated():
    split = fedas(**TOY_CNN).partition
    empty = Partition((*split.train[:3], split.train[3][:0]), split.test)
    federation = played(fedas({"epochs": 1}, split=empty, **TOY_CNN), 1)
    assert equal(
        federation.algorithm.personal_model(federation.client(3), federation.server),
        {**federation.algorithm.task.initial, **federation.server["phi"]},
    )
