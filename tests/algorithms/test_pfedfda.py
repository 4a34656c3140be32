"""pFedFDA: the identities of the discriminant head, of the interpolation and of the shared Gaussians."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pflbench.api import collect_logs
from pflbench.methods import registry
from pflbench.testing import played, split_by_class, toy

plugin: Any = sys.modules[registry.load("pfedfda").__module__]


def personal(federation, id=0, message=None, client=None):
    message = message or federation.algorithm.download(federation.server, (id,))[id]
    return federation.algorithm.personal_model(client or federation.client(id), message)


def problem(seed=0, classes=4, k=6, n=30):
    """Means, a covariance, priors and features, float64."""
    draws = torch.Generator().manual_seed(seed)
    root = torch.randn(k, k, generator=draws, dtype=torch.float64)
    M, z = (torch.randn(rows, k, generator=draws, dtype=torch.float64) for rows in (classes, n))
    q = torch.rand(classes, generator=draws, dtype=torch.float64)
    return M, root @ root.T / k, q / q.sum(), z


def logits(z, M, S, q):
    w, b = plugin.discriminant(plugin.Gaussians(M, S), q)
    return z @ w.T + b


def by_mahalanobis(z, M, S, q):
    """log softmax of -(squared Mahalanobis distance) / 2 + log q, with the covariance that the head is made of."""
    shrunk = (1 - 1e-4) * S + 1e-4 * S.trace() / len(S) * torch.eye(len(S), dtype=torch.float64)
    rest = z[:, None] - M  # (n, C, k)
    squared = torch.einsum("nck,kl,ncl->nc", rest, torch.linalg.inv(shrunk), rest)
    return (q.log() - squared / 2).log_softmax(1)


def test_softmax_of_the_logits_is_that_of_mahalanobis_distances_and_priors_and_so_shift_invariant():
    M, S, q, z = problem()
    ours = logits(z, M, S, q).log_softmax(1)
    torch.testing.assert_close(ours, by_mahalanobis(z, M, S, q), rtol=1e-10, atol=1e-10)
    shift = 3 * problem(seed=1)[0][0]
    torch.testing.assert_close(
        logits(z + shift, M + shift, S, q).log_softmax(1), ours, rtol=1e-10, atol=1e-10
    )


def test_isotropic_covariance_and_uniform_priors_give_the_nearest_mean():
    M, _, _, z = problem(n=200)
    q = torch.full((4,), 0.25, dtype=torch.float64)
    found = logits(z, M, 0.3 * torch.eye(6, dtype=torch.float64), q).argmax(1)
    assert torch.equal(found, torch.cdist(z, M).argmin(1))
    assert len(found.unique()) == 4


def test_beta_0_head_depends_on_the_client_through_its_priors_only():
    federation = played(toy("pfedfda", {"beta": "global"}), 1)
    client = federation.client(0)
    head = personal(federation)
    other = personal(
        federation, client=replace(client, x=255 - client.x[torch.arange(len(client.y))])
    )
    assert torch.equal(head["weight"], other["weight"])
    assert torch.equal(head["bias"], other["bias"])
    y = client.y.clone()
    y[: len(y) // 2] = 0
    other = personal(federation, client=replace(client, y=y))
    assert torch.equal(head["weight"], other["weight"])
    assert not torch.equal(head["bias"], other["bias"])
    change = (client_priors(client.counts) / client_priors(torch.bincount(y, minlength=4))).log()
    torch.testing.assert_close(
        (head["bias"] - other["bias"]).double(), change, rtol=1e-4, atol=1e-5
    )


def client_priors(counts):
    p = counts / counts.sum().double() + 1e-4
    return p / p.sum()


@pytest.mark.parametrize("beta", ["local", "two"])
def test_beta_1_logits_of_known_classes_are_independent_of_the_global_gaussians(beta):
    federation = played(toy("pfedfda", {"beta": beta}), 1)
    client = federation.client(0)
    message = federation.algorithm.download(federation.server, (0,))[0]
    moved = {**message, "means": 1 + 2 * message["means"], "covariance": 5 * message["covariance"]}
    first, second = (personal(federation, message=sent) for sent in (message, moved))
    x, _ = next(client.samples())
    known = client.counts > 2
    assert known.any() and not known.all()
    scores = [federation.algorithm.predict(model, x)[:, known] for model in (first, second)]
    assert torch.equal(*scores) == (beta == "local")


def trained_by_hand(federation, client, message):
    """SGD over the body under a fixed head, made from distances; the new body and all features seen."""
    q = client_priors(client.counts)
    k = federation.algorithm.task.width
    S = torch.zeros(k, k, dtype=torch.float64)
    S[torch.triu_indices(k, k).unbind()] = message["covariance"].double()
    S = S + S.T - S.diagonal().diag()
    S = (1 - 1e-4) * S + 1e-4 * S.trace() / k * torch.eye(k, dtype=torch.float64)
    w = message["means"].double() @ torch.linalg.inv(S)
    b = q.log() - (w * message["means"]).sum(1) / 2
    net = federation.algorithm.task.net({**federation.algorithm.task.initial, **message["phi"]})
    seen = []
    for x, y in client.batches(16, federation.algorithm.hp.epochs):
        z = net.body(x)
        seen.append((z.detach(), y))
        loss = torch.nn.functional.cross_entropy(z @ w.T.float() + b.float(), y)
        for p, g in zip(
            net.body.parameters(), torch.autograd.grad(loss, net.body.parameters()), strict=True
        ):
            p.data -= federation.algorithm.hp.lr * g
    z, y = (torch.cat(column) for column in zip(*seen, strict=True))
    return net, z, y


@pytest.mark.parametrize("reg", ["official", "eps_I"])
def test_the_head_is_the_same_all_through_training_and_covariances_are_symmetric_and_psd(reg):
    federation = toy("pfedfda", {"reg": reg, "lr": 0.1})
    for _ in range(3):
        client = federation.client(1)
        message = federation.algorithm.download(federation.server, (1,))[1]
        reply, _ = federation.algorithm.client_update(client, message)
        net, _, _ = trained_by_hand(federation, client, message)
        for name, p in reply["phi"].items():
            torch.testing.assert_close(p, net.state_dict()[name], rtol=1e-4, atol=1e-5)
        federation.step()
        _, S = plugin.received(federation.server)
        assert torch.equal(S, S.T)
        assert torch.linalg.eigvalsh(S).min() > 0


def test_all_beta_0_leaves_the_shared_gaussians_as_they_were():
    federation = toy("pfedfda", {"beta": "global", "lr": 0.1})
    start = federation.algorithm.init_server()
    played(federation)
    assert torch.equal(federation.server["means"], start["means"])
    assert torch.equal(federation.server["covariance"], start["covariance"])
    assert start["means"].min() >= 0 and start["means"].max() <= 1
    assert torch.equal(plugin.received(start)[1], torch.eye(8, dtype=torch.float64))


def test_one_client_with_beta_1_makes_the_shared_means_its_class_means_where_it_has_more_than_2_samples():
    labels = [0] * 20 + [1] * 9 + [2] * 2
    split = split_by_class(toy("pfedfda").run.dataset, [labels], [[0, 1]])
    federation = toy("pfedfda", {"beta": "local", "lr": 0.1}, split=split)
    start = federation.server
    _, z, y = trained_by_hand(federation, federation.client(0), start)
    federation.step()
    M, S = plugin.received(federation.server)
    for c in (0, 1):
        torch.testing.assert_close(M[c], z[y == c].double().mean(0), rtol=1e-4, atol=1e-5)
    assert torch.equal(federation.server["means"][2:], start["means"][2:])
    rest = torch.cat([z[y == c] - z[y == c].mean(0) for c in (0, 1, 2)]).double()
    expected = rest.T @ rest / (len(z) - 1) + torch.eye(8) + 1e-4
    torch.testing.assert_close(S, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n, scatter", [(1, 0.0), (2, 2.0), (3, 4.0)])
def test_scatter_of_few_samples_is_over_n_minus_1_and_at_least_1(n: int, scatter: float):
    """Samples 1, 3 and 5 of one class in every entry; with one there is nothing but the ridge."""
    algorithm: Any = toy("pfedfda").algorithm
    z = torch.tensor([1.0, 3.0, 5.0], dtype=torch.float64)[:n, None].expand(n, 8)
    shared = plugin.Gaussians(torch.full((4, 8), 9.0).double(), torch.eye(8).double())
    M, S = algorithm.estimated(z, torch.zeros(n, dtype=torch.int64), shared, passes=1)
    ridge = torch.eye(8, dtype=torch.float64) + 1e-4
    torch.testing.assert_close(S, scatter + ridge)
    assert (M[0] == (3.0 if n == 3 else 9.0)).all()  # known from three samples on
    assert (M[1:] == 9.0).all()


def test_a_client_without_training_data_has_uniform_priors_and_the_global_gaussians():
    federation = toy("pfedfda")
    client = federation.client(0)
    client = replace(client, y=client.y[:0])
    torch.testing.assert_close(plugin.priors(client), torch.full((4,), 0.25).double())
    reply, _ = federation.algorithm.client_update(client, federation.server)
    for part in ("means", "covariance"):
        assert torch.equal(reply[part], federation.server[part])


def test_shared_gaussians_are_weighed_by_samples_not_by_class():
    federation = toy("pfedfda", {"lr": 0.1})
    algorithm = federation.algorithm
    replies = {
        i: algorithm.client_update(federation.client(i), federation.server)[0] for i in range(4)
    }
    n = torch.tensor([float(reply["n"]) for reply in replies.values()])
    server = algorithm.aggregate(federation.server, replies)
    for part in ("means", "covariance"):
        mean = sum(
            share * reply[part] for share, reply in zip(n / n.sum(), replies.values(), strict=True)
        )
        torch.testing.assert_close(server[part], mean)


def drawn(client, M, spread):
    """Features around the means of their classes."""
    noise = np.random.default_rng(0).normal(size=(len(client.y), M.shape[1]))
    return M[client.y] + spread * torch.from_numpy(noise)


def test_beta_follows_who_is_right_about_the_means():
    federation: Any = toy("pfedfda", clients=1)
    client, eye = federation.client(0), torch.eye(8, dtype=torch.float64)
    right = 2 * problem(k=8)[0]
    z = drawn(client, right, 1.0)
    trusting, doubting = (
        federation.algorithm.validated(client, z, client.y, plugin.Gaussians(shared, eye), 1)
        for shared in (right, right.flip(0))
    )
    assert trusting[0] < 0.4
    assert doubting[0] > 0.9


@pytest.mark.parametrize("kind", ["two", "one"])
def test_beta_is_the_best_of_a_grid(kind):
    federation: Any = toy("pfedfda", {"beta": kind}, clients=1)
    algorithm, client = federation.algorithm, federation.client(0)
    right, S, _, _ = problem(k=8)
    shared = plugin.Gaussians(right + 0.5 * problem(seed=1, k=8)[0], S)
    z, y, q = drawn(client, right, 0.8), client.y, plugin.priors(client)
    split = plugin.stratified(y, 2, client.generator("folds"))

    def loss(means, covariance):
        total = 0.0
        for held in split:
            own = algorithm.estimated(z[~held], y[~held], shared, 1)
            M, C = (
                b * one + (1 - b) * two
                for b, one, two in zip((means, covariance), own, shared, strict=True)
            )
            total -= by_mahalanobis(z[held], M, C, q).gather(1, y[held, None]).sum().item()
        return total

    beta = algorithm.validated(client, z, y, shared, 1).tolist()
    steps = np.linspace(0, 1, 21)
    grid = [(a, b) for a in steps for b in steps if kind == "two" or a == b]
    assert 0 < beta[0] < 1
    assert (beta[0] == beta[1]) == (kind == "one")
    assert loss(*beta) <= min(loss(*pair) for pair in grid) + 1e-3


def test_folds_spread_every_class_evenly_and_depend_on_the_stream():
    y = torch.tensor([0] * 7 + [1] * 4 + [3] * 2)
    first, again, other = (
        plugin.stratified(y, 2, torch.Generator().manual_seed(s)) for s in (0, 0, 1)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(first.sum(0), torch.ones_like(y))
    for c in (0, 1, 3):
        sizes = first[:, y == c].sum(1)
        assert sizes.max() - sizes.min() <= 1


def test_too_little_data_gives_the_global_gaussians():
    split = split_by_class(toy("pfedfda").run.dataset, [[0, 1, 2], [0, 1, 2, 3] * 5], [[0], [1]])
    federation = toy("pfedfda", {"lr": 0.1}, split=split)
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    assert not state["beta"].any()
    assert torch.equal(reply["means"], federation.server["means"])
    assert torch.equal(reply["covariance"], federation.server["covariance"])


def test_no_pass_over_the_data_sends_back_what_came():
    federation = toy("pfedfda", {"epochs": 0})
    reply, _ = federation.algorithm.client_update(federation.client(0), federation.server)
    assert all(
        torch.equal(reply[part], federation.server[part]) for part in ("means", "covariance")
    )


def test_features_that_are_not_finite_keep_the_old_beta_and_do_not_break_the_client():
    federation = toy("pfedfda")
    client = replace(
        federation.client(0), state={"beta": torch.tensor([0.3, 0.7], dtype=torch.float64)}
    )
    message = {
        **federation.server,
        "phi": {name: p * float("nan") for name, p in federation.server["phi"].items()},
    }
    _, state = federation.algorithm.client_update(client, message)
    assert torch.equal(state["beta"], client.state["beta"])


def test_both_betas_are_logged():
    federation = played(toy("pfedfda", {"lr": 0.1}), 1)
    with collect_logs() as logs:
        _, state = federation.algorithm.client_update(federation.client(0), federation.server)
    assert [logs["beta_means"], logs["beta_covariance"]] == state["beta"].tolist()
    assert state["beta"][0] != state["beta"][1]


def test_evaluation_solves_beta_anew_whatever_it_was_and_logs_it_and_writes_nothing_back():
    federation = played(toy("pfedfda", {"lr": 0.1}), 2)
    before, client = federation.snapshot(), federation.client(0)
    forgetful = replace(client, state={"beta": torch.tensor([0.123, 0.456], dtype=torch.float64)})
    with collect_logs() as logs:
        model, other = (personal(federation, client=seen) for seen in (client, forgetful))
    assert torch.equal(model["weight"], other["weight"]) and torch.equal(
        model["bias"], other["bias"]
    )
    assert 0 <= logs["beta_means"] <= 1 and 0 <= logs["beta_covariance"] <= 1
    after = federation.snapshot()
    assert torch.equal(before["clients"][0]["beta"], after["clients"][0]["beta"])
    assert all(torch.equal(p, before["server"]["phi"][name]) for name, p in model["phi"].items())
