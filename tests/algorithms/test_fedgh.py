"""FedGH: the identities of private bodies and a head that the server trains on prototypes."""

from dataclasses import replace

import pytest
import torch

from pflbench.data.partition import Partition
from pflbench.ops import phi, pi
from pflbench.testing import TOY, bare, equal, played, split_by_class, toy


def head_of(federation, id=0):
    return federation.algorithm.download(federation.server, (id,))[id]["pi"]


def pairs(means, labels):
    return {"omega": {"means": means, "labels": torch.tensor(labels, dtype=torch.int32)}}


def test_rate_0_leaves_the_head_at_its_start_and_every_client_starts_with_it():
    federation = toy("fedgh", {"server_lr": 0.0, "lr": 0.05})
    start = pi(federation.algorithm.task.initial)
    for _ in range(3):
        federation.step()
        assert equal(head_of(federation), start)
        for i in range(4):
            assert not equal(pi(federation.states[i]["theta"]), start)
            model = federation.algorithm.personal_model(
                federation.client(i), {"pi": head_of(federation)}
            )
            assert equal(model, {**phi(federation.states[i]["theta"]), **start})


def test_servers_head_is_untouched_by_local_training_and_moved_by_the_servers_step():
    federation = played(toy("fedgh", {"lr": 0.1}), 1)
    algorithm, server = federation.algorithm, federation.server
    before = {name: p.clone() for name, p in server["pi"].items()}
    replies = {}
    for i in range(4):
        message = algorithm.download(server, (i,))[i]
        replies[i], state = algorithm.client_update(federation.client(i), message)
        assert not equal(pi(state["theta"]), before)
        assert equal(server["pi"], before)
    after = algorithm.aggregate(server, replies)["pi"]
    assert equal(server["pi"], before)
    assert not any(torch.equal(after[name], before[name]) for name in before)


def test_one_pair_one_step_moves_the_head_by_minus_rate_times_error_times_mean():
    algorithm = toy("fedgh", {"server_lr": 0.3}).algorithm
    server, m = (
        algorithm.init_server(),
        torch.rand(1, 8, generator=torch.Generator().manual_seed(0)),
    )
    new = algorithm.aggregate(server, {0: pairs(m, [2])})["pi"]
    (weight, bias) = server["pi"].values()
    error = torch.softmax(weight @ m[0] + bias, 0) - torch.eye(4)[2]
    (new_weight, new_bias) = new.values()
    torch.testing.assert_close(new_weight - weight, -0.3 * error[:, None] * m)
    torch.testing.assert_close(new_bias - bias, -0.3 * error)


def test_pairs_count_once_each_and_one_batch_is_one_step_on_their_mean():
    algorithm = toy("fedgh", {"server_lr": 0.3, "server_batch": 16}).algorithm
    server, draws = algorithm.init_server(), torch.Generator().manual_seed(0)
    m, labels = torch.rand(5, 8, generator=draws), [0, 1, 3, 1, 2]
    new = algorithm.aggregate(server, {0: pairs(m[:3], labels[:3]), 7: pairs(m[3:], labels[3:])})[
        "pi"
    ]
    (weight, bias) = server["pi"].values()
    error = torch.softmax(m @ weight.T + bias, 1) - torch.eye(4)[labels]
    torch.testing.assert_close(next(iter(new.values())) - weight, -0.3 * error.T @ m / 5)


def test_server_steps_once_per_pair_in_a_new_order_each_round():
    algorithm = toy("fedgh", {"server_lr": 0.3}).algorithm
    server, m = (
        algorithm.init_server(),
        torch.rand(2, 8, generator=torch.Generator().manual_seed(0)),
    )
    replies = {0: pairs(m, [2, 1])}
    orders = []
    for steps in ([0, 1], [1, 0]):
        state = server
        for row in steps:
            state = algorithm.aggregate(state, {0: pairs(m[row : row + 1], [[2, 1][row]])})
        orders.append(torch.cat([p.flatten() for p in state["pi"].values()]))
    found = []
    for t in range(12):
        new = algorithm.aggregate({**server, "t": torch.tensor(t)}, replies)
        assert new["t"] == t + 1
        found.append(torch.cat([p.flatten() for p in new["pi"].values()]))
    which = [[torch.allclose(one, order, atol=1e-7) for order in orders] for one in found]
    assert all(sum(row) == 1 for row in which)
    assert len({tuple(row) for row in which}) == 2


