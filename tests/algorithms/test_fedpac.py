"""FedPAC: the identities of combined heads and of the pull to global prototypes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn.functional import one_hot

from pflbench.algorithms.fedpac import without_small
from pflbench.api import collect_logs
from pflbench.ops import cross_entropy_loss, local_sgd, phi, pi, simplex_qp, weighted_mean
from pflbench.testing import equal, played, split_by_class, toy


def message_to(federation, id):
    return federation.algorithm.download(federation.server, (id,))[id]


def weights(V, H):
    """The matrix alpha of clients with these V (m,) and H (m, C, k)."""
    algorithm: Any = toy("fedpac").algorithm
    return algorithm.weights(torch.as_tensor(V), torch.as_tensor(H))


def clients_of(m, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.3] * 4, m)[:, :, None]
    return rng.uniform(0.05, 0.5, m), p * (
        rng.uniform(0, 1, (4, 8)) + 0.1 * rng.normal(size=(m, 4, 8))
    )


def program(V, H, i):
    """P_i = diag(V) + D_i D_i^T, with D_i written out."""
    D = (H[i] - H).reshape(len(V), -1)
    return np.diag(V) + D @ D.T


def test_equal_H_gives_weights_proportional_to_one_over_V_and_equal_V_too_uniform_ones():
    H = torch.from_numpy(clients_of(1)[1]).expand(5, 4, 8)
    V = torch.tensor([0.1, 0.2, 0.3, 0.7, 1.9], dtype=torch.float64)
    expected = (1 / V / (1 / V).sum()).expand(5, 5)
    torch.testing.assert_close(weights(V, H), expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        weights(torch.full((5,), 0.3), H),
        torch.full((5, 5), 0.2, dtype=torch.float64),
        rtol=1e-9,
        atol=0,
    )


def test_two_clients_have_the_weights_of_the_closed_form():
    V, H = (0.3 * torch.from_numpy(values) for values in clients_of(2))
    d = (H[0] - H[1]).square().sum()
    first, second = (V[1] + d) / (V.sum() + d), (V[0] + d) / (V.sum() + d)
    expected = torch.stack([torch.stack([first, 1 - first]), torch.stack([1 - second, second])])
    assert expected.min() > 0.01
    torch.testing.assert_close(weights(V, H), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e6])
def test_a_far_away_client_has_weight_0_and_keeps_its_own_head(distance):
    V, H = clients_of(5)
    # a direction in which the others agree: the far one cannot balance their differences
    H[:, 0, 0] = 0.0
    near = weights(np.delete(V, 2), np.delete(H, 2, axis=0))
    H[2, 0, 0] = distance
    alpha = weights(V, H)
    rest = [0, 1, 3, 4]
    assert torch.equal(alpha[2], torch.eye(5, dtype=torch.float64)[2])
    assert not alpha[rest, 2].any()
    torch.testing.assert_close(
        alpha[rest][:, rest], near, rtol=1e-2 / distance, atol=1e-2 / distance
    )


@pytest.mark.parametrize("seed", range(5))
def test_weights_solve_the_program_written_out_in_which_the_own_row_of_D_D_is_zero(seed):
    V, H = clients_of(6, seed)
    for i, row in enumerate(weights(V, H).numpy()):
        P = program(V, H, i)
        assert np.array_equal(P[i], V[i] * np.eye(6)[i])
        by_descent = minimize(
            lambda a, P=P: a @ P @ a,
            np.full(6, 1 / 6),
            jac=lambda a, P=P: 2 * P @ a,
            method="SLSQP",
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(row, by_descent.x, atol=1e-3)  # what is below that is dropped


def test_V_is_the_total_variance_of_the_block_vector_over_n_and_H_its_mean_with_the_received_body():
    federation = played(toy("fedpac", {"lr": 0.1}), 1)
    message = message_to(federation, 1)
    client = federation.client(1)
    reply, _ = federation.algorithm.client_update(client, message)
    net = federation.algorithm.net({**message["phi"], **message["pi"]})
    x, y = next(client.samples())
    blocks = (
        (one_hot(y, 4)[:, :, None] * net.body(x)[:, None, :]).flatten(1).detach().double().numpy()
    )  # (n, C k)
    np.testing.assert_allclose(reply["V"].item(), blocks.var(axis=0).sum() / len(y), rtol=1e-5)
    np.testing.assert_allclose(
        reply["H"].flatten().numpy(), blocks.mean(axis=0), rtol=1e-5, atol=1e-7
    )


def test_prototypes_are_of_the_trained_body_and_pooled_by_counts():
    federation = played(toy("fedpac", {"lr": 0.1}), 1)
    algorithm = federation.algorithm
    clients = [federation.client(i) for i in range(4)]
    replies = {c.id: algorithm.client_update(c, message_to(federation, c.id))[0] for c in clients}
    omega = algorithm.aggregate(federation.server, replies)["omega"]
    z, y = [], []
    for c in clients:
        x, labels = next(c.samples())
        z.append(algorithm.net({**replies[c.id]["phi"], **replies[c.id]["pi"]}).body(x).detach())
        y.append(labels)
    pooled = [torch.cat(z)[torch.cat(y) == label].mean(0) for label in omega["labels"]]
    torch.testing.assert_close(omega["means"], torch.stack(pooled))


def alternating(federation, rounds, base_epochs):
    """One pass for the head, some for the body; private heads, bodies averaged by samples."""
    task, hp = federation.algorithm.task, replace(federation.algorithm.hp, epochs=1, lr=0.1)
    body, heads = phi(task.initial), {i: pi(task.initial) for i in range(task.clients)}
    for federation.round in range(rounds):
        replies = {}
        for i in federation.select():
            client = federation.client(i)
            theta = local_sgd(
                cross_entropy_loss,
                {**body, **heads[i]},
                client,
                replace(hp, lr=0.05),
                part="head",
                stream="head",
            )
            theta = local_sgd(
                cross_entropy_loss,
                theta,
                client,
                replace(hp, epochs=base_epochs),
                part="body",
                stream="base",
            )
            heads[i], replies[i] = pi(theta), {"phi": phi(theta), "n": client.n}
        body = weighted_mean(replies, "phi")
    return body, heads


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_own_heads_without_a_pull_is_fedrep(participation):
    ours = played(
        toy("fedpac", {"heads": "own", "lam": 0.0, "epochs": 2}, participation=participation)
    )
    fedrep = played(toy("fedrep", {"head_epochs": 1, "epochs": 2}, participation=participation))
    assert equal(ours.server["phi"], fedrep.server["phi"])
    for i in range(4):
        assert equal(message_to(ours, i)["pi"], fedrep.state(i)["pi"])


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_own_heads_without_a_pull_is_alternating_training_of_head_and_body(
    participation,
):
    hp = {"heads": "own", "lam": 0.0, "lr": 0.1, "head_lr": 0.05, "epochs": 2}
    settings = {"clients": 5, "participation": participation}
    ours = played(toy("fedpac", hp, **settings))
    body, heads = alternating(toy("fedpac", hp, **settings), 3, 2)
    assert equal(ours.server["phi"], body)
    for i in range(5):
        assert equal(message_to(ours, i)["pi"], heads[i])


def test_permuting_clients_permutes_the_weights_which_sum_to_1_after_truncation():
    V, H = clients_of(12)
    order = np.random.default_rng(1).permutation(12)
    alpha, permuted = weights(V, H), weights(V[order], H[order])
    torch.testing.assert_close(permuted, alpha[order][:, order], rtol=1e-9, atol=1e-12)
    assert ((alpha > 0) & (alpha < 1)).any()
    # the third weight is 0.0004 before truncation
    small = weights([1.0, 2.0, 1500.0], H[[0, 0, 0]])
    torch.testing.assert_close(
        small, torch.tensor([[2 / 3, 1 / 3, 0.0]] * 3).double(), rtol=1e-7, atol=0
    )
    for rows in (alpha, permuted, small):
        torch.testing.assert_close(
            rows.sum(1), torch.ones(len(rows), dtype=torch.float64), rtol=1e-15, atol=0
        )


def test_heads_are_combined_by_client_id():
    federation = toy("fedpac", {"lr": 0.1}, clients=8)
    algorithm, ids = federation.algorithm, (2, 3, 7)
    replies = {
        i: algorithm.client_update(federation.client(i), message_to(federation, i))[0] for i in ids
    }
    alpha = weights(
        torch.stack([replies[i]["V"] for i in ids]), torch.stack([replies[i]["H"] for i in ids])
    )  # row and column in the order of the ids
    server = algorithm.aggregate(federation.server, replies)
    assert sorted(server["heads"]) == list(ids)
    for i, row in zip(ids, alpha, strict=True):
        for name, head in server["heads"][i].items():
            mixed = sum(a * replies[j]["pi"][name].double() for a, j in zip(row, ids, strict=True))
            torch.testing.assert_close(head, mixed.float())
    assert equal(algorithm.download(server, (5,))[5]["pi"], pi(algorithm.task.initial))


def test_the_first_round_has_no_pull_and_later_ones_have():
    plain, pulled = toy("fedpac", {"lam": 0.0, "lr": 0.1}), toy("fedpac", {"lam": 5.0, "lr": 0.1})
    for federation in (plain, pulled):
        federation.step()
    assert equal(plain.server["phi"], pulled.server["phi"])
    for federation in (plain, pulled):
        federation.step()
    assert not equal(plain.server["phi"], pulled.server["phi"])


def test_a_class_without_global_prototype_is_pulled_to_the_clients_own_mean_from_before_training():
    federation = played(toy("fedpac", {"lam": 5.0, "lr": 0.1}), 1)
    client, message = federation.client(0), message_to(federation, 0)
    x, y = next(client.samples())
    z = federation.algorithm.net({**message["phi"], **message["pi"]}).body(x).detach()
    known = message["omega"]["labels"]
    kept = known == y[0]
    less = {name: part[~kept] for name, part in message["omega"].items()}
    instead = message["omega"]["means"].clone()
    instead[kept] = z[y == y[0]].mean(0)
    trained = [
        federation.algorithm.client_update(client, {**message, "omega": omega})[0]["phi"]
        for omega in (less, {"means": instead, "labels": known}, message["omega"])
    ]
    for name, p in trained[0].items():
        torch.testing.assert_close(p, trained[1][name], rtol=1e-4, atol=1e-6)
    assert any(
        not torch.allclose(p, trained[2][name], rtol=1e-4, atol=1e-5)
        for name, p in trained[0].items()
    )


def test_unselected_clients_keep_their_combined_head_on_the_server():
    federation = toy("fedpac", {"lr": 0.1}, clients=6, participation=0.34)
    for _ in range(5):
        before, cohort = dict(federation.server["heads"]), federation.select()
        federation.step()
        after = federation.server["heads"]
        assert set(after) == {*before, *cohort}
        assert all(equal(after[i], before[i]) for i in before if i not in cohort)


def test_one_sample_and_one_class_clients_need_no_fallback():
    split = split_by_class(
        toy("fedpac").run.dataset, [[0], [1], [2] * 6, [0, 1, 2, 3] * 3], [[0], [1], [2], [0]]
    )
    record, _ = played(toy("fedpac", split=split), 2).step()
    assert record["server"]["qp_fallbacks"] == 0
    assert record["server"]["qp_gap"] < 1e-6


def test_statistics_that_are_not_finite_leave_the_own_head_and_are_counted():
    V, H = clients_of(3)
    V[1] = np.nan
    with collect_logs() as logs:
        alpha = weights(V, H)
    assert torch.equal(alpha, torch.eye(3, dtype=torch.float64))
    assert logs["qp_fallbacks"] == 3


def test_replies_that_are_not_finite_do_not_break_the_server():
    federation = toy("fedpac")
    algorithm = federation.algorithm
    replies = {
        i: algorithm.client_update(federation.client(i), message_to(federation, i))[0]
        for i in range(3)
    }
    for part in ("H", "V"):
        replies[1][part] = replies[1][part] * float("nan")
    assert algorithm.aggregate(federation.server, replies)["heads"].keys() == {0, 1, 2}


def test_of_thousands_of_equal_weights_none_is_dropped():
    a = torch.full((4000,), 1 / 4000, dtype=torch.float64)
    torch.testing.assert_close(without_small(a), a)
    torch.testing.assert_close(
        without_small(torch.tensor([0.5, 0.4996, 0.0004])),
        torch.tensor([0.5, 0.4996, 0.0]) / 0.9996,
    )


def test_the_mean_weight_of_own_heads_is_logged():
    V, H = clients_of(5)
    with collect_logs() as logs:
        alpha = weights(V, H)
    assert logs["own_weight"] == pytest.approx(float(alpha.trace()) / 5)
    assert logs["qp_fallbacks"] == 0


def test_the_program_on_a_zero_matrix_is_solved_by_uniform_weights():
    a, gap = simplex_qp(torch.zeros(3, 4))
    assert torch.equal(a, torch.full((4,), 0.25, dtype=torch.float64))
    assert gap == 0
