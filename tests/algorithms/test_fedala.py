"""FedALA: the identities of merging by learned weights."""

from typing import Any

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from pflbench.api import collect_logs
from pflbench.ops import phi
from pflbench.testing import equal, played, split_by_class, toy
from pflbench.testing.problem import TOY, TOY_CNN


def fedala(hparams=None, **settings):
    return toy("fedala", hparams, **settings)


def model_of(federation, id=0):
    return federation.algorithm.personal_model(federation.client(id), federation.server)


def with_weights(federation, value: float):
    """After the first round, every client has this for all of its weights."""
    federation.step()
    for state in federation.states.values():
        upper = federation.algorithm.upper()
        state["W"] = {name: torch.full_like(state["theta"][name], value) for name in upper}
    return federation


def test_weights_at_rate_zero_stay_one_and_the_method_is_fedavg():
    federation, fedavg = fedala({"eta_w": 0.0}), toy("fedavg", {"lr": 0.1})
    for _ in range(3):
        federation.step()
        fedavg.step()
        assert equal(federation.server["theta"], fedavg.server["theta"])
    assert all((w == 1).all() for state in federation.states.values() for w in state["W"].values())
    assert equal(model_of(federation), fedavg.server["theta"])


def test_learned_weights_make_another_method_than_fedavg():
    federation, fedavg = played(fedala()), played(toy("fedavg", {"lr": 0.1}))
    assert not equal(federation.server["theta"], fedavg.server["theta"])


def test_no_layer_learned_is_fedavg():
    federation, fedavg = played(fedala({"p": 0})), played(toy("fedavg", {"lr": 0.1}))
    assert equal(federation.server["theta"], fedavg.server["theta"])


def test_weights_of_zero_on_the_last_layer_are_fedper():
    federation = played(with_weights(fedala({"eta_w": 0.0, "p": 1}), 0.0))
    fedper = played(toy("fedper", {"lr": 0.1}), 4)
    assert equal(phi(federation.server["theta"]), fedper.server["phi"])
    for id in range(4):
        assert equal(model_of(federation, id), {**fedper.server["phi"], **fedper.states[id]["pi"]})


def test_weights_of_zero_on_all_layers_are_local():
    federation = played(with_weights(fedala({"eta_w": 0.0, "p": 20}), 0.0))
    local = played(toy("local", {"lr": 0.1}), 4)
    for id in range(4):
        assert equal(federation.states[id]["theta"], local.states[id]["theta"])


def test_p_counts_layers_with_all_their_tensors():
    def upper(p):
        return fedala({"p": p}, **TOY_CNN).algorithm.upper()

    assert upper(0) == []
    assert upper(1) == ["head.fc2.weight", "head.fc2.bias"]
    assert upper(2) == ["body.fc1.weight", "body.fc1.bias", *upper(1)]
    assert upper(4) == upper(9) == list(fedala(**TOY_CNN).server["theta"])


@pytest.mark.parametrize("p", [1, 2])
def test_gradient_of_a_weight_is_the_finite_difference_of_the_loss(p: int):
    step = 1e-4
    federation = fedala({"p": p, "eta_w": 1.0, "share": 1.0, "batch_size": 1000, "lr": 0.5})
    with_weights(federation, 0.5)
    client, algorithm = federation.client(0), federation.algorithm
    g, a, old = federation.server["theta"], client.state["theta"], client.state["W"]
    _, new = algorithm.merged(client, federation.server)
    x, y = next(client.samples())

    def loss(name, entry, change):
        theta = {n: t.double() for n, t in g.items()}
        for upper, w in old.items():
            w = w.double()
            if upper == name:
                w.view(-1)[entry] += change
            theta[upper] = w * g[upper].double() + (1 - w) * a[upper].double()
        return cross_entropy(algorithm.net(theta).double()(x.double()), y)

    for name, w in new.items():
        used = (old[name] - w).flatten()  # eta_w G (g - a)
        entry = int(used.abs().argmax())
        measured = (loss(name, entry, step) - loss(name, entry, -step)) / (2 * step)
        assert 1e-4 < measured.abs() < 0.5  # not clipped
        torch.testing.assert_close(used[entry].double(), measured, rtol=1e-3, atol=1e-6)


def test_every_batch_takes_the_gradient_at_the_newest_weights():
    federation = with_weights(fedala({"share": 1.0, "batch_size": 8, "lr": 0.5, "eta_w": 5.0}), 0.5)
    client, algorithm = federation.client(0), federation.algorithm
    g, a, W = federation.server["theta"], client.state["theta"], client.state["W"]
    net, batches = algorithm.net(g), list(algorithm.subset(client))
    assert len(batches) > 2
    for x, y in batches:
        W = {name: w.detach().requires_grad_() for name, w in W.items()}
        upper = {name: w * g[name] + (1 - w) * a[name] for name, w in W.items()}
        loss = cross_entropy(functional_call(net, upper, (x,)), y)
        gradient = torch.autograd.grad(loss, list(W.values()))
        W = {
            name: (w - 5.0 * d).clamp(0, 1)
            for (name, w), d in zip(W.items(), gradient, strict=True)
        }
    _, found = algorithm.merged(client, federation.server)
    for name, w in found.items():
        torch.testing.assert_close(w, W[name].detach(), rtol=1e-5, atol=1e-6)


