"""FedAvg: the identities of averaging."""

import torch
from torch.nn.functional import cross_entropy

from pflbench.data.partition import Partition
from pflbench.testing import equal, toy


def replies_of(federation):
    """One reply of every client to the first message, without aggregating."""
    algorithm = federation.algorithm
    return {
        i: algorithm.client_update(federation.client(i), federation.server)[0]
        for i in range(federation.run.clients)
    }


def test_one_client_is_local_bit_for_bit():
    local, fedavg = toy("local", {"lr": 0.05}, clients=1), toy("fedavg", {"lr": 0.05}, clients=1)
    for _ in range(3):
        local.step()
        fedavg.step()
    assert equal(fedavg.server["theta"], local.states[0]["theta"])


def test_permuting_the_clients_leaves_the_mean_bit_identical():
    federation = toy("fedavg", {"lr": 0.1})
    replies = replies_of(federation)
    backwards = dict(reversed(replies.items()))
    first, second = (federation.algorithm.aggregate({}, r)["theta"] for r in (replies, backwards))
    assert equal(first, second)


def test_rate_zero_leaves_the_model_as_it_is():
    federation = toy("fedavg", {"lr": 0.0})
    federation.step()
    initial = federation.algorithm.task.initial
    for name, p in federation.server["theta"].items():
        torch.testing.assert_close(p, initial[name], rtol=1e-6, atol=0)


def test_every_coordinate_lies_between_the_clients():
    federation = toy("fedavg", {"lr": 0.1})
    replies = replies_of(federation)
    mean = federation.algorithm.aggregate({}, replies)["theta"]
    for name, p in mean.items():
        each = torch.stack([reply["theta"][name] for reply in replies.values()])
        assert ((each.min(0).values <= p) & (p <= each.max(0).values)).all()


def test_two_equal_clients_are_one():
    federation = toy("fedavg", {"lr": 0.1}, clients=1)
    reply, _ = federation.algorithm.client_update(federation.client(0), federation.server)
    assert equal(federation.algorithm.aggregate({}, {0: reply, 1: reply})["theta"], reply["theta"])


def test_clients_of_n_and_3n_samples_weigh_a_quarter_and_three_quarters_exactly():
    split = toy("fedavg", clients=1).partition
    rows = split.train[0][:40]
    split = Partition((rows[:10], rows[10:]), (split.test[0][:5], split.test[0][5:]))
    federation = toy("fedavg", {"lr": 0.1}, split=split)
    replies = replies_of(federation)
    federation.step()
    for name, p in federation.server["theta"].items():
        a, b = (replies[i]["theta"][name].double() for i in (0, 1))
        assert torch.equal(p, (0.25 * a + 0.75 * b).float())


def test_full_batch_step_is_a_step_of_centralised_sgd():
    federation = toy("fedavg", {"lr": 0.1, "batch_size": 1000})
    task = federation.algorithm.task
    net = task.net(task.initial)
    clients = [federation.client(i) for i in range(4)]
    x, y = (
        torch.cat(column)
        for column in zip(*(next(client.samples()) for client in clients), strict=True)
    )
    cross_entropy(net(x), y).backward()
    expected = {name: p.detach() - 0.1 * p.grad for name, p in net.named_parameters()}
    federation.step()
    for name, p in federation.server["theta"].items():
        torch.testing.assert_close(p, expected[name], rtol=1e-5, atol=1e-7)


def test_clients_outside_the_cohort_have_no_influence():
    federation = toy("fedavg", participation=0.5)
    outside = ({0, 1, 2, 3} - set(federation.select())).pop()
    train = list(federation.partition.train)
    train[outside] = train[outside][:2]
    changed = toy(
        "fedavg", split=Partition(tuple(train), federation.partition.test), participation=0.5
    )
    federation.step()
    changed.step()
    assert equal(federation.server["theta"], changed.server["theta"])
