"""APFL: the identities of a mixture of a private and the global model."""

import sys
from typing import Any

import pytest
import torch

from pflbench.methods import registry
from pflbench.testing import equal, personal, played, toy
from pflbench.testing.problem import TOY_CNN

FIXED = {"adaptive": False, "lr": 0.05}


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
@pytest.mark.parametrize(
    "hparams",
    [{"alpha": 0.3}, {"alpha": 0.9, "adaptive": False}, {"mix": "logits", "dropout": 0.4}],
    ids=str,
)
def test_the_global_models_are_fedavgs_whatever_alpha_is(hparams, settings):
    dropout = {"dropout": hparams.get("dropout", 0.0)}
    apfl = toy("apfl", {"lr": 0.05, **hparams}, **settings)
    fedavg = toy("fedavg", {"lr": 0.05, **dropout}, **settings)
    for _ in range(3):
        record, _ = apfl.step()
        other, _ = fedavg.step()
        assert equal(apfl.server["theta"], fedavg.server["theta"])
        assert record["accuracy"]["global"] == other["accuracy"]["pre"]


@pytest.mark.parametrize("mix", ["parameters", "logits"])
def test_alpha_0_is_fedavg_and_the_private_model_never_moves(mix: str):
    apfl = toy("apfl", {**FIXED, "alpha": 0.0, "mix": mix})
    fedavg = toy("fedavg", {"lr": 0.05})
    for _ in range(2):
        record, _ = apfl.step()
        other, _ = fedavg.step()
        assert record["accuracy"]["pre"] == other["accuracy"]["pre"]
        assert record["accuracy"]["post"] == other["accuracy"]["post"]
    start = apfl.algorithm.task.initial
    assert all(equal(state["v"], start) for state in apfl.states.values())
    if mix == "parameters":
        assert equal(personal(apfl), fedavg.server["theta"])


@pytest.mark.parametrize("mix", ["parameters", "logits"])
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_alpha_1_is_local(mix: str, participation: float):
    apfl = toy("apfl", {**FIXED, "alpha": 1.0, "mix": mix}, participation=participation)
    local = toy("local", {"lr": 0.05}, participation=participation)
    apfl.start()
    local.start()
    for _ in range(3):
        record, _ = apfl.step()
        other, _ = local.step()
        assert all(equal(s["v"], local.states[i]["theta"]) for i, s in apfl.states.items())
        assert record["accuracy"]["post"] == other["accuracy"]["post"]
        assert record["accuracy"]["private"] == other["accuracy"]["pre"]


@pytest.mark.parametrize("decay, expected", [(0.0, 0.65), (0.02, 0.649)])
def test_a_step_on_a_parabola_by_hand(monkeypatch: pytest.MonkeyPatch, decay, expected):
    module = sys.modules[registry.load("apfl").__module__]
    monkeypatch.setattr(module, "cross_entropy", lambda scores, y: scores.square().sum() / 2)
    algorithm: Any = toy("apfl", {"lr": 0.1, "alpha_decay": decay}).algorithm
    w, v, alpha = {"x": torch.tensor(2.0)}, {"x": torch.tensor(1.0)}, torch.tensor(0.5)

    def value(theta):
        return theta["x"]

    for adapt, end in ((True, expected), (False, 0.5)):
        new_w, new_v, new_alpha = algorithm.step(w, v, alpha, value, value, torch.ones(1), adapt)
        assert new_w["x"].item() == pytest.approx(1.8)
        assert new_v["x"].item() == pytest.approx(0.925)
        assert new_alpha.item() == pytest.approx(end)


def batch_of(federation, id=0):
    return next(federation.client(id).batches(16))


@pytest.mark.parametrize("mix", ["parameters", "logits"])
def test_the_gradient_of_alpha_is_a_difference_quotient(mix: str):
    federation = played(toy("apfl", {"lr": 0.3, "mix": mix}), 2)
    algorithm: Any = federation.algorithm
    module: Any = sys.modules[registry.load("apfl").__module__]
    x, y = batch_of(federation)
    net = algorithm.task.net(algorithm.task.initial).double()
    logits = module.logits_of(net, x.double())
    w, v = (
        {name: p.double() for name, p in theta.items()}
        for theta in (federation.server["theta"], federation.states[0]["v"])
    )
    alpha = torch.tensor(0.4, dtype=torch.float64)
    _, found = algorithm.mixed_gradients(w, v, alpha, logits, y)
    ahead, behind = (algorithm.mixed_loss(w, v, alpha + d, logits, y) for d in (1e-5, -1e-5))
    assert found.item() == pytest.approx(float(ahead - behind) / 2e-5, rel=1e-5)
    assert abs(found) > 1e-3


