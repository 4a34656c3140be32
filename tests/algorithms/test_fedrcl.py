"""FedRCL: the identities of the relaxed contrastive loss."""

import math
import sys

import pytest
import torch
from torch.nn.functional import cosine_similarity

from pflbench import models
from pflbench.methods import registry
from pflbench.testing import equal, toy
from pflbench.testing.problem import TOY_CNN

features = sys.modules[registry.load("fedrcl").__module__].features
both_forms = pytest.mark.parametrize("pairs", ["mined", "all"])


def levels_of(n=12, seed=0, widths=(5, 8)):
    draws = torch.Generator().manual_seed(seed)
    return [(torch.randn(n, k, generator=draws) + 0.5).requires_grad_() for k in widths]


def terms(levels, y, **hp):
    return toy("fedrcl", {"temperature": 0.5, **hp}).algorithm.terms(levels, torch.as_tensor(y))


def no_gradient(term, levels) -> bool:
    gradients = torch.autograd.grad(term, levels, retain_graph=True, allow_unused=True)
    return all(g is None or not g.any() for g in gradients)


@both_forms
@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_without_both_terms_and_clipping_is_fedavg_bit_for_bit(settings, pairs):
    hp = {"w_scl": 0.0, "beta": 0.0, "clip": 0.0, "lr": 0.1, "pairs": pairs}
    rcl, avg = toy("fedrcl", hp, **settings), toy("fedavg", {"lr": 0.1}, **settings)
    for _ in range(3):
        rcl.step()
        avg.step()
        assert equal(rcl.server["theta"], avg.server["theta"])


@both_forms
def test_batch_of_one_class_has_s_exactly_0_without_gradient(pairs):
    levels = levels_of()
    s, r = terms(levels, [3] * 12, pairs=pairs, lam=-1.0)
    assert s.item() == 0.0 and no_gradient(s, levels)
    assert r > 0 and not no_gradient(r, levels)


@both_forms
def test_threshold_above_1_switches_r_off(pairs):
    for seed in range(5):
        levels = levels_of(seed=seed)
        s, r = terms(levels, torch.arange(12) % (seed + 1), pairs=pairs, lam=1.1)
        assert r.item() == 0.0 and no_gradient(r, levels)
    assert s > 0


