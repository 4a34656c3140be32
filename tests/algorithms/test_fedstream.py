"""FedStream: the identities of micro-clusters and their pool."""

import sys
from typing import Any

import pytest
import torch

from pflbench.methods import registry
from pflbench.testing import TOY, equal, played, split_by_class, toy

PLAIN = {"m": 1, "m_g": 1, "importance": False, "decay": 0.0}


def message_of(federation, id=0):
    return federation.algorithm.download(federation.server, (id,))[id]


def inputs(n=100):
    return torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def z_of(federation, id):
    client = federation.client(id)
    return federation.algorithm.net(client.state["theta"]).body(
        next(client.samples())[0]
    ).detach(), client.y


def reply_of(slots, centres, wins=()):
    """An upload made by hand, of clusters of one sample."""
    centre, slot = (
        torch.tensor(centres)[:, None].repeat(1, 8),
        torch.tensor(slots, dtype=torch.int32),
    )
    clusters = {
        "centre": centre,
        "ss": centre.square().sum(1),
        "count": torch.ones(len(slots)),
        "slot": slot,
    }
    return {"clusters": clusters, "wins": torch.tensor(wins)}


def test_one_cluster_per_class_without_importances_is_fedproto_by_counts_collected_after():
    ours = toy("fedstream", {**PLAIN, "lam": 3.0, "lr": 0.05})
    fedproto = toy("fedproto", {"weights": "counts", "collect": "after", "lam": 3.0, "lr": 0.05})
    for _ in range(4):
        played(ours, 1)
        played(fedproto, 1)
        pool, G = ours.server["pool"], fedproto.server["omega"]
        assert torch.equal(pool["label"], G["labels"])
        assert torch.equal(pool["centre"], G["means"])
        for i in range(4):
            theta = ours.states[i]["theta"]
            assert equal(theta, fedproto.states[i]["theta"])
            only_pool = {"theta": theta, "centre": pool["centre"], "label": pool["label"].long()}
            model = fedproto.algorithm.personal_model(fedproto.client(i), {"omega": G})
            scores, expected = (
                ours.algorithm.predict(only_pool, inputs()),
                fedproto.algorithm.predict(model, inputs()),
            )
            assert torch.equal(scores.argmax(1), expected.argmax(1))


def test_merging_conserves_counts_sums_and_squares():
    federation = played(toy("fedstream", {"m": 4, "m_g": 2, "importance": False, "lr": 0.05}))
    server, pool = federation.server, federation.server["pool"]
    label = (torch.arange(len(server["count"])) % 16) // 4
    for c in range(4):
        rows, groups = (label == c) & (server["count"] > 0), pool["label"] == c
        assert rows.sum() > 2 >= groups.sum()
        n, n_pool = server["count"][rows].double(), pool["count"][groups].double()
        assert n.sum() == n_pool.sum() == sum((federation.client(i).y == c).sum() for i in range(4))
        ls = n @ server["centre"][rows].double()
        torch.testing.assert_close(
            n_pool @ pool["centre"][groups].double(), ls, rtol=1e-5, atol=1e-4
        )
        torch.testing.assert_close(pool["ss"][groups].sum(), server["ss"][rows].sum())


