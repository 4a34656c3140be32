"""MOON: the identities of the model-contrastive term."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cosine_similarity

from pflbench.api import Task
from pflbench.testing import equal, toy
from pflbench.testing.problem import TOY_CNN


def z_of(seed, n=12, k=8):
    # as after ReLU: not negative
    return torch.rand(n, k, generator=torch.Generator().manual_seed(seed))


def shaken(theta, seed, size=0.3):
    draws = torch.Generator().manual_seed(seed)
    return {name: p + size * torch.randn(p.shape, generator=draws) for name, p in theta.items()}


def margin(z, z_glob, z_prev):
    return (cosine_similarity(z, z_glob) - cosine_similarity(z, z_prev)).mean()


def contrast(z, z_glob, z_prev, temperature=0.5):
    return toy("moon", {"temperature": temperature}).algorithm.contrast(z, z_glob, z_prev)


def with_other_previous(federation):
    """A client whose previous model is neither the global one nor the initial one."""
    return replace(federation.client(0), state={"previous": shaken(federation.server["theta"], 1)})


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_mu_0_is_fedavg_bit_for_bit(settings):
    moon, avg = (
        toy("moon", {"mu": 0.0, "lr": 0.1}, **settings),
        toy("fedavg", {"lr": 0.1}, **settings),
    )
    for _ in range(3):
        moon.step()
        avg.step()
        assert equal(moon.server["theta"], avg.server["theta"])


def test_round_0_is_fedavg_with_mu_log_2_more_loss_and_later_ones_are_not():
    moon, avg = toy("moon", {"mu": 5.0, "lr": 0.1}), toy("fedavg", {"lr": 0.1})
    record, plain = moon.step()[0], avg.step()[0]
    assert record["loss"] - plain["loss"] == pytest.approx(5.0 * math.log(2), rel=1e-6)
    assert record["logs"]["contrast"] == pytest.approx([math.log(2)] * 4, rel=1e-6)
    for name, p in avg.server["theta"].items():
        torch.testing.assert_close(moon.server["theta"][name], p, rtol=0, atol=1e-6)
    moon.step()
    avg.step()
    assert any(
        (moon.server["theta"][name] - p).abs().max() > 1e-3
        for name, p in avg.server["theta"].items()
    )


@pytest.mark.parametrize("tau", [0.5, 1.0])
def test_term_lies_within_its_bounds_and_reaches_them(tau):
    low, high = math.log1p(math.exp(-1 / tau)), math.log1p(math.exp(1 / tau))
    term = toy("moon", {"temperature": tau}).algorithm.contrast
    for row in zip(*(z_of(i, n=200) for i in range(3)), strict=True):
        assert low <= term(*(z[None] for z in row)) <= high
    e1, e2 = torch.eye(2)[:, None]
    assert term(e1, e1, e2).item() == pytest.approx(low)
    assert term(e1, e2, e1).item() == pytest.approx(high)


def test_a_step_on_the_term_alone_increases_the_margin():
    z, z_glob, z_prev = z_of(0).requires_grad_(), z_of(1), z_of(2)
    contrast(z, z_glob, z_prev).backward()
    assert margin(z - 0.1 * z.grad, z_glob, z_prev) > margin(z, z_glob, z_prev)


def test_training_moves_towards_the_global_and_away_from_the_previous_model():
    margins = {}
    for mu in (0.0, 10.0):
        federation = toy("moon", {"mu": mu, "lr": 0.01})
        client, message = with_other_previous(federation), federation.server
        reply, _ = federation.algorithm.client_update(client, message)
        x, _ = next(client.samples())
        models = (reply["theta"], message["theta"], client.state["previous"])
        margins[mu] = margin(*(client.task.net(theta).body(x) for theta in models))
    assert margins[10.0] > margins[0.0] + 0.01


def test_global_and_previous_model_get_no_gradient_and_keep_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
):
    nets, build = [], Task.net

    def noted(*args, **kwargs):
        nets.append(build(*args, **kwargs))
        return nets[-1]

    monkeypatch.setattr(Task, "net", noted)
    federation = toy("moon", {"mu": 5.0, "lr": 0.1})
    client, message = with_other_previous(federation), federation.server
    reply, _ = federation.algorithm.client_update(client, message)
    frozen, trained = (
        [net for net in nets if not net.training],
        [net for net in nets if net.training],
    )
    assert len(frozen) == 2 and len(trained) == 1
    for net, theta in zip(frozen, (message["theta"], client.state["previous"]), strict=True):
        assert all(p.grad is None for p in net.parameters())
        assert equal(net.parameters_now(), theta)
    assert all(p.grad is not None for p in trained[0].parameters())
    assert not equal(reply["theta"], message["theta"])


def test_infinite_temperature_gives_log_2_and_no_gradient():
    sizes = []
    for tau in (1.0, 1e6):
        z = z_of(0).requires_grad_()
        term = contrast(z, z_of(1), z_of(2), tau)
        term.backward()
        sizes.append(z.grad.abs().max())
    assert term.item() == pytest.approx(math.log(2), abs=1e-6)
    assert sizes[1] < 1e-5 * sizes[0]


@pytest.mark.parametrize("scaled", [0, 1, 2])
def test_scaling_the_representation_of_any_one_model_changes_nothing(scaled):
    z = [z_of(i) for i in range(3)]
    before = contrast(*z)
    z[scaled] = 7.3 * z[scaled]
    torch.testing.assert_close(contrast(*z), before, rtol=1e-6, atol=0)


def test_previous_model_is_the_last_upload_and_unselected_clients_keep_theirs():
    federation = toy("moon", {"lr": 0.1}, clients=6, participation=0.34)
    replies = {}
    for _ in range(4):
        ids = federation.select()
        message = federation.algorithm.download(federation.server, ids)
        replies |= {
            id: federation.algorithm.client_update(federation.client(id), message[id])[0]
            for id in ids
        }
        federation.step()
        for id in range(6):
            expected = replies[id]["theta"] if id in replies else federation.algorithm.task.initial
            assert equal(federation.state(id)["previous"], expected)
