"""Shared functions against numbers computed by hand."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pflbench import ops
from pflbench.api import collect_logs
from pflbench.testing import toy


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
    federation = toy("fedavg", {"lr": 1.0, "batch_size": 1000})
    initial = federation.algorithm.task.initial
    hp, client = federation.algorithm.hp, federation.client(0)
    trained = ops.local_sgd(ops.cross_entropy_loss, initial, client, hp, clip=0.01)
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


def test_class_prototypes_and_clipping():
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
    bound = z.norm(dim=1).median().item()
    clipped = z * (bound / z.norm(dim=1, keepdim=True)).clamp(max=1)
    c = int(counts.argmax())
    torch.testing.assert_close(
        ops.class_prototypes(net, client, clip=bound)[0][c], clipped[y == c].mean(0)
    )


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


def test_aggregated_prototypes_keep_what_nobody_refreshed():
    previous = omega([1, 2], [7.0, 8.0], [9, 9])["omega"]
    replies = {0: omega([2], [5.0], [4])}
    pooled = ops.aggregate_prototypes(replies, "omega", 4, previous)
    assert pooled["labels"].tolist() == [1, 2]
    assert pooled["means"][:, 0].tolist() == [7.0, 5.0]
    strict = ops.aggregate_prototypes(replies, "omega", 4, previous, min_clients=2)
    assert strict["labels"].tolist() == [
        1
    ]  # class 2 was sent, by too few: its old prototype goes too


def test_prototype_rows_find_rows_and_say_which_are_known():
    rows, known = ops.prototype_rows(
        omega([1, 3], [0.0, 0.0], [1, 1])["omega"], torch.tensor([3, 0, 1, 2]), 4
    )
    assert known.tolist() == [True, False, True, False]
    assert rows[known].tolist() == [1, 0]