@both_forms
@pytest.mark.parametrize("cosine", [-0.6, 0.0, 0.8, 1.0])
def test_two_partners_of_cosine_s_have_r_log_of_1_plus_exp_of_s_less_1_over_tau(pairs, cosine):
    pair = torch.tensor([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    expected = math.log1p(math.exp((cosine - 1) / 0.05))
    _, r = terms([pair], [2, 2], pairs=pairs, lam=-1.0, temperature=0.05)
    assert r.item() == pytest.approx(expected, rel=1e-5, abs=1e-12)
    if cosine == 1.0:
        assert r.item() == pytest.approx(math.log(2))
    _, r = terms([pair], [2, 2], pairs=pairs, lam=0.7, temperature=0.05)
    assert r.item() == pytest.approx(expected if cosine > 0.7 else 0.0, rel=1e-5, abs=1e-12)


def test_batch_of_distinct_classes_has_s_from_its_two_hardest_negatives():
    levels, expected = levels_of(), []
    for u in levels:
        for a in range(12):
            h = sorted(
                (cosine_similarity(u[a], u[b], dim=0).item() for b in range(12) if b != a),
                reverse=True,
            )[:2]
            expected.append(math.log(1 + sum(math.exp((cosine - 1) / 0.5) for cosine in h)))
    s, r = terms(levels, torch.arange(12))
    assert s.item() == pytest.approx(sum(expected) / len(expected), rel=1e-5)
    assert r.item() == 0.0 and no_gradient(r, levels)


@both_forms
@pytest.mark.parametrize("scaled", [0, 1])
def test_scaling_a_level_changes_nothing(pairs, scaled):
    levels, y = levels_of(), torch.arange(12) % 3
    before = terms(levels, y, pairs=pairs, lam=0.1)
    levels[scaled] = 7.3 * levels[scaled]
    for term, old in zip(terms(levels, y, pairs=pairs, lam=0.1), before, strict=True):
        assert old > 0
        torch.testing.assert_close(term, old, rtol=1e-5, atol=0)


@both_forms
def test_no_gradient_reaches_the_head_from_s_or_r_but_every_layer_of_the_body(pairs):
    federation = toy("fedrcl", {"pairs": pairs, "temperature": 0.5, "lam": -1.0}, **TOY_CNN)
    net = federation.algorithm.net(federation.server["theta"])
    x, y = next(federation.client(0).batches(16))
    _, levels = features(net.body, x)
    for term in federation.algorithm.terms(levels, y):
        net.zero_grad()
        term.backward(retain_graph=True)
        assert all(p.grad is None for p in net.head.parameters())
        assert all(p.grad.any() for p in net.body.parameters())


def by_hand(u, y, a, pairs, lam, t):
    """S_a and R_a of one anchor, pair by pair."""
    s = [cosine_similarity(u[a], v, dim=0).item() for v in u]
    e = [math.exp(cosine / t) for cosine in s]
    partners = [b for b in range(len(y)) if y[b] == y[a] and b != a]
    negatives = sorted((e[b] for b in range(len(y)) if y[b] != y[a]), reverse=True)
    if pairs == "mined":
        positive = min(e[b] for b in [*partners, a])
        least = min((s[b] for b in partners), default=-2.0)
        close = [math.exp(least / t)] if least >= lam else []
        return -math.log(positive / (positive + sum(negatives[:2]))), math.log(
            1 + sum(close) / math.exp(1 / t)
        )
    each = [-math.log(e[b] / (e[b] + sum(negatives))) for b in partners]
    close = [e[b] for b in partners if s[b] > lam]
    return sum(each) / max(len(each), 1), -math.log(
        math.exp(1 / t) / (math.exp(1 / t) + sum(close))
    )


@both_forms
def test_a_mixed_batch_is_the_mean_over_anchors_and_levels(pairs):
    y = [0, 0, 0, 1, 1, 2, 0, 1, 0, 3, 0, 0]  # 2 and 3 have no partner
    levels = levels_of()
    expected = [by_hand(u.detach(), y, a, pairs, -0.1, 0.5) for u in levels for a in range(12)]
    for term, each in zip(
        terms(levels, y, pairs=pairs, lam=-0.1), zip(*expected, strict=True), strict=True
    ):
        assert sum(value > 0 for value in each) > 3
        assert term.item() == pytest.approx(sum(each) / len(each), rel=1e-5)


@both_forms
@pytest.mark.parametrize("y", [[1], [1, 2], [1, 1], [1, 1, 2]])
def test_terms_of_the_smallest_batches_are_finite_with_their_gradients(pairs, y):
    levels = levels_of(len(y))
    s, r = terms(levels, y, pairs=pairs, temperature=0.05, lam=-1.0)
    gradients = torch.autograd.grad(s + r, levels)
    assert all(value.isfinite().all() for value in (s, r, *gradients))


def test_levels_are_the_layers_with_parameters_before_relu():
    net = models.build("cnn", (1, 28, 28), 10)[0].to_empty(device="cpu")
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.1, generator=torch.Generator().manual_seed(0))
    x = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    z, levels = features(net.body, x)
    assert torch.equal(z, net.body(x))
    assert torch.equal(levels[0], net.body.conv1(x).mean((2, 3)))
    assert torch.equal(levels[-1].relu(), z)
    assert [level.shape[1] for level in levels] == [32, 64, 128]
    assert all((level < 0).any() for level in levels)
    resnet = models.build("resnet18", (3, 32, 32), 10)[0]  # on the meta device: shapes only
    _, levels = features(resnet.body, torch.empty(2, 3, 32, 32, device="meta"))
    assert [level.shape for level in levels] == [(2, k) for k in (64, 64, 64, 128, 256, 512)]


def test_gradient_is_clipped():
    one = {"batch_size": 1000, "lr": 1.0, "temperature": 0.05}
    sizes = {}
    for clip in (0.0, 0.01):
        federation = toy("fedrcl", {"clip": clip, **one})
        theta = federation.algorithm.client_update(federation.client(0), federation.server)[0][
            "theta"
        ]
        sizes[clip] = torch.cat(
            [(p - federation.server["theta"][name]).flatten() for name, p in theta.items()]
        ).norm()
    assert sizes[0.0] > 0.1
    torch.testing.assert_close(sizes[0.01], torch.tensor(0.01), rtol=1e-3, atol=0)


def test_uniform_weighting_is_the_plain_mean():
    federation = toy("fedrcl", {"weighting": "uniform"})
    algorithm = federation.algorithm
    replies = {
        i: algorithm.client_update(federation.client(i), federation.server)[0] for i in range(4)
    }
    assert len({int(reply["n"]) for reply in replies.values()}) > 1
    federation.step()
    for name, p in federation.server["theta"].items():
        plain = torch.stack([reply["theta"][name].double() for reply in replies.values()]).mean(0)
        torch.testing.assert_close(p, plain.float())


def test_rate_decays_by_round():
    one = {"w_scl": 0.0, "beta": 0.0, "clip": 0.0, "batch_size": 1000}
    decayed, plain = (
        toy("fedrcl", {"lr": 0.2, "lr_decay": 0.5, **one}),
        toy("fedrcl", {"lr": 0.1, **one}),
    )
    decayed.step()
    plain.round, plain.server = decayed.round, decayed.server
    decayed.step()
    plain.step()
    assert equal(decayed.server["theta"], plain.server["theta"])