def test_the_step_of_v_has_the_factor_alpha_and_the_gradient_of_the_mixture():
    federation = played(toy("apfl", {"lr": 0.3}), 2)
    algorithm: Any = federation.algorithm
    module: Any = sys.modules[registry.load("apfl").__module__]
    x, y = batch_of(federation)
    net = algorithm.task.net(algorithm.task.initial)
    w, v, alpha = federation.server["theta"], federation.states[0]["v"], torch.tensor(0.4)
    g_v, g_alpha = algorithm.mixed_gradients(w, v, alpha, module.logits_of(net, x), y)
    u = algorithm.task.net({name: 0.4 * v[name] + 0.6 * w[name] for name in v})
    torch.nn.functional.cross_entropy(u(x), y).backward()
    g = {name: p.grad for name, p in u.named_parameters()}
    for name in v:
        torch.testing.assert_close(g_v[name], 0.4 * g[name], rtol=1e-4, atol=1e-6)
    product = sum(((v[name] - w[name]) * g[name]).sum() for name in v)
    torch.testing.assert_close(g_alpha, product, rtol=1e-4, atol=1e-6)


def test_alpha_stays_where_the_models_agree_and_within_its_bounds():
    federation = toy("apfl", {"lr": 0.3, "alpha": 0.7})
    federation.step()  # v = w at its first batch
    assert all(state["alpha"] == torch.tensor(0.7) for state in federation.states.values())
    played(federation, 1)
    assert all(state["alpha"] != torch.tensor(0.7) for state in federation.states.values())
    wild = played(toy("apfl", {"lr": 0.3, "alpha_lr": 100.0}), 3)
    assert all(0 <= state["alpha"] <= 1 for state in wild.states.values())
    assert {float(state["alpha"]) for state in wild.states.values()} & {0.0, 1.0}


def test_what_is_evaluated_is_the_mixture():
    federation = played(toy("apfl", {"lr": 0.1}), 2)
    client = federation.client(1)
    v, alpha, w = client.state["v"], client.state["alpha"], federation.server["theta"]
    model = personal(federation, 1)
    for name, p in model.items():
        torch.testing.assert_close(p, alpha * v[name] + (1 - alpha) * w[name])
    reply = {"theta": federation.algorithm.task.initial}
    trained: Any = federation.algorithm.trained_model(client, {}, reply)
    for name, p in trained.items():
        torch.testing.assert_close(p, alpha * v[name] + (1 - alpha) * reply["theta"][name])


def test_mixed_logits_are_the_mean_of_two_networks():
    federation = played(toy("apfl", {"lr": 0.1, "mix": "logits"}), 2)
    x, _ = batch_of(federation)
    task, state = federation.algorithm.task, federation.states[0]
    scores = federation.algorithm.predict(personal(federation), x)
    own, common = task.net(state["v"])(x), task.net(federation.server["theta"])(x)
    torch.testing.assert_close(scores, state["alpha"] * own + (1 - state["alpha"]) * common)


@pytest.mark.parametrize("unseen", ["mix", "global"])
def test_a_client_that_never_trained_mixes_with_the_start_unless_asked_otherwise(unseen: str):
    hparams = {"lr": 0.1, "unseen": unseen, "alpha": 1.0}
    federation = played(toy("apfl", hparams, clients=6, participation=0.2), 1)
    absent = next(id for id in range(6) if id not in federation.states)
    expected = {"mix": federation.algorithm.task.initial, "global": federation.server["theta"]}
    assert equal(personal(federation, absent), expected[unseen])


def test_v_and_alpha_are_never_sent():
    federation = toy("apfl")
    record, _ = federation.step()
    size = 4 * 4 * sum(p.numel() for p in federation.algorithm.task.initial.values())
    assert record["bytes"] == {"down": {"theta": size}, "up": {"theta": size, "n": 16}}
