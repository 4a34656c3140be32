"""GPFL: the identities of the conditional valve and the class embeddings."""

import math
import sys
from typing import Any

import pytest
import torch

from pflbench.methods import registry
from pflbench.ops import local_sgd
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy
from pflbench.testing.problem import TOY_CNN


def module() -> Any:
    return sys.modules[registry.load("gpfl").__module__]


def open_valve(federation) -> None:
    """gamma = beta = 0: the valve is the identity."""
    V = federation.server["V"]
    zeroed = {name: 0 * p if name.endswith(("scale", "shift")) else p for name, p in V.items()}
    federation.server = {**federation.server, "V": zeroed}


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_an_open_valve_without_guidance_is_fedper(monkeypatch: pytest.MonkeyPatch, settings):
    def frozen(*arguments, besides):
        return local_sgd(*arguments, besides=[(group, 0.0) for group, _ in besides])

    monkeypatch.setattr(module(), "local_sgd", frozen)
    gpfl = toy("gpfl", {"lr": 0.05, "lam": 0.0, "mu": 0.0, "guide": 0.0}, **settings)
    open_valve(gpfl)
    fedper = toy("fedper", {"lr": 0.05}, **settings)
    for _ in range(2):
        record, _ = gpfl.step()
        other, _ = fedper.step()
        assert equal(gpfl.server["phi"], fedper.server["phi"])
        assert record["accuracy"] == other["accuracy"]
    assert all(equal(gpfl.states[i]["pi"], fedper.states[i]["pi"]) for i in range(4))


def test_the_loss_of_angles_lies_between_its_bounds_and_ignores_lengths():
    low, high = (math.log(1 + 9 * math.exp(sign * 2)) for sign in (-1, 1))
    assert (low, high) == (pytest.approx(0.797, abs=1e-3), pytest.approx(4.212, abs=1e-3))
    E = torch.full((10, 5), -1.0)
    E[3] = 1.0
    z, y = torch.ones(2, 5), torch.tensor([3, 3])
    angles = module().angle_loss
    assert angles(z, E, y).item() == pytest.approx(low, rel=1e-5)
    assert angles(-z, E, y).item() == pytest.approx(high, rel=1e-5)
    z, E = torch.rand(6, 5), torch.randn(10, 5)
    y = torch.tensor([0, 1, 9, 4, 4, 2])
    assert low < angles(z, E, y).item() < high
    torch.testing.assert_close(angles(3 * z, 0.2 * E, y), angles(z, E, y))


