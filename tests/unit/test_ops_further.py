"""Shared functions for further parameters, corrected gradients, fine-tuning and parts of the data."""

from dataclasses import replace

import pytest
import torch

from pflbench import ops
from pflbench.api import Params, collect_logs
from pflbench.optim import collect_states
from pflbench.testing import equal, played, toy
from pflbench.testing.problem import TOY_CNN


def shift_loss(shift: Params):
    """Cross entropy of logits that are shifted by a parameter of the method's own."""

    def loss(net, x, y):
        return ops.cross_entropy(net(x) + shift["b"], y)

    return loss


def start(**hparams):
    federation = toy("fedavg", {"lr": 0.1, "batch_size": 8, **hparams})
    algorithm = federation.algorithm
    return algorithm.task.initial, federation.client(0), algorithm.hp


def test_parameters_besides_the_network_take_steps_of_their_own_rate():
    theta, client, hp = start()
    shift = ops.leaves({"b": torch.zeros(4)})
    trained = ops.local_sgd(shift_loss(shift), theta, client, hp, besides=[(shift, 0.5)])
    by_hand = client.task.net(theta).train()
    b = torch.zeros(4)
    for x, y in client.batches(8):
        b.requires_grad_()
        parameters = list(by_hand.parameters())
        value = ops.cross_entropy(by_hand(x) + b, y)
        *gradients, of_b = torch.autograd.grad(value, [*parameters, b])
        with torch.no_grad():
            for p, g in zip(parameters, gradients, strict=True):
                p -= 0.1 * g
            b = b - 0.5 * of_b
    torch.testing.assert_close(ops.values(shift)["b"], b)
    torch.testing.assert_close(trained, by_hand.parameters_now())
    assert not ops.values(shift)["b"].requires_grad


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_rate_0_leaves_them_and_the_network_learns_as_without_them(optimizer):
    theta, client, hp = start(optimizer=optimizer)
    given = {"b": torch.randn(4)}
    shift = ops.leaves(given)
    trained = ops.local_sgd(shift_loss(shift), theta, client, hp, besides=[(shift, 0.0)])
    assert equal(ops.values(shift), given)
    assert equal(trained, ops.local_sgd(shift_loss(given), theta, client, hp))


def test_leaves_are_copies():
    given = {"b": torch.zeros(4)}
    theta, client, hp = start()
    shift = ops.leaves(given)
    ops.local_sgd(shift_loss(shift), theta, client, hp, besides=[(shift, 0.5)])
    assert not equal(ops.values(shift), given)
    assert equal(given, {"b": torch.zeros(4)})


def test_they_are_trained_also_where_no_part_of_the_network_is():
    theta, client, hp = start()
    shift = ops.leaves({"b": torch.zeros(4)})
    trained = ops.local_sgd(
        shift_loss(shift), theta, client, hp, part="none", besides=[(shift, 0.5)]
    )
    assert equal(trained, theta)
    assert ops.values(shift)["b"].abs().min() > 0


def test_the_bound_of_the_gradient_is_that_of_the_network_and_of_them_together():
    theta, client, hp = start(lr=1.0, epochs=1, batch_size=1000, clip=1e-3)
    shift = ops.leaves({"b": torch.zeros(4)})
    trained = ops.local_sgd(shift_loss(shift), theta, client, hp, besides=[(shift, 1.0)])
    steps = [trained[name].double() - theta[name].double() for name in theta]
    steps.append(ops.values(shift)["b"].double())
    norm = torch.cat([step.flatten() for step in steps]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-3)
    assert ops.values(shift)["b"].abs().min() > 0


def test_every_group_keeps_an_optimizer_of_its_own():
    theta, client, hp = start(optimizer="adam", keep_optimizer=True)
    with collect_states() as kept:
        groups = [(ops.leaves({"b": torch.zeros(4)}), 0.5), (ops.leaves({"c": torch.ones(2)}), 0.1)]
        ops.local_sgd(shift_loss(groups[0][0]), theta, client, hp, besides=groups)
    assert [set(state["m"]) for state in kept.values()] == [set(theta), {"b"}, {"c"}]
    assert list(kept) == ["train", "train, 1", "train, 2"]
    continued = replace(client, optimizers=kept)
    anew, on = (ops.leaves({"b": torch.zeros(4)}) for _ in range(2))
    for shift, who in ((anew, client), (on, continued)):
        with collect_states():
            ops.local_sgd(shift_loss(shift), theta, who, hp, besides=[(shift, 0.5)])
    assert not equal(ops.values(anew), ops.values(on))


