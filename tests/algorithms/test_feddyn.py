"""FedDyn: the identities of dynamic regularization."""

import sys

import pytest
import torch

from pflbench.methods import registry
from pflbench.testing import equal, played, toy
from pflbench.testing.problem import TOY_CNN
from pflbench.testing.subject import evaluation_messages
from tests.factories import quadratic


def close(first, second, atol=1e-6) -> None:
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-4, atol=atol)


def gradient(federation, id, theta):
    """grad CE of all the client's data."""
    net = federation.algorithm.task.net(theta)
    x, y = next(federation.client(id).samples())
    torch.nn.functional.cross_entropy(net(x), y).backward()
    return {name: p.grad for name, p in net.named_parameters()}


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_the_first_round_is_fedproxs_and_the_server_goes_twice_as_far(settings):
    feddyn = toy("feddyn", {"lr": 0.05, "alpha": 0.3, "clip": 0.0}, **settings)
    fedprox = toy("fedprox", {"lr": 0.05, "mu": 0.3}, **settings)
    start = feddyn.algorithm.task.initial
    own, _ = feddyn.algorithm.client_update(feddyn.client(1), {"theta": start})
    other, _ = fedprox.algorithm.client_update(fedprox.client(1), {"theta": start})
    assert equal(own["theta"], other["theta"])
    record, _ = feddyn.step()
    proxs, _ = fedprox.step()
    assert equal(feddyn.server["mean"], fedprox.server["theta"])
    assert record["accuracy"]["pre"] == proxs["accuracy"]["pre"]
    close(feddyn.server["w"], {n: 2 * p - start[n] for n, p in feddyn.server["mean"].items()})


@pytest.mark.parametrize("weights", ["samples", "uniform"])
def test_the_servers_sum_is_that_of_all_clients_at_any_participation(weights: str):
    hparams = {"lr": 0.05, "alpha": 0.1, "weights": weights}
    federation = toy("feddyn", hparams, clients=6, participation=0.4)
    for _ in range(4):
        federation.step()
        total = {name: torch.zeros_like(p) for name, p in federation.server["G"].items()}
        seen = {}
        for id, state in federation.states.items():
            seen[id] = 1 if weights == "uniform" else len(federation.partition.train[id])
            for name, g in state["g"].items():
                total[name] += seen[id] * g.double()
        close(federation.server["G"], total, atol=1e-5)
        assert federation.server["a"].tolist() == [seen.get(id, 0) for id in range(6)]
        scale = 6 * sum(seen.values()) / len(seen)
        mean = federation.server["mean"]
        close(federation.server["w"], {n: mean[n] + (t / scale).float() for n, t in total.items()})
    assert len(seen) > 2


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_without_dynamics_it_is_fedprox_and_at_alpha_0_fedavg(alpha: float):
    still = {"dynamic": False, "clip": 0.0}
    feddyn = toy("feddyn", {"lr": 0.05, "alpha": alpha, **still}, participation=0.5)
    other = toy("fedprox", {"lr": 0.05, "mu": alpha}, participation=0.5)
    fedavg = toy("fedavg", {"lr": 0.05}, participation=0.5)
    for _ in range(3):
        for federation in (feddyn, other, fedavg):
            federation.step()
        assert equal(feddyn.server["w"], other.server["theta"])
        assert equal(feddyn.server["w"], fedavg.server["theta"]) == (alpha == 0)
    assert all(g.abs().max() == 0 for s in feddyn.states.values() for g in s["g"].values())


def test_alpha_0_is_not_fedavg_where_it_is_dynamic():
    feddyn = played(toy("feddyn", {"lr": 0.05, "alpha": 0.0, "clip": 0.0}), 2)
    fedavg = played(toy("fedavg", {"lr": 0.05}), 2)
    assert not equal(feddyn.server["mean"], fedavg.server["theta"])


def test_two_quadratics_by_hand(monkeypatch: pytest.MonkeyPatch):
    module = sys.modules[registry.load("feddyn").__module__]
    monkeypatch.setattr(module, "cross_entropy_loss", quadratic.loss)
    federation = quadratic.two_clients("feddyn", {"lr": 0.1, "alpha": 0.1, "clip": 0.0})
    algorithm = federation.algorithm
    federation.server = {
        **federation.server,
        "w": quadratic.constant(algorithm.task.initial, 3.0),
    }

    def trained():
        message = {"theta": federation.server["w"]}
        replies = [algorithm.client_update(federation.client(id), message)[0] for id in (0, 1)]
        return [quadratic.only(reply["theta"]) for reply in replies]

    assert trained() == pytest.approx([2.7, 2.9])
    federation.step()
    g = [quadratic.only(federation.states[id]["g"]) for id in (0, 1)]
    assert g == pytest.approx([-0.3, -0.1], abs=1e-6)
    assert quadratic.only(federation.server["w"]) == pytest.approx(2.6)
    h = -0.1 * quadratic.only(federation.server["G"]) / federation.server["a"].sum()
    assert float(h) == pytest.approx(0.02)
    assert trained() == pytest.approx([2.343, 2.541])
    federation.step()
    assert quadratic.only(federation.server["w"]) == pytest.approx(2.084)


def test_the_step_at_w_goes_along_the_gradient_and_alpha_g():
    hparams = {"lr": 0.1, "alpha": 0.7, "batch_size": 1000, "clip": 0.0}
    federation = played(toy("feddyn", hparams), 2)
    w, g = federation.server["w"], federation.states[1]["g"]
    reply, state = federation.algorithm.client_update(federation.client(1), {"theta": w})
    ce = gradient(federation, 1, w)
    close(reply["theta"], {n: w[n] - 0.1 * (ce[n] + 0.7 * g[n]) for n in w})
    close(state["g"], {n: g[n] + reply["theta"][n] - w[n] for n in w})


def test_rate_0_moves_nothing():
    federation = played(toy("feddyn", {"lr": 0.0, "alpha": 0.1}), 2)
    start = federation.algorithm.task.initial
    close(federation.server["w"], start)
    close(federation.server["mean"], start)
    assert all(g.abs().max() == 0 for g in federation.server["G"].values())


def test_gradients_are_clipped():
    federation = toy("feddyn", {"lr": 1.0, "clip": 1e-3, "batch_size": 1000})
    w = federation.server["w"]
    reply, _ = federation.algorithm.client_update(federation.client(0), {"theta": w})
    moves = torch.cat([(reply["theta"][n] - w[n]).flatten() for n in w])
    assert moves.norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_the_mean_is_evaluated_and_the_cloud_is_a_series_of_its_own():
    federation = toy("feddyn", {"lr": 0.1, "alpha": 0.1})
    record = federation.start()[0]
    assert record["accuracy"]["pre"] == record["accuracy"]["cloud"]
    played(federation, 1)
    client, message = federation.client(2), evaluation_messages(federation, (2,))[2]
    algorithm, server = federation.algorithm, federation.server
    assert equal(algorithm.personal_model(client, message), server["mean"])
    assert equal(algorithm.extra_models(client, message)["cloud"], server["w"])
    assert not equal(server["mean"], server["w"])