def test_equal_embeddings_tell_nothing():
    z = torch.rand(4, 5).requires_grad_()
    loss = module().angle_loss(z, torch.randn(5).expand(10, 5), torch.tensor([1, 2, 3, 3]))
    assert loss.item() == pytest.approx(math.log(10), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient.abs().max() < 1e-6


def test_the_norm_of_a_batch_by_hand_and_its_gradient_at_0():
    F = torch.zeros(2, 2)
    z = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    y = torch.tensor([0, 1])
    assert module().magnitude_loss(z, F, y).item() == 5
    z = F.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(module().magnitude_loss(z, F, y), z)
    assert torch.equal(gradient, F)


def test_the_valve_by_hand():
    algorithm: Any = toy("gpfl").algorithm
    V, u, z = algorithm.initial_valve(), torch.randn(8), torch.rand(3, 8)
    V = {name: p + 0.1 * torch.rand_like(p) for name, p in V.items()}
    factors = []
    for part in ("gamma", "beta"):
        hidden = (V[f"{part}.weight"] @ u + V[f"{part}.bias"]).clamp(min=0)
        centred = hidden - hidden.mean()
        normed = centred / (centred.square().mean() + 1e-5).sqrt()
        factors.append(normed * V[f"{part}.scale"] + V[f"{part}.shift"])
    expected = (z * (1 + factors[0]) + factors[1]).clamp(min=0)
    torch.testing.assert_close(module().valve(V, z, u), expected)


def test_conditions_by_hand():
    split = split_by_class(TOY["dataset"], [[0, 1, 2, 3] * 3, [2] * 5, [0, 0, 0, 1]], [[0]] * 3)
    federation = toy("gpfl", split=split)
    algorithm: Any = federation.algorithm
    E = federation.server["E"]
    found = [algorithm.conditions(federation.client(id), E) for id in range(3)]
    for generic, _ in found:
        torch.testing.assert_close(generic, E.mean(0))
    torch.testing.assert_close(found[0][1], found[0][0])  # all classes alike: z_P = z_G
    assert torch.equal(found[1][1], E[2])
    torch.testing.assert_close(found[2][1], 0.75 * E[0] + 0.25 * E[1])


def parts_of_loss(**hparams):
    """The method's loss on a batch, all that it reads, and the network."""
    federation = played(toy("gpfl", {"lr": 0.05, **hparams}), 1)
    algorithm: Any = federation.algorithm
    client, server = federation.client(0), federation.server
    E, F = server["E"].clone().requires_grad_(), server["E"].clone().requires_grad_()
    V = {name: p.clone().requires_grad_() for name, p in server["V"].items()}
    net = algorithm.task.net({**server["phi"], **client.state["pi"]})
    conditions = algorithm.conditions(client, server["E"])
    loss = algorithm.loss(E, V, F, *conditions)
    x, y = next(client.batches(16))
    return loss(net, x, y), (net, x, y), (E, V, F, conditions)


def test_the_loss_is_the_sum_of_its_terms():
    hparams = {"lam": 0.3, "mu": 0.2, "guide": 0.7}
    value, (net, x, y), (E, V, F, (generic, own)) = parts_of_loss(**hparams)
    z = net.body(x)
    z_G, z_P = (module().valve(V, z, u) for u in (generic, own))
    squares = E.square().sum() + sum(p.square().sum() for p in V.values())
    cosines = torch.nn.functional.cosine_similarity(z_G[:, None], E[None], dim=2)
    entropy = torch.nn.functional.cross_entropy
    guiding = 0.7 * entropy(cosines, y) + 0.3 * (z_G - F[y]).square().sum().sqrt()
    torch.testing.assert_close(value, entropy(net.head(z_P), y) + guiding + 0.1 * squares)


@pytest.mark.parametrize("guidance", [{"guide": 1.0}, {"lam": 0.5}], ids=["angles", "magnitudes"])
def test_neither_term_of_the_guidance_reaches_the_head(guidance):
    gradients = []
    for hparams in ({}, guidance):
        value, (net, _, _), _ = parts_of_loss(**{"lam": 0.0, "guide": 0.0, **hparams}, epochs=0)
        gradients.append(torch.autograd.grad(value, [*net.head.parameters(), net.body.fc1.weight]))
    assert all(torch.equal(a, b) for a, b in zip(*(g[:-1] for g in gradients), strict=True))
    assert not torch.equal(gradients[0][-1], gradients[1][-1])


@pytest.mark.parametrize("guide", [0.0, 1.0])
def test_frozen_embeddings_and_conditions_have_no_gradient(guide: float):
    """Without angles and decay nothing moves E: no gradient comes through F, g or p_i."""
    federation = played(toy("gpfl", {"lr": 0.05}), 1)
    hparams = {"lr": 0.05, "lam": 0.5, "mu": 0.0, "guide": guide}
    algorithm: Any = toy("gpfl", hparams).algorithm
    reply, _ = algorithm.client_update(federation.client(0), federation.server)
    assert torch.equal(reply["E"], federation.server["E"]) == (guide == 0.0)
    assert not equal(reply["V"], federation.server["V"])
    conditions = algorithm.conditions(federation.client(0), federation.server["E"])
    assert not any(one.requires_grad for one in conditions)


def test_what_is_received_stays_and_the_head_is_not_sent():
    federation = played(toy("gpfl", {"lr": 0.05}), 1)
    message = federation.server
    before = message["E"].clone()
    reply, state = federation.algorithm.client_update(federation.client(0), message)
    assert torch.equal(message["E"], before)
    assert reply.keys() == {"phi", "E", "V", "n"}
    assert state.keys() == {"pi"}
    assert not torch.equal(reply["E"], message["E"])
    assert not equal(reply["V"], message["V"])
    assert all(name.startswith("body.") for name in reply["phi"])


def test_own_conditions_come_from_the_embeddings_that_the_client_trained():
    federation = toy("gpfl", {"lr": 0.05, "conditions": "own"})
    algorithm: Any = federation.algorithm
    generic, own = algorithm.conditions(federation.client(0), federation.server["E"])
    assert generic.abs().max() == own.abs().max() == 0
    played(federation, 1)
    generic, _ = algorithm.conditions(federation.client(0), federation.server["E"])
    torch.testing.assert_close(generic, federation.states[0]["E"].mean(0))
    assert not torch.equal(federation.states[0]["E"], federation.server["E"])


def test_embeddings_and_valve_are_averaged_by_samples():
    federation = played(toy("gpfl", {"lr": 0.05}), 1)
    algorithm, server = federation.algorithm, federation.server
    replies = {i: algorithm.client_update(federation.client(i), server)[0] for i in range(4)}
    n = torch.tensor([len(rows) for rows in federation.partition.train]).double()
    federation.step()
    for part in (
        lambda r: r["E"],
        lambda r: r["V"]["beta.shift"],
        lambda r: r["phi"]["body.fc1.bias"],
    ):
        stacked = torch.stack([part(replies[i]).double() for i in range(4)])
        mean = torch.einsum("i,i...->...", n / n.sum(), stacked)
        torch.testing.assert_close(part(federation.server).double(), mean, rtol=1e-5, atol=1e-7)


def test_the_model_is_evaluated_under_the_personal_condition():
    federation = played(toy("gpfl", {"lr": 0.05}), 2)
    algorithm: Any = federation.algorithm
    client, server = federation.client(1), federation.server
    x, _ = next(client.samples())
    net = algorithm.task.net({**server["phi"], **client.state["pi"]})
    _, own = algorithm.conditions(client, server["E"])
    expected = net.head(module().valve(server["V"], net.body(x), own))
    torch.testing.assert_close(algorithm.predict(personal(federation, 1), x), expected)


@pytest.mark.parametrize("head_layers", [0, 3])
def test_other_splits_of_the_network_work(head_layers: int):
    federation = played(toy("gpfl", {"lr": 0.05}, **{**TOY_CNN, "head_layers": head_layers}), 1)
    assert federation.server["E"].shape == (4, federation.algorithm.task.width)
