"""PerFedAvg: the identities of meta-learning."""

import dataclasses
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from pflbench.api import Client, collect_logs
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY, equal, split_by_class, toy

VARIANTS = ["first_order", "hessian_free"]


def method(hp: dict[str, Any]) -> Any:
    """The algorithm by itself, for functions of its own."""
    return toy("perfedavg", hp).algorithm


def adapted(federation, id):
    message = federation.algorithm.download(federation.server, (id,))[id]
    return federation.algorithm.personal_model(federation.client(id), message)


def quadratic(a, c):
    return lambda theta: {"x": a * (theta["x"] - c)}


def test_alpha_0_is_fedavg_with_rate_beta_on_the_second_halves(monkeypatch: pytest.MonkeyPatch):
    ours = toy("perfedavg", {"alpha": 0.0, "lr": 0.05, "adapt_steps": 0, "batch_size": 8})
    fedavg = toy("fedavg", {"lr": 0.05, "batch_size": 8})
    records = [ours.step()[0] for _ in range(3)]
    batches = Client.batches

    def second_halves(*arguments):
        for x, y in batches(*arguments):
            if len(y) > 1:
                yield x.tensor_split(2)[1], y.tensor_split(2)[1]

    monkeypatch.setattr(Client, "batches", second_halves)
    expected = [fedavg.step()[0] for _ in range(3)]
    assert equal(ours.server["theta"], fedavg.server["theta"])
    for ours_now, fedavg_now in zip(records, expected, strict=True):
        assert (
            ours_now["accuracy"]["pre"]
            == fedavg_now["accuracy"]["pre"]
            == ours_now["accuracy"]["global"]
        )


