"""FedAMP: the identities of attention between models."""

import sys
from typing import Any

import pytest
import torch

from pflbench.api import collect_logs, collect_notes
from pflbench.methods import registry
from pflbench.testing import TOY, equal, golden, played, split_by_class, toy

fedamp = sys.modules[registry.load("fedamp").__module__]
ABSOLUTE = {"distances": "absolute"}
UNCAPPED = {**ABSOLUTE, "cap": "none"}
LITERAL = {**ABSOLUTE, "alpha": 1e4, "sigma": 1.0, "cap": "uniform"}
"""The FedCoSR paper's values, the own weight being at least 1/N."""


def method(hp: dict[str, Any]) -> Any:
    """The algorithm by itself, for functions of its own."""
    return toy("fedamp", hp).algorithm


def models(N=5, P=40, scale=0.3, seed=0):
    return scale * torch.randn(N, P, generator=torch.Generator().manual_seed(seed))


def attended(hp, W, alpha=None):
    """xi and u for these models, in round 0."""
    algorithm = method(hp)
    xi = algorithm.attention(
        fedamp.squared_distances(W), algorithm.alpha(0) if alpha is None else alpha
    )
    return xi, fedamp.mixed(W, xi)


def cloud(federation):
    return federation.algorithm.download(federation.server, tuple(range(federation.run.clients)))


def by_vector(federation, W, like):
    """A server state in which client i's latest model is row i of W."""
    return {"w": {i: fedamp.unflat(w, like) for i, w in enumerate(W)}, "t": federation.server["t"]}


@pytest.mark.parametrize("alpha, sigma", [(1e4, 1.0), (0.3, 5.0), (2.0, 20.0)])
def test_rows_of_xi_sum_to_1_and_are_symmetric_and_the_mean_model_is_kept(
    alpha: float, sigma: float
):
    W = models()
    xi, U = attended({**UNCAPPED, "alpha": alpha, "sigma": sigma}, W)
    torch.testing.assert_close(xi.sum(1), torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-9)
    off = xi - torch.diag(xi.diagonal())
    assert torch.equal(off, off.T)
    assert off.max() > 0
    torch.testing.assert_close(
        U.double().sum(0), W.double().sum(0), rtol=0, atol=1e-6 * float(1 + U.abs().max())
    )


def test_xi_is_alpha_times_the_derivative_of_the_attention_function():
    W, sigma, alpha = models(N=3).double(), 7.0, 2.0
    xi, _ = attended({**UNCAPPED, "alpha": alpha, "sigma": sigma}, W.float())
    for i, j in ((0, 1), (0, 2), (1, 2)):
        x = (W[i] - W[j]).square().sum().requires_grad_()
        (slope,) = torch.autograd.grad(1 - torch.exp(-x / sigma), x)
        torch.testing.assert_close(xi[i, j], alpha * slope)


@pytest.mark.parametrize("alpha", [0.1, 2.0, 50.0])
def test_pull_at_w_i_does_not_depend_on_alpha(alpha: float):
    """One step of training from w_i, less the step of Local, is -eta lambda sum_j A'(x_ij) (w_i - w_j)."""
    eta, lam, sigma = 0.1, 3.0, 10.0
    hp = {**UNCAPPED, "alpha": alpha, "alpha_min": 0.01, "sigma": sigma, "lam": lam, "start": "own"}
    federation = played(toy("fedamp", {**hp, "lr": eta, "batch_size": 1000}), 2)
    algorithm, W = (
        federation.algorithm,
        {i: fedamp.flat(federation.server["w"][i]).double() for i in range(4)},
    )
    local = toy("local", {"lr": eta, "batch_size": 1000}).algorithm
    for i, message in cloud(federation).items():
        client = federation.client(i)
        ours = fedamp.flat(algorithm.client_update(client, message)[0]["theta"])
        plain = fedamp.flat(local.client_update(theta_of(client), {})[1]["theta"])
        slopes = {j: torch.exp(-(W[i] - w).square().sum() / sigma) / sigma for j, w in W.items()}
        pull = lam * sum(slopes[j] * (W[i] - w) for j, w in W.items())
        assert pull.abs().max() > 1e-3
        torch.testing.assert_close((plain - ours).double() / eta, pull, rtol=1e-3, atol=2e-5)


def theta_of(client):
    """The client as Local sees it."""
    return type(client)(
        client.id, client.round, client.task, client.x, client.y, {"theta": client.state["w"]}
    )


