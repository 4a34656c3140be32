"""Ditto: the identities of a personal model next to FedAvg's."""

from typing import Any

import pytest
import torch

from pflbench import ops
from pflbench.api import Client
from pflbench.testing import equal, played, toy


def close(first, second) -> None:
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-5, atol=1e-7)


def shifted(theta, by=0.1):
    """Another model, for an anchor that is not where training starts."""
    draws = torch.Generator().manual_seed(0)
    return {name: p + by * torch.randn(p.shape, generator=draws) for name, p in theta.items()}


def gradient(federation, theta, batch):
    net = federation.algorithm.task.net(theta)
    ops.cross_entropy_loss(net, *batch).backward()
    return {name: p.grad for name, p in net.named_parameters()}


@pytest.fixture
def one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass reads the personal branch's stream."""
    generator = Client.generator
    monkeypatch.setattr(
        Client, "generator", lambda client, *names: generator(client, *names[:-1], "personal")
    )


@pytest.mark.usefixtures("one_stream")
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_lambda_0_is_local_bit_for_bit(participation: float):
    ditto = played(toy("ditto", {"lam": 0.0, "lr": 0.05}, participation=participation))
    local = played(toy("local", {"lr": 0.05}, participation=participation))
    assert ditto.states.keys() == local.states.keys()
    assert all(equal(ditto.states[i]["v"], local.states[i]["theta"]) for i in ditto.states)


@pytest.mark.parametrize("lam", [0.0, 1.0, 30.0])
def test_for_every_lambda_the_global_models_are_fedavgs_bit_for_bit(lam: float):
    ditto, fedavg = toy("ditto", {"lam": lam, "lr": 0.05}), toy("fedavg", {"lr": 0.05})
    for _ in range(3):
        ditto.step()
        fedavg.step()
        assert equal(ditto.server["theta"], fedavg.server["theta"])


@pytest.mark.parametrize("shared", [False, True])
def test_order_of_the_branches_does_not_matter(shared):
    federation = played(toy("ditto", {"shared_batches": shared, "lr": 0.05}), 1)
    algorithm, client, w = federation.algorithm, federation.client(1), federation.server["theta"]
    u, v = algorithm.global_branch(client, w), algorithm.personal_branch(client, w)
    reply, state = algorithm.client_update(client, {"theta": w})
    assert equal(reply["theta"], u)
    assert equal(state["v"], v)


def test_round_0_first_personal_step_is_fedavgs_on_that_batch():
    hp = {"batch_size": 1000, "lr": 0.05}
    ditto, fedavg = toy("ditto", {**hp, "lam": 30.0, "shared_batches": True}), toy("fedavg", hp)
    for i in range(4):
        v = ditto.algorithm.client_update(ditto.client(i), ditto.server)[1]["v"]
        assert equal(v, fedavg.algorithm.client_update(fedavg.client(i), fedavg.server)[0]["theta"])


@pytest.mark.usefixtures("one_stream")
def test_two_steps_from_the_anchor_differ_from_local_by_eta_lambda_times_the_first_step():
    size = (len(toy("ditto").client(0).y) + 1) // 2
    hp = {"lr": 0.05, "batch_size": size}
    ditto, local = toy("ditto", {**hp, "lam": 4.0}), toy("local", hp)
    a, batches = ditto.algorithm.task.initial, list(ditto.client(0).batches(size, 1, "personal"))
    assert len(batches) == 2
    v = ditto.algorithm.client_update(ditto.client(0), ditto.server)[1]["v"]
    v_2 = local.algorithm.client_update(local.client(0), {})[1]["theta"]
    step = {name: -0.05 * g for name, g in gradient(ditto, a, batches[0]).items()}  # v_1 - a
    close(v, {name: p - 0.05 * 4.0 * step[name] for name, p in v_2.items()})
    assert not equal(v, v_2)


def test_eta_lambda_1_puts_v_at_the_anchor_minus_eta_times_the_gradient_before():
    eta = 0.1
    federation = toy("ditto", {"lr": eta, "lam": 1 / eta, "batch_size": 8})
    algorithm: Any = federation.algorithm
    client = federation.client(0)
    a = shifted(algorithm.task.initial)
    v = client.state["v"]
    for batch in client.batches(8, 1, "personal"):
        g = gradient(federation, v, batch)
        v = {name: p - eta * g[name] for name, p in a.items()}
    close(algorithm.personal_branch(client, a), v)


def test_personal_model_of_an_unselected_client_stays_byte_for_byte():
    federation = played(toy("ditto", participation=0.5), 2)
    kept = {
        i: {name: p.clone() for name, p in state["v"].items()}
        for i, state in federation.states.items()
    }
    cohort = federation.step()[0]["cohort"]
    assert set(kept) - set(cohort)
    assert all(equal(federation.states[i]["v"], v) == (i not in cohort) for i, v in kept.items())


def test_personal_model_is_never_sent():
    federation = toy("ditto")
    record, _ = federation.step()
    size = sum(p.numel() for p in federation.algorithm.task.initial.values())
    assert record["bytes"] == {
        "down": {"theta": 4 * 4 * size},
        "up": {"theta": 4 * 4 * size, "n": 4 * 4},
    }


def test_personal_model_is_not_reset_to_the_global_one():
    federation = played(toy("ditto", {"lr": 0.05, "personal_epochs": 0}), 2)
    assert all(
        equal(state["v"], federation.algorithm.task.initial) for state in federation.states.values()
    )