def test_linear_adds_d_to_the_gradient_and_nothing_to_the_loss():
    theta, client, _ = start()
    x, y = next(client.batches(8))
    draws = torch.Generator().manual_seed(1)
    d = {name: torch.randn(p.shape, generator=draws) for name, p in theta.items()}
    d["head.fc2.bias"] = torch.zeros(4)
    net, corrected = (client.task.net(theta) for _ in range(2))
    plain = ops.cross_entropy_loss(net, x, y)
    plain.backward()
    value = ops.linear(ops.cross_entropy_loss, d)(corrected, x, y)
    value.backward()
    assert value.item() == plain.item()
    for (name, p), q in zip(net.named_parameters(), corrected.parameters(), strict=True):
        assert torch.equal(q.grad, p.grad + d[name])
    assert torch.equal(corrected.head.fc2.bias.grad, net.head.fc2.bias.grad)


def test_part_of_a_client_is_these_samples_of_it():
    federation = toy("fedavg")
    client = federation.client(1)
    rows = torch.tensor([4, 0, 7])
    part = ops.part_of(client, rows)
    (whole_x, whole_y), (x, y) = next(client.samples()), next(part.samples())
    assert torch.equal(x, whole_x[rows])
    assert torch.equal(y, whole_y[rows])
    assert (part.n, part.id, part.round) == (3, 1, 0)
    assert part.counts.sum() == 3
    (batch, _) = next(part.batches(2))
    assert any(torch.equal(batch[0], one) for one in x)


def test_part_of_a_part():
    client = toy("fedavg").client(1)
    part = ops.part_of(ops.part_of(client, torch.tensor([4, 0, 7])), torch.tensor([2]))
    assert torch.equal(next(part.samples())[0][0], next(client.samples())[0][7])


@pytest.mark.parametrize("lr", [None, 0.1])
def test_fine_tuning_is_local_training_with_other_passes_and_rate(lr):
    theta, client, hp = start(epochs=3, lr=0.1 if lr is None else 0.7)
    tuned = ops.fine_tuned(theta, client, replace(hp, epochs=1), epochs=3, lr=lr)
    expected = ops.local_sgd(ops.cross_entropy_loss, theta, client, replace(hp, lr=0.1))
    assert equal(tuned, expected)
    assert not equal(tuned, theta)


def test_fine_tuning_starts_a_new_optimizer_and_keeps_none():
    hparams = {"optimizer": "adam", "lr": 0.01}
    kept = played(toy("fedavg", {**hparams, "keep_optimizer": True}), 1)
    client, hp = kept.client(0), kept.algorithm.hp
    assert client.optimizers
    with collect_states() as states, collect_logs() as logs:
        tuned = ops.fine_tuned(kept.server["theta"], client, hp, epochs=1, lr=None)
    fresh = replace(hp, keep_optimizer=False)
    expected = ops.local_sgd(ops.cross_entropy_loss, kept.server["theta"], client, fresh)
    assert states == {}
    assert set(logs) == {"loss"}
    assert equal(tuned, expected)


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_other_draws_of_the_start_are_drawn_as_the_first(settings):
    task = toy("fedavg", **settings).algorithm.task
    first, second = task.another(1), task.another(2)
    assert equal(first, task.another(1))
    assert first.keys() == task.initial.keys()
    for name, p in task.initial.items():
        assert first[name].shape == p.shape
        assert not torch.equal(first[name], p)
        assert not torch.equal(first[name], second[name])
        bound = p.abs().max()  # uniform in +-1 / sqrt(inputs)
        assert 0.5 * bound < first[name].abs().max() < 2 * bound
    other = toy("fedavg", **settings, seed=1).algorithm.task
    assert not equal(first, other.another(1))