def test_weights_stay_between_zero_and_one_and_merged_layers_between_own_and_global():
    federation = played(fedala({"eta_w": 10.0, "lr": 0.5}), 2)
    inside = False
    for id in range(4):
        client = federation.client(id)
        theta, W = federation.algorithm.merged(client, federation.server)
        assert equal(phi(theta), phi(federation.server["theta"]))
        for name, w in W.items():
            assert ((w >= 0) & (w <= 1)).all()
            inside |= bool(((w > 0) & (w < 1)).any())
            g, a = federation.server["theta"][name], client.state["theta"][name]
            low, high = torch.minimum(g, a) - 1e-6, torch.maximum(g, a) + 1e-6
            assert ((low <= theta[name]) & (theta[name] <= high)).all()
    assert inside


@pytest.mark.parametrize("value", [0.3, None])
def test_where_global_and_own_agree_weights_are_unchanged(value: float | None):
    federation = with_weights(fedala(), value or 0.0)
    client = federation.client(0)
    if value is None:  # never learned before
        client.state["W"] = {}
    theta, W = federation.algorithm.merged(client, {"theta": client.state["theta"]})
    assert all((w == (1.0 if value is None else torch.tensor(value))).all() for w in W.values())
    for name, p in theta.items():
        torch.testing.assert_close(p, client.state["theta"][name], rtol=1e-6, atol=1e-8)


def test_learning_lowers_the_loss_of_the_merged_model():
    split = split_by_class(str(TOY["dataset"]), [[0, 1] * 9, [2, 3] * 9], [[0, 1], [2, 3]])
    federation = played(fedala({"lr": 0.5}, split=split), 2)
    for id in range(2):
        client = federation.client(id)
        x, y = next(client.samples())
        plain, merged = (
            cross_entropy(federation.algorithm.predict(theta, x), y)
            for theta in (federation.server["theta"], model_of(federation, id))
        )
        assert merged < plain


def test_first_learning_ends_after_more_than_ten_calm_passes_or_at_the_bound_and_later_ones_take_one():
    def passes(hparams, rounds):
        federation = played(fedala(hparams), rounds)
        with collect_logs() as logs:
            model_of(federation)
        return logs.get("passes")

    assert passes({}, 0) is None  # first contact: the global model as it is
    assert passes({"threshold": 1e9}, 1) == 11
    assert passes({"threshold": 0.0, "max_passes": 17}, 1) == 17
    assert passes({"threshold": 0.0, "max_passes": 17}, 2) == 1


def test_calm_are_the_last_losses_of_the_window_by_their_standard_deviation():
    def converged(losses, threshold):
        algorithm: Any = fedala({"window": 3, "threshold": threshold}).algorithm
        return algorithm.converged([torch.tensor(loss) for loss in losses])

    assert converged([9.0, 1.0, 1.0, 1.0], 0.1)
    assert not converged([1.0, 1.0, 1.0, 9.0], 0.1)
    assert not converged([1.0, 1.0, 1.0], 0.1)  # one more loss than the window has is needed
    deviation = (2 / 3) ** 0.5  # of 1, 2 and 3
    assert converged([9.0, 1.0, 2.0, 3.0], deviation + 1e-3)
    assert not converged([9.0, 1.0, 2.0, 3.0], deviation - 1e-3)


def test_the_mean_weight_is_logged():
    federation = with_weights(fedala({"eta_w": 0.0, "p": 2}), 0.25)
    with collect_logs() as logs:
        model_of(federation)
    assert logs["mean_weight"] == 0.25


@pytest.mark.parametrize("n, chosen", [(1, 1), (5, 4), (20, 16)])
def test_subset_is_a_share_of_the_samples_and_never_empty(n: int, chosen: int):
    split = split_by_class(str(TOY["dataset"]), [[0] * n, [1] * 3], [[0], [1]])
    federation = fedala(split=split)
    batches = list(federation.algorithm.subset(federation.client(0)))
    assert [len(y) for _, y in batches] == [chosen]


def test_subset_is_the_same_within_a_round_and_another_in_the_next():
    federation = fedala()

    def drawn():
        return torch.cat([x for x, _ in federation.algorithm.subset(federation.client(0))])

    first = drawn()
    assert torch.equal(drawn(), first)
    federation.step()
    assert not torch.equal(drawn(), first)


def test_evaluated_model_is_the_one_that_the_next_round_starts_from():
    federation = played(fedala({"lr": 0.5}), 2)
    before = [federation.states[id]["W"] for id in range(4)]
    evaluated = [model_of(federation, id) for id in range(4)]
    assert all(equal(federation.states[id]["W"], before[id]) for id in range(4))
    starts = [
        federation.algorithm.merged(federation.client(id), federation.server)[0] for id in range(4)
    ]
    assert all(map(equal, evaluated, starts))


def test_client_that_never_took_part_is_evaluated_with_the_global_model():
    federation = played(fedala(clients=6, participation=0.34))
    for id in set(range(6)) - set(federation.states):
        assert equal(model_of(federation, id), federation.server["theta"])
    assert len(federation.states) < 6