def test_radius_is_the_root_mean_squared_distance_to_the_centre():
    federation = played(toy("fedstream", {"m": 3, "importance": False, "lloyd": 50, "lr": 0.05}), 2)
    for i in range(4):
        state, (z, y) = federation.states[i], z_of(federation, i)
        for slot in state["count"].nonzero().flatten():
            same = [s for s in state["count"].nonzero().flatten() if s // 3 == slot // 3]
            near = torch.stack([(z - state["centre"][s]).square().sum(1) for s in same]).argmin(0)
            mine = z[(y == slot // 3) & (near == same.index(slot))]
            assert len(mine) == state["count"][slot]
            torch.testing.assert_close(mine.mean(0), state["centre"][slot], rtol=1e-4, atol=1e-5)
            radius2 = (
                state["ss"][slot] / state["count"][slot] - state["centre"][slot].square().sum()
            )
            spread = (mine - state["centre"][slot]).square().sum(1).mean()
            torch.testing.assert_close(radius2, spread, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_pool_merges_the_two_closest_again_and_again(seed):
    merged = sys.modules[registry.load("fedstream").__module__].merged
    draws = torch.Generator().manual_seed(seed)
    centre, count = (
        torch.randn(20, 2, generator=draws),
        torch.randint(1, 99, (20,), generator=draws).float(),
    )
    groups = [{i} for i in range(20)]
    while len(groups) > 4:
        means = [sum(count[i] * centre[i] for i in g) / sum(count[i] for i in g) for g in groups]
        gaps = {(a, b): (means[a] - means[b]).norm() for a in range(len(groups)) for b in range(a)}
        a, b = min(gaps, key=gaps.get)
        groups[b] |= groups.pop(a)
    found = merged(centre, count, 4)
    assert {frozenset((found == g).nonzero().flatten().tolist()) for g in range(4)} == set(
        map(frozenset, groups)
    )


def test_lambda_0_is_local():
    ours, local = (
        played(toy("fedstream", {"lam": 0.0, "lr": 0.05})),
        played(toy("local", {"lr": 0.05})),
    )
    assert all(equal(ours.states[i]["theta"], local.states[i]["theta"]) for i in range(4))
    assert ours.evaluation()["accuracy"]["head"] == local.evaluation()["accuracy"]["pre"]
    pulled = played(toy("fedstream", {"lam": 3.0, "lr": 0.05}))
    assert not equal(pulled.states[0]["theta"], local.states[0]["theta"])


@pytest.mark.parametrize(
    "hp", [{"decay": 1.0}, {"m": 2, "m_g": 3, "decay": 0.4}, {"m": 1, "m_g": 1, "threshold": 1.0}]
)
def test_every_held_class_has_a_cluster_and_caps_hold(hp):
    federation = toy("fedstream", {"lr": 0.2, **hp}, clients=6, participation=0.5)
    m, m_g = federation.algorithm.hp.m, federation.algorithm.hp.m_g
    for _ in range(6):
        federation.step()
        seen = torch.zeros(4, dtype=torch.bool)
        for i, state in federation.states.items():
            held = federation.client(i).counts
            clusters = (state["count"].view(4, m) > 0).sum(1)
            assert torch.all((clusters > 0) == (held > 0))
            assert torch.all(clusters <= held.clamp(max=m))
            seen |= held > 0
        pooled = torch.bincount(federation.server["pool"]["label"], minlength=4)
        assert torch.all((pooled > 0) == seen)
        assert torch.all(pooled <= m_g)


def test_order_of_the_samples_does_not_matter():
    federation = played(toy("fedstream", {"lr": 0.05}), 2)
    for i in range(4):
        z, y = z_of(federation, i)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(i))
        for old in (federation.states[i], federation.algorithm.init_client()):
            one, two = (
                federation.algorithm.rebuilt(z[o], y[o], old) for o in (torch.arange(len(y)), order)
            )
            assert torch.equal(one["count"], two["count"])
            for name in ("centre", "ss"):
                torch.testing.assert_close(one[name], two[name])


def test_orthogonal_map_between_clients_and_server_leaves_predictions_unchanged(
    monkeypatch: pytest.MonkeyPatch,
):
    cls = registry.load("fedstream")
    Q = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(2))).Q
    hp = {
        "lam": 3.0,
        "lr": 0.05,
        "importance": False,
    }  # a cluster and its copy in the pool tie: rounding would judge
    plain = toy("fedstream", hp)
    before = [plain.step()[0]["accuracy"] for _ in range(4)]
    expected = plain.algorithm.predict(
        plain.algorithm.personal_model(plain.client(0), message_of(plain)), inputs()
    )
    own_local, own_personal = cls.client_update, cls.personal_model

    def back(message):
        return {"pool": {**message["pool"], "centre": message["pool"]["centre"] @ Q.T}}

    def client_update(self, client, message):
        reply, state = own_local(self, client, back(message))
        return {
            **reply,
            "clusters": {**reply["clusters"], "centre": reply["clusters"]["centre"] @ Q},
        }, state

    monkeypatch.setattr(cls, "client_update", client_update)
    monkeypatch.setattr(
        cls,
        "personal_model",
        lambda self, client, message: own_personal(self, client, back(message)),
    )
    mapped = toy("fedstream", hp)
    assert [mapped.step()[0]["accuracy"] for _ in range(4)] == before
    torch.testing.assert_close(
        mapped.server["pool"]["centre"], plain.server["pool"]["centre"] @ Q, atol=1e-4, rtol=0
    )
    found = mapped.algorithm.predict(
        mapped.algorithm.personal_model(mapped.client(0), message_of(mapped)), inputs()
    )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert torch.equal(found.argmax(1), expected.argmax(1))


def test_winner_alone_is_judged_by_each_prediction_and_importances_decay():
    federation = toy("fedstream", {"lr": 0.0, "m": 2, "decay": 0.5})
    played(federation, 1)
    client, message = federation.client(0), message_of(federation)
    # nothing moves: z is what it was
    reply, state = federation.algorithm.client_update(client, message)
    z, y = z_of(federation, 0)
    used = client.state["count"].nonzero().flatten()
    centre = torch.cat([client.state["centre"][used], message["pool"]["centre"]])
    label = torch.cat([used // 2, message["pool"]["label"].long()])
    wins = torch.zeros(len(label))
    for row, truth in zip(z, y, strict=True):
        winner = (centre - row).square().sum(1).argmin()
        wins[winner] += 1 if label[winner] == truth else -1
    assert torch.equal(reply["wins"], wins[len(used) :])
    assert wins[: len(used)].any()
    carried = (1 + wins[: len(used)]) * 2**-0.5
    for c in client.counts.nonzero().flatten():
        mine = (used // 2 == c).nonzero().flatten()
        best = max(carried[mine])
        for place in mine:
            value = carried[place] if carried[place] >= 0.6 else torch.tensor(0.0)
            rescued = best < 0.6 and carried[place] == best
            torch.testing.assert_close(
                state["importance"][used[place]], torch.tensor(1.0) if rescued else value
            )


def test_server_adds_tallies_to_what_was_merged_and_keeps_the_distrusted_out_until_their_slot_is_new():
    algorithm = toy("fedstream", {"m": 2, "m_g": 1, "decay": 0.0}, clients=2).algorithm
    first = {0: reply_of([0, 1, 2], [1.0, 2.0, 5.0]), 1: reply_of([0, 3], [3.0, 7.0])}
    server = algorithm.aggregate(algorithm.init_server(), first)
    assert server["pool"]["label"].tolist() == [0, 1]
    torch.testing.assert_close(server["pool"]["centre"][:, 0], torch.tensor([2.0, 6.0]))
    again = {i: {**r, "wins": torch.tensor([3.0, -1.0])} for i, r in first.items()}
    trusted = algorithm.aggregate(server, again)["importance"].view(2, 8)
    assert trusted[0].tolist() == [
        7.0,
        7.0,
        1.0,
        0,
        0,
        0,
        0,
        0,
    ]  # class 1: all fell to -1, and the best are reset
    assert trusted[1].tolist() == [7.0, 0, 0, 1.0, 0, 0, 0, 0]
    split = toy("fedstream", {"m": 2, "m_g": 2, "decay": 0.0}, clients=2).algorithm
    server = split.aggregate(split.init_server(), first)
    assert server["pool"]["centre"][:, 0].tolist() == [1.5, 3.0, 5.0, 7.0]
    worse = {i: {**r, "wins": torch.tensor([0.0, -1.0, 2.0, -1.0])} for i, r in first.items()}
    server = split.aggregate(server, worse)
    assert server["pool"]["centre"][:, 0].tolist() == [1.0, 2.0, 5.0]  # client 1's are out
    server = split.aggregate(server, {1: reply_of([0, 3], [3.0, 7.0], wins=[0.0, 0.0, 0.0])})
    assert server["pool"]["centre"][:, 0].tolist() == [1.0, 2.0, 5.0]  # and stay out
    server = split.aggregate(server, {1: reply_of([0], [3.0], wins=[0.0, 0.0, 0.0])})
    server = split.aggregate(server, {1: reply_of([0, 3], [3.0, 7.0], wins=[0.0, 0.0, 0.0])})
    assert server["pool"]["centre"][:, 0].tolist() == [
        1.0,
        2.0,
        5.0,
        7.0,
    ]  # slot 3 was given up and is new


def test_without_importances_the_server_keeps_the_clusters_of_clients_that_are_away():
    algorithm = toy("fedstream", {"m": 2, "m_g": 4, "importance": False}, clients=2).algorithm
    server = algorithm.init_server()
    for reply in ({0: reply_of([0], [1.0])}, {1: reply_of([0, 1], [3.0, 7.0])}):
        nobody_won = torch.zeros(len(server["pool"]["label"]))
        sent = {id: {**one, "wins": nobody_won} for id, one in reply.items()}
        server = algorithm.aggregate(server, sent)
    assert server["pool"]["centre"][:, 0].tolist() == [1.0, 3.0, 7.0]
    assert server["pool"]["label"].tolist() == [0, 0, 0]


def test_a_forgotten_cluster_leaves_the_state_and_is_not_sent(monkeypatch: pytest.MonkeyPatch):
    federation = played(toy("fedstream", {"lr": 0.05, "m": 2}), 1)
    method: Any = federation.algorithm
    client = federation.client(0)
    (held, *_) = (client.counts > 1).nonzero().flatten().tolist()
    first, second = 2 * held, 2 * held + 1  # the slots of a class with two clusters
    assert client.state["count"][first] > 0 < client.state["count"][second]
    judged = method.judged

    def distrusting(old, wins, count):
        lost = torch.zeros_like(wins)
        lost[first] = -10.0  # wrong ten times more often than right
        return judged(old, lost, count)

    monkeypatch.setattr(method, "judged", distrusting)
    reply, state = method.client_update(client, message_of(federation))
    assert state["importance"][first] == state["count"][first] == 0
    assert state["count"][second] > 0
    assert reply["clusters"]["slot"].tolist() == state["count"].nonzero().flatten().tolist()


def test_representations_are_pulled_to_the_nearest_prototype_of_their_own_class():
    federation = toy("fedstream", {"lam": 2.0, "lr": 0.1, "batch_size": 1000})
    algorithm, client = federation.algorithm, federation.client(0)
    own, *_ = client.counts.nonzero().flatten().tolist()
    z, y = z_of(played(toy("fedstream", {"lr": 0.0}), 1), 0)
    centre = torch.stack([z.mean(0) + 1.0, z.mean(0) - 1.0, z.mean(0)])
    pool = {"centre": centre, "label": torch.tensor([own, own, (own + 1) % 4]).int()}
    _, state = algorithm.client_update(client, {"pool": pool})
    net = algorithm.net(algorithm.task.initial).train()
    for p in net.parameters():
        p.requires_grad_()
    z, other = net.body(next(client.samples())[0]), (own + 1) % 4
    t = centre[torch.cdist(z, centre[:2]).argmin(1)]
    pull = (z - t).square().sum(1)[y == own].sum() + (z - centre[2]).square().sum(1)[
        y == other
    ].sum()
    (torch.nn.functional.cross_entropy(net.head(z), y) + 2.0 * pull / (len(y) * 8)).backward()
    for name, p in net.named_parameters():
        torch.testing.assert_close(
            state["theta"][name], p.detach() - 0.1 * p.grad, rtol=1e-4, atol=1e-6
        )


def test_sizes_bound_what_is_sent():
    split = split_by_class(TOY["dataset"], [[0, 1] * 9, [1, 2, 3] * 7], [[0], [1]])
    federation = toy("fedstream", {"m": 2, "m_g": 3, "lr": 0.05}, split)
    for _ in range(3):
        record, _ = federation.step()
        assert sum(record["bytes"]["down"].values()) <= 4 * 2 * 4 * 3 * (8 + 1)
        assert sum(record["bytes"]["up"].values()) <= 4 * ((2 + 3) * 2 * (8 + 3) + 2 * 4 * 3)


def test_head_is_evaluated_while_there_are_no_clusters_and_unseen_clients_use_the_pool():
    federation = toy("fedstream", participation=0.25)
    accuracy = federation.start()[0]["accuracy"]
    assert accuracy["pre"] == accuracy["head"]
    played(federation, 1)
    unseen = min(set(range(4)) - set(federation.states))
    model = federation.algorithm.personal_model(federation.client(unseen), message_of(federation))
    assert torch.equal(model["centre"], federation.server["pool"]["centre"])
    scores = federation.algorithm.predict(model, inputs())
    absent = federation.client(min(federation.states)).counts == 0
    assert torch.all(scores[:, absent] == -torch.inf)