@pytest.mark.parametrize("distances", ["relative", "absolute"])
@pytest.mark.parametrize("cap", ["own", "uniform", "none"])
def test_equal_models_give_u_i_equal_to_w_i_exactly(distances: str, cap: str):
    W = models(N=1, P=2000).repeat(20, 1)
    xi, U = attended({"distances": distances, "cap": cap, "alpha": 1e4, "sigma": 1.0}, W)
    assert torch.equal(U, W)
    if cap == "none":
        assert (xi.diagonal() < -1e5).all()
    else:
        torch.testing.assert_close(xi, torch.full_like(xi, 1 / 20))


def test_close_models_lose_no_digits_at_alpha_10000():
    W = models(N=1, P=500) + models(N=20, P=500, scale=1e-4, seed=1)
    xi, U = attended({**UNCAPPED, "alpha": 1e4, "sigma": 1.0}, W)
    off = xi - torch.diag(xi.diagonal())
    D = W.double()
    expected = torch.stack([w + (off[i][:, None] * (D - w)).sum(0) for i, w in enumerate(D)])
    torch.testing.assert_close(U.double(), expected, rtol=1e-6, atol=1e-6)


def test_one_client_gets_its_previous_model_but_is_not_local_after_two_steps():
    hp = {"alpha": 1.0, "lr": 0.1, "batch_size": 8}
    ours, local = (
        toy("fedamp", hp, clients=1),
        toy("local", {"lr": 0.1, "batch_size": 8}, clients=1),
    )
    for _ in range(2):
        ours.step()
        local.step()
        assert equal(cloud(ours)[0]["theta"], ours.states[0]["w"])
    assert not equal(ours.states[0]["w"], local.states[0]["theta"])


def test_wide_sigma_with_alpha_over_sigma_1_over_n_gives_everyone_the_uniform_mean():
    W = models()
    _, U = attended({**UNCAPPED, "alpha": 2e5, "sigma": 1e6}, W)
    torch.testing.assert_close(U, W.mean(0).expand_as(U), rtol=1e-4, atol=1e-5)


def test_narrow_sigma_gives_everyone_its_own_model():
    W = models()
    xi, U = attended({**UNCAPPED, "alpha": 1e4, "sigma": 1e-3}, W)
    assert torch.equal(U, W)
    assert torch.equal(xi, torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_lambda_0_from_the_own_model_is_local_bit_for_bit(participation: float):
    ours = played(
        toy("fedamp", {"lam": 0.0, "start": "own", "lr": 0.05}, participation=participation)
    )
    local = played(toy("local", {"lr": 0.05}, participation=participation))
    assert ours.states.keys() == local.states.keys()
    assert all(equal(ours.states[i]["w"], local.states[i]["theta"]) for i in ours.states)


@pytest.mark.parametrize("start", ["own", "cloud"])
def test_lambda_above_0_with_different_clients_and_two_steps_is_not_local(start: str):
    hp = {"lr": 0.1, "batch_size": 8}
    ours = played(toy("fedamp", {**hp, "start": start, "alpha": 1.0, "sigma": 10.0}), 2)
    local = played(toy("local", hp), 2)
    assert not any(equal(ours.states[i]["w"], local.states[i]["theta"]) for i in range(4))


def test_lambda_0_from_the_cloud_model_is_plain_training_of_it():
    ours, fedavg = (
        played(toy("fedamp", {"lam": 0.0, "lr": 0.05}), 1),
        played(toy("fedavg", {"lr": 0.05}), 1),
    )
    for i, message in cloud(ours).items():
        w = ours.algorithm.client_update(ours.client(i), message)[0]["theta"]
        assert equal(w, fedavg.algorithm.client_update(fedavg.client(i), message)[0]["theta"])
        assert not equal(message["theta"], ours.states[i]["w"])


def test_cloud_model_is_the_same_for_a_client_asked_for_alone():
    federation = played(toy("fedamp", {"alpha": 1.0, "sigma": 10.0}), 2)
    for i, message in cloud(federation).items():
        alone = federation.algorithm.download(federation.server, (i,))
        assert list(alone) == [i]
        torch.testing.assert_close(alone[i], message, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("distances", ["relative", "absolute"])
@pytest.mark.parametrize("cap", ["own", "uniform", "none"])
def test_permuting_the_clients_permutes_the_cloud_models(distances: str, cap: str):
    hp = {"distances": distances, "cap": cap, "alpha": 2.0, "sigma": 2.0}
    federation = toy("fedamp", hp, clients=5)
    like = federation.algorithm.task.initial
    W, order = models(P=len(fedamp.flat(like)), scale=0.05), torch.tensor([3, 0, 4, 1, 2])
    ids = tuple(range(5))
    first, second = (
        federation.algorithm.download(by_vector(federation, rows, like), ids)
        for rows in (W, W[order])
    )
    for new, old in enumerate(order.tolist()):
        torch.testing.assert_close(
            fedamp.flat(second[new]["theta"]),
            fedamp.flat(first[old]["theta"]),
            rtol=1e-6,
            atol=1e-7,
        )
    assert not equal(first[0]["theta"], first[1]["theta"])


def test_reported_sample_counts_change_nothing():
    federation = toy("fedamp", {"sigma": 10.0})
    algorithm = federation.algorithm
    replies = {
        i: algorithm.client_update(federation.client(i), m)[0] for i, m in cloud(federation).items()
    }
    assert all("n" not in reply for reply in replies.values())
    counted = {i: {**reply, "n": torch.tensor(10**i)} for i, reply in replies.items()}
    first, second = (algorithm.aggregate(federation.server, r) for r in (replies, counted))
    ids = tuple(range(4))
    sent = [algorithm.download(server, ids) for server in (first, second)]
    assert all(equal(sent[0][i]["theta"], sent[1][i]["theta"]) for i in ids)


@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.3, 3.0])
@pytest.mark.parametrize("hp", [{}, {**ABSOLUTE, "sigma": 1.0}, LITERAL])
def test_cap_keeps_xi_convex(hp: dict[str, Any], scale: float):
    xi, U = attended(hp, W := models(scale=scale))
    torch.testing.assert_close(xi.sum(1), torch.ones(5, dtype=torch.float64))
    assert (xi >= 0).all()
    assert (xi.diagonal() >= 1 / 5 - 1e-12).all()
    assert (W.max(0).values + 1e-6 >= U).all() and (W.min(0).values - 1e-6 <= U).all()


