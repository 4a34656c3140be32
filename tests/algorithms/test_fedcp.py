"""FedCP: the identities of representations that are divided between two heads."""

import math
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from pflbench.methods import registry
from pflbench.ops import local_sgd, phi, pi
from pflbench.testing import equal, personal, played, toy
from pflbench.testing.problem import TOY_CNN


def module() -> Any:
    return sys.modules[registry.load("fedcp").__module__]


def test_the_masks_of_an_entry_add_up_to_1_and_follow_its_two_scores():
    scores = torch.randn(3, 2, 5)
    s, r = module().masks(scores, 0.7)
    torch.testing.assert_close(s + r, torch.ones(3, 5))
    torch.testing.assert_close(s, torch.sigmoid((scores[:, 0] - scores[:, 1]) / 0.7))


def test_equal_scores_give_each_head_half_of_the_representation():
    federation = played(toy("fedcp", {"lr": 0.1}), 2)
    algorithm, server = federation.algorithm, federation.server
    even = {name: torch.zeros_like(p) for name, p in server["Q"].items()}
    model = {**personal(federation), "Q": even}
    x, _ = next(federation.client(0).samples())
    z = algorithm.task.net(model["theta"]).body(x)
    own, common = model["theta"], server["pi"]
    weights = own["head.fc2.weight"] + common["head.fc2.weight"]
    biases = own["head.fc2.bias"] + common["head.fc2.bias"]
    torch.testing.assert_close(algorithm.predict(model, x), z @ weights.T / 2 + biases)


def test_each_head_gets_its_own_part_of_the_representation():
    federation = played(toy("fedcp", {"lr": 0.3}), 3)
    model, algorithm = personal(federation), federation.algorithm
    x, _ = next(federation.client(0).samples())
    net = algorithm.task.net(model["theta"])
    z = net.body(x)
    context = module().context_of(pi(model["theta"]), 8)
    s, r = module().masks(module().policy(model["Q"], z, context), 1.0)
    assert (s - r).abs().max() > 0.1
    weight, bias = federation.server["pi"].values()
    torch.testing.assert_close(
        algorithm.predict(model, x), net.head(s * z) + (r * z) @ weight.T + bias
    )


def test_the_policy_by_hand():
    algorithm: Any = toy("fedcp").algorithm
    Q = {name: p + 0.1 * torch.rand_like(p) for name, p in algorithm.initial_policy().items()}
    z, context = torch.rand(3, 8), torch.randn(8)
    hidden = (z * context) @ Q["policy.weight"].T + Q["policy.bias"]
    centred = hidden - hidden.mean(1, keepdim=True)
    normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    scores = (normed * Q["policy.scale"] + Q["policy.shift"]).clamp(min=0)
    found = module().policy(Q, z, context)
    torch.testing.assert_close(found[:, 0], scores[:, :8])
    torch.testing.assert_close(found[:, 1], scores[:, 8:])


def test_the_first_step_of_a_round_does_not_depend_on_lambda_but_the_second_does():
    ends = {}
    for lam in (0.0, 10.0):
        for size in (1000, 8):
            federation = played(toy("fedcp", {"lr": 0.1, "lam": 0.0, "batch_size": size}), 1)
            algorithm = toy("fedcp", {"lr": 0.1, "lam": lam, "batch_size": size}).algorithm
            reply, _ = algorithm.client_update(federation.client(0), federation.server)
            ends[lam, size] = reply["phi"]["body.fc1.weight"]
    torch.testing.assert_close(ends[0.0, 1000], ends[10.0, 1000], rtol=1e-4, atol=1e-6)
    assert (ends[0.0, 8] - ends[10.0, 8]).abs().max() > 1e-5


@pytest.mark.parametrize("epochs", [0, 1])
def test_the_head_that_is_sent_is_the_mean_of_own_and_received(epochs: int):
    federation = toy("fedcp", {"lr": 0.1, "epochs": epochs})
    if epochs:
        played(federation, 1)
    server = federation.server
    kept = {name: p.clone() for name, p in server["pi"].items()}
    reply, state = federation.algorithm.client_update(federation.client(0), server)
    assert equal(server["pi"], kept)
    assert reply.keys() == {"phi", "pi", "Q", "n"}
    for name, p in reply["pi"].items():
        torch.testing.assert_close(p, (state["pi"][name] + kept[name]) / 2)
    initial = federation.algorithm.task.initial
    assert equal(reply["pi"], pi(initial)) == (epochs == 0)
    assert equal(reply["phi"], phi(initial)) == (epochs == 0)