def test_two_passes_of_the_server_are_two_rounds_of_it_on_the_same_pairs():
    def trained(epochs, times):
        hp = {"server_lr": 0.3, "server_epochs": epochs, "server_batch": 16}
        algorithm = toy("fedgh", hp).algorithm
        state = algorithm.init_server()
        m = torch.rand(5, 8, generator=torch.Generator().manual_seed(0))
        for _ in range(times):
            state = algorithm.aggregate(state, {0: pairs(m, [0, 1, 3, 1, 2])})
        return state["pi"]

    torch.testing.assert_close(trained(2, 1), trained(1, 2))
    assert equal(trained(0, 1), toy("fedgh").server["pi"])


def test_without_a_head_to_share_it_is_local():
    ours = played(toy("fedgh", {"lr": 0.05}, head_layers=0))
    local = played(toy("local", {"lr": 0.05}))
    assert all(
        equal(bare(ours.states[i]["theta"]), bare(local.states[i]["theta"])) for i in range(4)
    )


def test_other_clients_data_reach_a_body_only_through_the_head():
    given = toy("fedgh").partition
    other = Partition((*given.train[:3], given.train[3][:5]), given.test)
    first, second = (toy("fedgh", {"lr": 0.05}, split) for split in (given, other))
    played(first, 1)
    played(second, 1)
    for i in range(3):
        assert equal(first.states[i]["theta"], second.states[i]["theta"])
    assert not equal(head_of(first), head_of(second))
    played(first, 1)
    played(second, 1)
    assert not equal(phi(first.states[0]["theta"]), phi(second.states[0]["theta"]))
    frozen = [
        played(toy("fedgh", {"lr": 0.05, "server_lr": 0.0}, split)) for split in (given, other)
    ]
    assert equal(frozen[0].states[0]["theta"], frozen[1].states[0]["theta"])


def test_client_of_one_class_sends_one_vector_the_plain_mean_of_z():
    given = split_by_class(TOY["dataset"], [[c] * 7 for c in range(4)], [[c] for c in range(4)])
    federation = toy("fedgh", {"lr": 0.05}, given)
    for i in range(4):
        client = federation.client(i)
        reply, state = federation.algorithm.client_update(client, {"pi": head_of(federation)})
        z = federation.algorithm.net(state["theta"]).body(next(client.samples())[0]).detach()
        assert reply["omega"]["labels"].tolist() == [i]
        torch.testing.assert_close(reply["omega"]["means"], z.mean(0, keepdim=True))


def test_evaluated_after_training_as_the_authors_report_it():
    federation = toy("fedgh", {"lr": 0.05})
    algorithm = federation.algorithm
    assert algorithm.evaluation_point == "post"
    message = {"pi": head_of(federation)}
    client = federation.client(0)
    reply, state = algorithm.client_update(client, message)
    after = replace(client, state=state)
    trained = algorithm.trained_model(after, message, reply)
    assert equal(trained, state["theta"])
    assert not equal(pi(trained), message["pi"])
    assert not equal(trained, algorithm.personal_model(after, message))


def test_distance_of_the_head_from_its_start_is_logged():
    federation = toy("fedgh", {"server_lr": 0.5})
    record, _ = federation.step()
    start = federation.algorithm.task.initial
    moved = torch.cat(
        [(p - start[name]).flatten() for name, p in head_of(federation).items()]
    ).norm()
    assert record["server"]["head_moved"] == pytest.approx(float(moved), rel=1e-5)
    assert moved > 0