def test_no_other_client_weighs_more_than_the_client_itself():
    W = torch.cat([models(N=4, scale=0.3), models(N=1, scale=0.3).repeat(2, 1) + 0.01])
    own, _ = attended({}, W)
    assert (own.diagonal() >= own.max(1).values - 1e-12).all()
    uniform, _ = attended({"cap": "uniform"}, W)
    assert (uniform.diagonal() < uniform.max(1).values).any()


@pytest.mark.parametrize("cap, own", [("uniform", 1 / 5), ("own", None)])
def test_cap_touches_only_rows_that_exceed_it(cap: str, own: float | None):
    W = torch.cat([models(N=3, scale=0.01), 5 + models(N=2, scale=3.0)])
    capped, free = (
        attended({**ABSOLUTE, "cap": cap, "alpha": 10.0, "sigma": 1.0}, W)[0]
        for cap in (cap, "none")
    )
    assert torch.equal(capped[3:], free[3:])
    others = capped[:3] - torch.diag_embed(capped.diagonal())[:3]
    expected = others.max(1).values if own is None else torch.full((3,), own, dtype=torch.float64)
    torch.testing.assert_close(capped[:3].diagonal(), expected)
    ratio = others / (free[:3] - torch.diag_embed(free.diagonal())[:3])
    torch.testing.assert_close(ratio[0, 1], ratio[0, 2])