@pytest.mark.parametrize("settings", [{}, {**TOY_CNN, "model": "cnn_bn"}], ids=["mlp", "cnn_bn"])
def test_training_leaves_the_frozen_global_model_as_it_was(monkeypatch, settings):
    """phi_G and pi_G, and the running statistics of phi_G."""
    federation = played(toy("fedcp", {"lr": 0.1}, **settings), 1)
    algorithm, server = federation.algorithm, federation.server
    made = []
    whole = type(algorithm).net

    def recorded(self, theta):
        made.append(whole(self, theta))
        return made[-1]

    monkeypatch.setattr(type(algorithm), "net", recorded)
    reply, _ = algorithm.client_update(federation.client(0), server)
    (frozen,) = made
    assert equal(frozen.parameters_now(), {**server["phi"], **server["pi"]})
    assert not any(p.requires_grad for p in frozen.parameters())
    assert not equal(reply["phi"], server["phi"])


def test_with_a_head_at_rate_0_the_first_head_that_is_sent_is_the_initial_one(monkeypatch):
    monkeypatch.setattr(module(), "local_sgd", partial(local_sgd, part="body"))
    federation = toy("fedcp", {"lr": 0.1})
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    initial = federation.algorithm.task.initial
    assert equal(reply["pi"], pi(initial))
    assert equal(state["pi"], pi(initial))
    assert not equal(reply["phi"], phi(initial))
    assert not equal(reply["Q"], federation.server["Q"])


def test_the_context_is_a_direction():
    head = {"head.fc2.weight": torch.randn(4, 8), "head.fc2.bias": torch.randn(4)}
    found = module().context_of(head, 8)
    expected = head["head.fc2.weight"].sum(0)
    torch.testing.assert_close(found, expected / expected.norm())
    longer = {**head, "head.fc2.weight": 5 * head["head.fc2.weight"]}
    torch.testing.assert_close(module().context_of(longer, 8), found)


def test_the_context_of_other_heads():
    first, second = torch.randn(6, 8), torch.randn(4, 6)
    layers = {"head.a.weight": first, "head.a.bias": torch.randn(6), "head.b.weight": second}
    expected = (second @ first).sum(0)
    torch.testing.assert_close(module().context_of(layers, 8), expected / expected.norm())
    assert torch.equal(module().context_of({}, 8), torch.ones(8))
    assert torch.equal(
        module().context_of({"head.c.weight": torch.randn(2, 3, 5, 5)}, 8), torch.ones(8)
    )


def test_the_kernel_and_the_discrepancy_by_hand(monkeypatch: pytest.MonkeyPatch):
    a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 4.0]])  # d^2 = 20
    assert module().WIDTHS == (10.0, 15.0, 20.0, 50.0)
    terms = [math.exp(-20 / (2 * w)) for w in (10, 15, 20, 50)]
    assert module().kernel(a, b).item() == pytest.approx(sum(terms))
    assert module().mmd(a, b).item() == pytest.approx(8 - 2 * sum(terms))
    monkeypatch.setattr(module(), "WIDTHS", (10.0,))
    assert module().kernel(a, b).item() == pytest.approx(math.exp(-1))


def test_the_discrepancy_is_symmetric_not_negative_and_0_of_the_same():
    z, u = torch.rand(7, 5), 2 * torch.rand(7, 5)
    distance = module().mmd(z, u)
    torch.testing.assert_close(distance, module().mmd(u, z))
    assert distance > 0
    leaf = z.clone().requires_grad_()
    same = module().mmd(leaf, z)
    assert abs(same.item()) < 1e-6
    (gradient,) = torch.autograd.grad(same, leaf)
    assert gradient.abs().max() < 1e-6


def test_noise_is_standard_gumbel_from_the_clients_stream():
    draws = torch.Generator().manual_seed(0)
    noise = module().gumbel(torch.zeros(100, 2, 100), draws)
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.03)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.06)


def test_evaluation_has_no_noise_and_training_has():
    federation = played(toy("fedcp", {"lr": 0.1}), 1)
    x, y = next(federation.client(0).samples())
    model, algorithm = personal(federation), federation.algorithm
    assert torch.equal(algorithm.predict(model, x), algorithm.predict(model, x))
    client = federation.client(0)
    losses = []
    for round in (1, 2):
        method: Any = algorithm
        at_round = replace(client, round=round)
        loss = method.loss(at_round, federation.server, federation.server["Q"])
        losses.append(loss(algorithm.task.net(model["theta"]), x, y).item())
    assert losses[0] != losses[1]


def test_other_clients_heads_are_kept_and_evaluated_with_new_shared_parts():
    federation = played(toy("fedcp", {"lr": 0.1}, clients=6, participation=0.2), 1)
    absent = next(id for id in range(6) if id not in federation.states)
    model = personal(federation, absent)
    assert equal(pi(model["theta"]), pi(federation.algorithm.task.initial))
    assert equal(phi(model["theta"]), federation.server["phi"])
    assert equal(model["Q"], federation.server["Q"])


@pytest.mark.parametrize("head_layers", [0, 3])
def test_other_splits_of_the_network_work(head_layers: int):
    federation = played(toy("fedcp", {"lr": 0.05}, **{**TOY_CNN, "head_layers": head_layers}), 1)
    assert federation.server["Q"]["policy.scale"].shape == (2 * federation.algorithm.task.width,)