def test_no_steps_of_adaptation_evaluate_the_global_model_itself():
    federation = toy("perfedavg", {"adapt_steps": 0})
    federation.step()
    assert equal(adapted(federation, 0), federation.server["theta"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_beta_0_never_changes_the_model_whatever_alpha(variant: str):
    federation = toy("perfedavg", {"lr": 0.0, "alpha": 0.5, "variant": variant})
    initial = federation.algorithm.task.initial
    for i in range(4):
        assert equal(
            federation.algorithm.client_update(federation.client(i), federation.server)[0]["theta"],
            initial,
        )
    federation.step()
    for name, p in federation.server["theta"].items():
        torch.testing.assert_close(p, initial[name], rtol=1e-6, atol=0)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("variant", VARIANTS)
def test_scalar_quadratic_step(variant: str, steps: int):
    a, c, alpha, beta, start = 3.0, 0.7, 0.2, 0.1, 2.0
    hp = {"alpha": alpha, "lr": beta, "inner_steps": steps, "variant": variant}
    algorithm = method(hp)
    grad, x = quadratic(a, c), {"x": torch.tensor(start, dtype=torch.float64)}
    power = steps if variant == "first_order" else 2 * steps
    after = algorithm.step(x, grad, grad, grad if variant == "hessian_free" else None)["x"].item()
    torch.testing.assert_close(after, start - beta * a * (1 - alpha * a) ** power * (start - c))


def test_hessian_term_is_the_derivative_through_the_inner_step():
    algorithm = method({"alpha": 0.2, "lr": 0.5, "difference": 1e-4})
    draws = torch.Generator().manual_seed(0)
    A = torch.randn(6, 6, generator=draws, dtype=torch.float64) / 3

    def F(x):
        return (A @ x).cosh().sum()

    def grad(theta):
        return {"x": torch.func.grad(F)(theta["x"])}

    x = torch.randn(6, generator=draws, dtype=torch.float64)
    through = torch.func.grad(lambda x: F(x - 0.2 * torch.func.grad(F)(x)))(x)
    exact, first_order = (
        algorithm.step({"x": x}, grad, grad, third)["x"] for third in (grad, None)
    )
    torch.testing.assert_close(exact, x - 0.5 * through, rtol=1e-6, atol=1e-8)
    assert not torch.allclose(first_order, x - 0.5 * through, rtol=1e-2)


@pytest.mark.parametrize("variant", VARIANTS)
def test_evaluation_changes_nothing_stored_and_no_later_training(variant: str):
    often, rarely = (toy("perfedavg", {"variant": variant}, eval_every=every) for every in (1, 3))
    for federation in (often, rarely):
        for _ in range(3):
            federation.step()
    assert equal(often.server["theta"], rarely.server["theta"])
    assert all(state == {} for state in often.states.values())
    before = {name: p.clone() for name, p in often.server["theta"].items()}
    assert not equal(adapted(often, 0), before)
    assert equal(often.server["theta"], before)


def test_permuted_test_labels_change_the_accuracy_but_not_the_adapted_model():
    federation = toy("perfedavg", {"lr": 0.1})
    setup = federation.setup
    y = np.array(setup.data.y)
    rows = np.concatenate(setup.partition.test)
    y[rows] = (y[rows] + 1) % 4
    relabelled = dataclasses.replace(setup, data=dataclasses.replace(setup.data, y=y))
    other = Federation(relabelled, Serial(relabelled))
    for _ in range(3):
        first, second = federation.step()[0], other.step()[0]
    assert all(equal(adapted(federation, i), adapted(other, i)) for i in range(4))
    assert first["accuracy"]["pre"] != second["accuracy"]["pre"]


@pytest.mark.parametrize("batch_size, half", [(2, 1), (9, 4), (12, 6)])
def test_adaptation_takes_steps_of_rate_alpha_on_batches_of_the_inner_size(batch_size, half):
    hp = {"alpha": 0.3, "batch_size": batch_size, "adapt_steps": 3}
    federation = toy("perfedavg", hp)
    client = federation.client(0)
    assert len(client.y) > 3 * half
    net = federation.algorithm.net(federation.server["theta"])
    for x, y in islice(client.batches(half, 1, "adapt"), 3):
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        for p in net.parameters():
            p.data -= 0.3 * p.grad
    for name, p in adapted(federation, 0).items():
        torch.testing.assert_close(p, net.state_dict()[name])


def test_adaptation_lowers_the_loss_on_training_data():
    federation = toy("perfedavg", {"adapt_steps": 20})
    algorithm, client = federation.algorithm, federation.client(0)
    x, y = next(client.samples())
    before, after = (
        torch.nn.functional.cross_entropy(algorithm.predict(model, x), y)
        for model in (federation.server["theta"], adapted(federation, 0))
    )
    assert after < before


def test_adaptation_that_is_not_finite_is_dropped_and_logged():
    federation = toy("perfedavg", {"alpha": 1e30, "lr": 0.0, "adapt_steps": 5, "inner_steps": 0})
    record, _ = federation.step()
    assert equal(adapted(federation, 0), federation.server["theta"])
    assert record["evaluated"]["not_adapted"] == [1.0] * 4


@pytest.mark.parametrize("variant", VARIANTS)
def test_client_whose_batches_cannot_be_split_returns_what_it_got(variant: str):
    split = split_by_class(str(TOY["dataset"]), [[0, 1, 2, 3] * 3, [2]], [[0], [2]])
    federation = toy("perfedavg", {"variant": variant}, split=split)
    with collect_logs() as logs:
        reply, _ = federation.algorithm.client_update(federation.client(1), federation.server)
    assert equal(reply["theta"], federation.algorithm.task.initial)
    assert logs == {}  # not even a loss of half a sample
    assert not equal(
        federation.algorithm.client_update(federation.client(0), federation.server)[0]["theta"],
        reply["theta"],
    )


@pytest.mark.parametrize("outer_steps, expected", [(None, 5), (1, 1), (7, 7)])
def test_number_of_outer_steps(
    outer_steps: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
):
    split = split_by_class(str(TOY["dataset"]), [[0, 1, 2, 3] * 5], [[0]])
    federation = toy("perfedavg", {"batch_size": 4, "outer_steps": outer_steps}, split=split)
    calls = []

    def counted(theta, *gradients):
        calls.append(gradients)
        return theta

    monkeypatch.setattr(federation.algorithm, "step", counted)
    federation.algorithm.client_update(federation.client(0), federation.server)
    assert len(calls) == expected


def test_uniform_weights():
    federation = toy("perfedavg", {"uniform": True})
    a, b = (
        {"theta": {"x": torch.tensor(v)}, "n": torch.tensor(n)} for v, n in ((0.0, 1), (1.0, 3))
    )
    assert federation.algorithm.aggregate({}, {0: a, 1: b})["theta"]["x"] == 0.5
    assert toy("perfedavg").algorithm.aggregate({}, {0: a, 1: b})["theta"]["x"] == 0.75


@pytest.mark.parametrize(
    "dataset, alpha, steps", [("cifar10", 0.2, 5), ("emnist", 0.05, 10), ("cifar100", 0.01, 20)]
)
def test_defaults_of_the_paper_by_data_set(dataset: str, alpha: float, steps: int):
    hp = make_run("perfedavg", {"dataset": dataset}, {}).hparams
    assert (hp["alpha"], hp["adapt_steps"], hp["batch_size"]) == (alpha, steps, 32)