@pytest.mark.parametrize("t", [0, 200])
def test_by_default_the_scale_of_the_models_does_not_matter(t: int):
    """Neither at alpha = 10000 nor at its least."""
    near, far = (
        attended({}, models(scale=scale), method({}).alpha(t))[0] for scale in (1e-3, 10.0)
    )
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-6)
    absolute = [
        attended(LITERAL, models(scale=scale), method({}).alpha(t))[0] for scale in (1e-3, 10.0)
    ]
    torch.testing.assert_close(absolute[0], torch.full_like(near, 1 / 5), rtol=1e-3, atol=0)
    assert torch.equal(absolute[1], torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("t", [0, 200])
@pytest.mark.parametrize("N", [2, 5, 20])
def test_models_that_are_equally_far_apart_are_neither_ignored_nor_preferred(N: int, t: int):
    W = torch.eye(N)
    xi, _ = attended({}, W, method({}).alpha(t))
    others = 1 - xi.diagonal()
    assert (others >= 0.05).all() and (others <= 1 - 1 / N + 1e-12).all()
    off = xi[~torch.eye(N, dtype=torch.bool)]
    torch.testing.assert_close(off, off[:1].expand_as(off))


def test_unit_of_distances_is_the_median_of_those_between_different_models():
    W = torch.tensor([[0.0], [0.0], [0.0], [1.0], [3.0]])  # squares: 0, 1, 4 and 9
    x = fedamp.squared_distances(W)
    assert fedamp.median_distance(x) == 4
    xi, _ = attended({"cap": "none", "alpha": 2.0, "sigma": 0.5}, W)
    expected = 2.0 / 0.5 * torch.exp(-x[3, 4] / 4 / 0.5)
    torch.testing.assert_close(xi[3, 4], expected)


def two_clusters(plugin: str, rounds: int = 3, **hp: Any):
    """Four clients of classes 0 and 1, four of classes 2 and 3, with as many samples each."""
    train, test = [[0, 1] * 4] * 4 + [[2, 3] * 4] * 4, [[0, 1]] * 4 + [[2, 3]] * 4
    split = split_by_class(TOY["dataset"], train, test)
    return played(toy(plugin, {"lr": 0.1, "batch_size": 4, **hp}, split), rounds)


def test_clients_prefer_models_of_clients_with_data_like_theirs():
    federation = two_clusters("fedamp")
    W = torch.stack([fedamp.flat(federation.server["w"][i]) for i in range(8)])
    xi, _ = attended({}, W)
    same = torch.zeros(8, 8, dtype=torch.bool)
    same[:4, :4] = same[4:, 4:] = True
    others = xi.clone().fill_diagonal_(0)
    own, other = others[same].sum() / 8, others[~same].sum() / 8  # of a client, to 3 and to 4
    assert own > 4 * other
    assert own > 0.3
    assert (
        others.masked_fill(~same, 0).max(1).values > others.masked_fill(same, 0).max(1).values
    ).all()


def test_with_two_clusters_fedamp_is_neither_fedavg_nor_local_as_literal_values_are_fedavg():
    ours, literal = two_clusters("fedamp"), two_clusters("fedamp", **LITERAL)
    fedavg, local = two_clusters("fedavg", rounds=2), two_clusters("local")
    for i in range(8):
        reply, _ = fedavg.algorithm.client_update(fedavg.client(i), fedavg.server)
        after_fedavg = fedamp.flat(reply["theta"])
        alone = fedamp.flat(local.states[i]["theta"])
        mine = fedamp.flat(ours.states[i]["w"])
        moved = (mine - fedamp.flat(ours.algorithm.task.initial)).norm()
        assert (mine - after_fedavg).norm() > 0.1 * moved
        assert (mine - alone).norm() > 0.1 * moved
        assert (fedamp.flat(literal.states[i]["w"]) - after_fedavg).norm() < 0.1 * moved


UNIFORM = "attention weights are nearly uniform: every cloud model is nearly the mean of all"
IDENTITY = "attention weights are nearly the identity: every cloud model is nearly the own model"


@pytest.mark.parametrize(
    "hp, expected",
    [
        ({}, []),
        ({"sigma": 100.0}, [UNIFORM]),
        (LITERAL, [UNIFORM]),
        ({"sigma": 0.001}, [IDENTITY]),
        ({**UNCAPPED, "sigma": 1e-3, "lr": 1.0}, [IDENTITY]),
    ],
)
def test_the_record_says_when_weights_are_nearly_uniform_or_nearly_the_identity(hp, expected):
    federation = toy("fedamp", hp)
    first, _ = federation.step()
    second, _ = federation.step()
    assert first.get("notes", []) == []  # no models yet: everybody starts with w^0
    assert second.get("notes", []) == expected


@pytest.mark.parametrize(
    "others, expected",
    [
        ([2 / 3, 2 / 3, 2 / 3 - 0.03], [UNIFORM]),  # 0.03 more for itself: 0.09 of 1/3
        ([2 / 3, 2 / 3, 2 / 3 - 0.04], []),
        ([0.009, 0.0, 0.009], [IDENTITY]),
        ([0.011, 0.0, 0.0], []),  # one client that listens is enough
    ],
)
def test_nearly_uniform_is_within_a_tenth_and_nearly_the_identity_within_a_hundredth(
    others, expected
):
    """Each client gives this weight to the two others together, in equal parts."""
    xi = torch.diag(1 - torch.tensor(others)) + torch.tensor(others)[:, None] / 2 * (
        1 - torch.eye(3)
    )
    with collect_notes() as notes:
        fedamp.note_degenerate(xi)
    assert notes == expected


def test_a_single_client_is_not_said_to_be_on_its_own():
    federation = played(toy("fedamp", clients=1), 1)
    record, _ = federation.step()
    assert "notes" not in record


def test_literal_values_give_what_they_gave():
    """Distances from the start after three rounds of the golden problem, as first recorded."""
    federation = toy("fedamp", {**LITERAL, "participation": 1.0}, **golden.PROBLEM)
    played(federation, 3)
    start = fedamp.flat(federation.algorithm.task.initial).double()
    moved = [float((fedamp.flat(federation.states[i]["w"]) - start).norm()) for i in range(4)]
    assert moved == pytest.approx([0.0393967, 0.0219886, 0.0280938, 0.0272736], rel=1e-3)


def test_alpha_falls_by_a_factor_and_not_below_its_least():
    algorithm = method({})
    assert [round(algorithm.alpha(t), 6) for t in (0, 29, 30, 60, 90, 120, 600)] == [
        1e4,
        1e4,
        1e3,
        100,
        10,
        1,
        1,
    ]
    assert method({"alpha": 0.5}).alpha(90) == 0.5


def test_server_and_clients_use_the_alpha_of_the_round(monkeypatch: pytest.MonkeyPatch):
    federation = toy("fedamp", {"alpha_every": 1}, rounds=4)
    cls: Any = type(federation.algorithm)
    asked, of_round = set(), cls.alpha

    def noted(self, t):
        asked.add(t)
        return of_round(self, t)

    monkeypatch.setattr(cls, "alpha", noted)
    for t in range(4):
        asked.clear()
        federation.step()
        assert asked == {t}


def test_unseen_client_gets_the_initial_model_and_does_not_count():
    federation = played(toy("fedamp", participation=0.5), 1)
    seen = sorted(federation.states)
    unseen = min({0, 1, 2, 3} - set(seen))
    sent = cloud(federation)
    assert equal(sent[unseen]["theta"], federation.algorithm.task.initial)
    W = torch.stack([fedamp.flat(federation.server["w"][i]) for i in seen])
    _, U = attended({}, W)
    assert all(torch.equal(fedamp.flat(sent[i]["theta"]), u) for i, u in zip(seen, U, strict=True))


def test_server_mixes_latest_models_also_of_clients_outside_the_cohort():
    federation = played(toy("fedamp", participation=0.5), 3)
    assert sorted(federation.server["w"]) == sorted(federation.states)
    assert len(federation.states) > 2
    assert all(
        equal(federation.server["w"][i], state["w"]) for i, state in federation.states.items()
    )


@pytest.mark.parametrize("columns", [1, 7, 40])
def test_distances_and_cloud_models_do_not_depend_on_how_many_columns_are_taken_at_a_time(
    columns: int, monkeypatch: pytest.MonkeyPatch
):
    W = models(N=5, P=40)
    monkeypatch.setattr(fedamp, "COLUMNS", columns)
    x = fedamp.squared_distances(W)
    torch.testing.assert_close(x, torch.cdist(W.double(), W.double()).square())
    xi = torch.softmax(-x, 1)
    torch.testing.assert_close(fedamp.mixed(W, xi), (xi @ W.double()).float())


def test_two_clients_have_one_distance():
    with collect_logs() as logs:
        xi, _ = attended({}, torch.tensor([[1.0, 1.0], [4.0, 5.0]]))
    assert logs["distance"] == 9 + 16
    assert logs["xi_max"] == xi[0, 1]


def test_what_is_logged():
    W = torch.cat([models(N=3, scale=0.01), 5 + models(N=2, scale=3.0)])
    with collect_logs() as logs:
        xi, _ = attended({**LITERAL, "alpha": 10.0}, W)
    pairs = [(W[i] - W[j]).square().sum().item() for i in range(5) for j in range(i)]
    torch.testing.assert_close(logs["distance"], sum(pairs) / len(pairs), rtol=1e-5, atol=0)
    assert logs["capped"] == 3
    assert logs["xi_ii"] == xi.diagonal().mean()
