"""FedProx: the identities of the proximal term."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from pflbench.testing import equal, toy
from pflbench.testing.problem import TOY_CNN


def close(first, second) -> None:
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-5, atol=1e-6)


def later(name, hp):
    """One client after its first round: the anchor is no longer the initial model."""
    federation = toy(name, hp, clients=1)
    federation.step()
    return federation


def reply_to(federation, theta):
    return federation.algorithm.client_update(federation.client(0), {"theta": theta})[0]["theta"]


def gradient(federation, theta, x, y):
    net = federation.algorithm.task.net(theta)
    cross_entropy(net(x), y).backward()
    return {name: p.grad for name, p in net.named_parameters()}


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_mu_0_is_fedavg_bit_for_bit_in_every_round(settings):
    prox, avg = (
        toy("fedprox", {"mu": 0.0, "lr": 0.1}, **settings),
        toy("fedavg", {"lr": 0.1}, **settings),
    )
    for _ in range(3):
        prox.step()
        avg.step()
        assert equal(prox.server["theta"], avg.server["theta"])


def test_one_step_in_a_round_is_fedavg_for_any_mu():
    one = {"batch_size": 1000, "lr": 0.1}
    prox, avg = toy("fedprox", {"mu": 7.0, **one}), toy("fedavg", one)
    for _ in range(3):
        prox.step()
        avg.step()
        assert equal(prox.server["theta"], avg.server["theta"])


def test_second_step_is_fedavgs_less_eta_mu_times_the_distance():
    eta, mu = 0.1, 2.0
    n = int(toy("fedprox", clients=1).client(0).n)
    hp = {"lr": eta, "batch_size": (n + 1) // 2}
    prox, avg = later("fedprox", {"mu": mu, **hp}), later("fedavg", hp)
    a = prox.server["theta"]
    (x, y), _ = prox.client(0).batches(hp["batch_size"])
    g = gradient(prox, a, x, y)
    two = reply_to(avg, a)
    close(reply_to(prox, a), {name: two[name] - eta * mu * (-eta * g[name]) for name in a})


def test_eta_mu_1_ends_at_the_anchor_less_eta_times_the_last_gradient():
    eta = 0.05
    prox = later("fedprox", {"mu": 1 / eta, "lr": eta})
    a = theta = prox.server["theta"]
    steps = 0
    for x, y in prox.client(0).batches(16):
        g = gradient(prox, theta, x, y)
        theta = {name: a[name] - eta * g[name] for name in a}
        steps += 1
    end = reply_to(prox, a)
    assert steps > 2
    close(end, theta)
    last = torch.cat([v.flatten() for v in g.values()]).norm()
    distance = torch.cat([(end[name] - a[name]).flatten() for name in a]).norm()
    torch.testing.assert_close(distance, eta * last, rtol=1e-4, atol=0)


def test_one_client_with_mu_is_not_local_once_a_round_has_two_steps():
    for batch_size, is_local in ((1000, True), (16, False)):
        hp = {"lr": 0.1, "batch_size": batch_size}
        prox, local = toy("fedprox", {"mu": 0.5, **hp}, clients=1), toy("local", hp, clients=1)
        for _ in range(2):
            prox.step()
            local.step()
        assert equal(prox.server["theta"], local.states[0]["theta"]) == is_local
