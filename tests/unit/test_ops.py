"""Shared functions against numbers computed by hand."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pflbench import ops
from pflbench.api import Params, collect_logs
from pflbench.optim import SGD, Adam
from pflbench.testing import TOY, equal, split_by_class, toy


def reply(value: float, n: int):
    return {
        "theta": {"w": torch.tensor([value, 2 * value]), "steps": torch.tensor(n)},
        "n": torch.tensor(n),
    }


def test_weighted_mean_by_samples():
    mean = ops.weighted_mean({3: reply(4.0, 3), 1: reply(0.0, 1)}, "theta")
    assert mean["w"].tolist() == [3.0, 6.0]
    assert mean["w"].dtype == torch.float32
    assert mean["steps"] == 1  # an integer buffer is the lowest id's


def test_weighted_mean_with_weights_of_ones_own():
    weights = {1: torch.tensor(3.0), 3: torch.tensor(1.0)}
    assert ops.weighted_mean({3: reply(4.0, 3), 1: reply(0.0, 1)}, "theta", weights)[
        "w"
    ].tolist() == [1.0, 2.0]


@given(st.permutations(range(5)))
def test_weighted_mean_does_not_depend_on_order(order):
    draws = torch.Generator().manual_seed(0)
    replies = {
        i: {"theta": torch.randn(50, generator=draws), "n": torch.tensor(i + 1)} for i in range(5)
    }
    shuffled = {i: replies[i] for i in order}
    assert torch.equal(ops.weighted_mean(replies, "theta"), ops.weighted_mean(shuffled, "theta"))


def test_weighted_mean_accumulates_in_double():
    big, n = 16_777_216.0, 1  # 2^24: adding 1 to it in float32 is lost
    replies = {0: {"x": torch.tensor([big]), "n": torch.tensor(n)}}
    replies |= {i: {"x": torch.tensor([1.0]), "n": torch.tensor(n)} for i in range(1, 9)}
    assert ops.weighted_mean(replies, "x").item() == torch.tensor((big + 8) / 9).item()


def test_weights_are_normalised_in_double():
    one = {"x": torch.ones(1, dtype=torch.float64), "n": torch.tensor(1)}
    mean = ops.weighted_mean(dict.fromkeys(range(3), one), "x")
    assert mean.item() == pytest.approx(1.0, abs=1e-15)


def test_blend_is_exact_at_its_ends():
    a, b = {"w": torch.rand(100)}, {"w": torch.rand(100)}
    assert torch.equal(ops.blend(1.0, a, b)["w"], a["w"])
    assert torch.equal(ops.blend(0.0, a, b)["w"], b["w"])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_head_sgd_is_local_sgd_of_the_head_with_the_same_batches_and_dropout(optimizer, dropout):
    federation = toy(
        "fedavg", {"epochs": 3, "optimizer": optimizer, "dropout": dropout, "lr": 0.01}
    )
    client, theta, hp = (
        federation.client(0),
        federation.algorithm.task.initial,
        federation.algorithm.hp,
    )
    with collect_logs() as slow_logs:
        slow = ops.local_sgd(ops.cross_entropy_loss, theta, client, hp, part="head", stream="head")
    with collect_logs() as fast_logs:
        fast = ops.head_sgd(theta, ops.representations(theta, client), client, hp)
    torch.testing.assert_close(ops.pi(fast), ops.pi(slow))
    assert not any(torch.equal(fast[name], theta[name]) for name in ops.pi(theta))
    assert all(torch.equal(fast[name], theta[name]) for name in ops.phi(theta))
    assert fast_logs == pytest.approx(slow_logs)


def test_local_sgd_takes_the_steps_of_the_formula():
    federation = toy("fedavg", {"lr": 0.1, "batch_size": 7, "epochs": 2})
    client, task, hp = federation.client(0), federation.algorithm.task, federation.algorithm.hp
    theta = task.initial
    for x, y in client.batches(7, 2):
        net = task.net(theta)
        grads = torch.autograd.grad(ops.cross_entropy_loss(net, x, y), list(net.parameters()))
        theta = {
            name: p - 0.1 * g for (name, p), g in zip(net.state_dict().items(), grads, strict=True)
        }
    trained = ops.local_sgd(ops.cross_entropy_loss, task.initial, client, hp)
    for name, p in trained.items():
        torch.testing.assert_close(p, theta[name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("part", ["head", "body"])
def test_local_sgd_leaves_the_other_part_bit_for_bit(part, optimizer):
    federation = toy("fedavg", {"optimizer": optimizer, "lr": 0.1})
    initial = federation.algorithm.task.initial
    trained = ops.local_sgd(
        ops.cross_entropy_loss, initial, federation.client(0), federation.algorithm.hp, part=part
    )
    changed = {name for name in initial if not torch.equal(initial[name], trained[name])}
    assert changed == {name for name in initial if name.startswith(part)}


def test_local_sgd_logs_the_mean_loss_over_samples():
    federation = toy("fedavg", {"lr": 0.0, "batch_size": 5})
    client, task = federation.client(0), federation.algorithm.task
    with collect_logs() as logs:
        ops.local_sgd(ops.cross_entropy_loss, task.initial, client, federation.algorithm.hp)
    x, y = next(client.samples())
    assert logs["loss"] == pytest.approx(
        ops.cross_entropy_loss(task.net(task.initial), x, y).item(), rel=1e-5
    )


def test_local_sgd_clips_the_gradient():
    federation = toy("fedavg", {"lr": 1.0, "batch_size": 1000, "clip": 0.01})
    initial = federation.algorithm.task.initial
    hp, client = federation.algorithm.hp, federation.client(0)
    trained = ops.local_sgd(ops.cross_entropy_loss, initial, client, hp)
    moved = math.sqrt(
        sum((trained[name] - initial[name]).square().sum().item() for name in initial)
    )
    assert moved == pytest.approx(0.01, rel=1e-3)


def test_local_sgd_without_a_batch_returns_what_it_got():
    federation = toy("fedavg")
    client = federation.client(0)
    empty = replace(client, y=client.y[:0])
    initial = federation.algorithm.task.initial
    trained = ops.local_sgd(ops.cross_entropy_loss, initial, empty, federation.algorithm.hp)
    assert list(empty.batches(16)) == list(empty.samples()) == []
    assert all(torch.equal(trained[name], initial[name]) for name in initial)


def test_class_prototypes_are_means_of_representations():
    federation = toy("fedavg")
    client, task = federation.client(0), federation.algorithm.task
    net = task.net(task.initial)
    means, counts = ops.class_prototypes(net, client)
    x, y = next(client.samples())
    z = net.body(x).detach()
    for c in range(4):
        assert counts[c] == (y == c).sum()
        expected = z[y == c].mean(0) if counts[c] else torch.zeros(8)
        torch.testing.assert_close(means[c], expected)


def omega(labels, values, counts):
    means = torch.tensor(values)[:, None].expand(-1, 2)
    return {
        "omega": {
            "means": means,
            "labels": torch.tensor(labels).int(),
            "counts": torch.tensor(counts).int(),
        }
    }


def test_aggregated_prototypes_by_hand():
    replies = {0: omega([0, 2], [1.0, 5.0], [1, 4]), 4: omega([0], [4.0], [2])}
    pooled = ops.aggregate_prototypes(replies, "omega", 4)
    assert pooled["labels"].tolist() == [0, 2]
    assert pooled["means"][:, 0].tolist() == [3.0, 5.0]  # (1*1 + 2*4) / 3
    plain = ops.aggregate_prototypes(replies, "omega", 4, by_count=False)
    assert plain["means"][:, 0].tolist() == [2.5, 5.0]
    shared = ops.aggregate_prototypes(replies, "omega", 4, min_clients=2)
    assert shared["labels"].tolist() == [0]
    of_any = ops.aggregate_prototypes(replies, "omega", 4, min_clients=0)
    assert of_any["labels"].tolist() == [0, 2]  # not those that nobody sent


def test_aggregated_prototypes_keep_what_nobody_refreshed():
    previous = omega([1, 2], [7.0, 8.0], [9, 9])["omega"]
    replies = {0: omega([2], [5.0], [4])}
    pooled = ops.aggregate_prototypes(replies, "omega", 4, previous)
    assert pooled["labels"].tolist() == [1, 2]
    assert pooled["means"][:, 0].tolist() == [7.0, 5.0]
    strict = ops.aggregate_prototypes(replies, "omega", 4, previous, min_clients=2)
    # class 2 was sent, by too few: its old prototype goes too
    assert strict["labels"].tolist() == [1]


def test_prototype_rows_find_rows_and_say_which_are_known():
    rows, known = ops.prototype_rows(
        omega([1, 3], [0.0, 0.0], [1, 1])["omega"], torch.tensor([3, 0, 1, 2]), 4
    )
    assert known.tolist() == [True, False, True, False]
    assert rows[known].tolist() == [1, 0]


def distance(first: Params, second: Params) -> float:
    return math.sqrt(sum((first[name] - second[name]).square().sum().item() for name in first))


def test_proximal_adds_half_mu_times_the_squared_distance():
    task = toy("fedavg").algorithm.task
    anchor = {name: p + 0.1 for name, p in task.initial.items()}
    net = task.net(task.initial)
    for p in net.parameters():
        p.requires_grad_()
    pulled = ops.proximal(lambda net, x, y: x.sum(), anchor, mu=0.5)
    value = pulled(net, torch.tensor([1.0, 2.0]), torch.tensor(0))
    assert value.item() == pytest.approx(3 + 0.25 * distance(task.initial, anchor) ** 2, rel=1e-5)
    value.backward()
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.grad, 0.5 * (task.initial[name] - anchor[name]))


def test_body_and_head_are_parts_of_the_network():
    theta = toy("fedavg").algorithm.task.initial
    body, head = ops.phi(theta), ops.pi(theta)
    assert [*body] == ["body.fc1.weight", "body.fc1.bias"]
    assert [*head] == ["head.fc2.weight", "head.fc2.bias"]
    assert ops.join(body, head) == theta
    assert ops.phi({"bodywork.w": torch.zeros(1)}) == ops.pi({"headless.w": torch.zeros(1)}) == {}


def test_zeros_and_differences_by_hand():
    first = {"w": torch.tensor([1.0, 2.0]), "b": torch.tensor([5.0])}
    second = {"w": torch.tensor([4.0, 0.5]), "b": torch.tensor([5.0])}
    found = ops.difference(first, second)
    assert {name: p.tolist() for name, p in found.items()} == {"w": [-3.0, 1.5], "b": [0.0]}
    nothing = ops.zeros(first, torch.float64)
    assert nothing["w"].dtype == torch.float64 and ops.zeros(first)["w"].dtype == torch.float32
    assert {name: p.tolist() for name, p in nothing.items()} == {"w": [0.0, 0.0], "b": [0.0]}


def test_blend_by_hand():
    first, second = {"w": torch.tensor([4.0, 8.0])}, {"w": torch.tensor([0.0, 16.0])}
    assert ops.blend(0.25, first, second)["w"].tolist() == [1.0, 14.0]


def test_the_loss_of_another_stream_has_its_name():
    federation = toy("fedavg")
    algorithm, client = federation.algorithm, federation.client(0)
    with collect_logs() as logs:
        ops.local_sgd(
            ops.cross_entropy_loss, algorithm.task.initial, client, algorithm.hp, stream="second"
        )
    assert [*logs] == ["loss_second"]


def test_a_part_that_no_parameter_has_is_not_trained():
    federation = toy("fedavg")
    initial = federation.algorithm.task.initial
    with collect_logs() as logs:
        trained = ops.local_sgd(
            ops.cross_entropy_loss,
            initial,
            federation.client(0),
            federation.algorithm.hp,
            part="tail",
        )
    assert logs == {}
    assert equal(trained, initial)
    assert not any(trained[name] is initial[name] for name in initial)


@pytest.mark.parametrize("name", ["loss", ""])
def test_gradient_is_that_of_the_cross_entropy(name):
    federation = toy("fedavg")
    task, client = federation.algorithm.task, federation.client(0)
    theta = {key: p + 0.01 for key, p in task.initial.items()}
    x, y = next(client.samples())
    net = task.net(theta)
    expected = ops.cross_entropy_loss(net, x, y)
    expected.backward()
    with collect_logs() as logs:
        found = ops.gradient(task.net(task.initial), x, y, name)(theta)
    for key, p in net.named_parameters():
        torch.testing.assert_close(found[key], p.grad)
    assert logs == ({"loss": pytest.approx(expected.item())} if name else {})


@pytest.mark.parametrize("name, kind", [("sgd", SGD), ("adam", Adam)])
def test_the_optimizer_is_the_one_that_is_asked_for(name, kind):
    hp = replace(toy("fedavg").algorithm.hp, optimizer=name, lr=0.25)
    p = torch.nn.Parameter(torch.zeros(2))
    optimizer = ops.optimizer_of(hp, [p])
    assert type(optimizer) is kind
    p.grad = torch.ones(2)
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.full((2,), -0.25))  # Adam's first step is lr too


def with_classes(*classes: int):
    """A client with training samples of these classes, its task and its network."""
    split = split_by_class(TOY["dataset"], [list(classes)], [[0]])
    federation = toy("fedavg", split=split)
    task = federation.algorithm.task
    return federation.client(0), task.net(task.initial)


@pytest.mark.parametrize(
    "least, labels, counts",
    [(0, [0, 2, 3], [1, 3, 2]), (1, [0, 2, 3], [1, 3, 2]), (2, [2, 3], [3, 2]), (3, [2], [3])],
)
def test_prototypes_are_of_the_classes_with_enough_samples(least, labels, counts):
    client, net = with_classes(2, 3, 2, 0, 2, 3)
    omega = ops.prototypes(net.train(), client, least)
    assert not net.training  # over all training data, in evaluation mode
    assert omega["labels"].tolist() == labels
    assert omega["counts"].tolist() == counts
    assert (omega["labels"].dtype, omega["counts"].dtype) == (torch.int32, torch.int32)
    means, _ = ops.class_prototypes(net, client)
    assert torch.equal(omega["means"], means[labels])
    assert means[1].tolist() == [0.0] * 8  # of the class that the client lacks


def test_no_prototypes_have_a_width():
    empty = ops.no_prototypes(7)
    assert (empty["means"].shape, empty["labels"].shape) == ((0, 7), (0,))
    assert empty["labels"].dtype == torch.int32
    rows, known = ops.prototype_rows(empty, torch.tensor([1, 0]), 2)
    assert (rows.tolist(), known.tolist()) == ([0, 0], [False, False])


def test_representations_are_in_the_order_of_the_samples():
    client, net = with_classes(2, 3, 2, 0)
    x, _ = next(client.samples())
    z = ops.representations(client.task.initial, client)
    assert not z.requires_grad
    torch.testing.assert_close(z, net.body(x).detach())


@pytest.mark.parametrize(
    "rows, expected",
    [
        ([[1.0, 0.0], [0.0, 2.0]], [0.8, 0.2]),  # a_i in proportion to 1 / P_ii
        ([[1e-6, 0.0], [0.0, 2e-6]], [0.8, 0.2]),
        ([[1.0, 3.0]], [1.0, 0.0]),
        ([[1.0, -1.0]], [0.5, 0.5]),
        ([[0.0, 5.0]], [1.0, 0.0]),
        ([[3.0]], [1.0]),
    ],
)
def test_simplex_qp_by_hand(rows, expected):
    a, gap = ops.simplex_qp(torch.tensor(rows))
    assert a.tolist() == pytest.approx(expected, abs=1e-9)
    assert a.dtype == torch.float64
    assert 0 <= gap < 1e-6


def test_simplex_qp_without_an_answer_is_uniform():
    a, gap = ops.simplex_qp(torch.tensor([[1.0, math.inf, 1.0, 1.0]]))
    assert (a.tolist(), a.dtype, gap) == ([0.25] * 4, torch.float64, math.inf)
    a, gap = ops.simplex_qp(torch.zeros(2, 4))
    assert (a.tolist(), gap) == ([0.25] * 4, 0.0)


def test_simplex_qp_that_takes_too_many_steps_is_uniform(monkeypatch):
    def nnls(*_):
        raise RuntimeError("too many iterations")

    monkeypatch.setattr("scipy.optimize.nnls", nnls)
    a, gap = ops.simplex_qp(torch.ones(2, 4))
    assert (a.tolist(), gap) == ([0.25] * 4, math.inf)
