"""SCAFFOLD: the identities of control variates."""

import sys

import pytest
import torch
from torch.nn.functional import cross_entropy

from pflbench.data.partition import Partition
from pflbench.methods import registry
from pflbench.ops import linear, local_sgd
from pflbench.testing import equal, played, split_by_class, toy
from pflbench.testing.problem import TOY, TOY_CNN
from tests.factories import quadratic


def close(first, second, atol=1e-5) -> None:
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-4, atol=atol)


def control(federation):
    """c, as clients get it."""
    return federation.algorithm.download(federation.server, (0,))[0]["c"]


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_round_0_is_fedavgs_and_without_control_every_round(settings):
    hparams = {"lr": 0.05, "epochs": 2}
    fedavg = toy("fedavg", hparams, **settings)
    scaffold = toy("scaffold", hparams, **settings)
    none = toy("scaffold", {**hparams, "control": "none"}, **settings)
    for round in range(3):
        for federation in (fedavg, scaffold, none):
            federation.step()
        assert equal(none.server["x"], fedavg.server["theta"])
        assert equal(scaffold.server["x"], fedavg.server["theta"]) == (round == 0)


def test_server_rate_0_keeps_the_model_and_half_of_it_goes_half_the_way():
    still, half, whole = (
        played(toy("scaffold", {"lr": 0.05, "server_lr": rate}), 1) for rate in (0.0, 0.5, 1.0)
    )
    start = still.algorithm.task.initial
    assert equal(still.server["x"], start)
    close(half.server["x"], {n: (p + whole.server["x"][n]) / 2 for n, p in start.items()})


@pytest.mark.parametrize("weights", ["samples", "uniform"])
@pytest.mark.parametrize("rule", ["steps", "full"])
def test_the_servers_sum_is_that_of_all_clients_at_any_participation(weights: str, rule: str):
    hparams = {"lr": 0.05, "weights": weights, "control": rule}
    federation = toy("scaffold", hparams, clients=6, participation=0.4)
    for _ in range(4):
        federation.step()
        total = {name: torch.zeros_like(p) for name, p in federation.server["C"].items()}
        seen = {}
        for id, state in federation.states.items():
            seen[id] = 1 if weights == "uniform" else len(federation.partition.train[id])
            for name, c in state["c"].items():
                total[name] += seen[id] * c.double()
        close(federation.server["C"], total, atol=1e-4)
        assert federation.server["a"].tolist() == [seen.get(id, 0) for id in range(6)]
        scale = 6 * sum(seen.values()) / len(seen)
        close(control(federation), {name: (t / scale).float() for name, t in total.items()})
    assert 2 < len(seen) <= 6


def test_c_i_is_the_mean_of_the_raw_gradients_on_the_path():
    federation = played(toy("scaffold", {"lr": 0.05, "epochs": 2, "batch_size": 8}), 1)
    algorithm, client = federation.algorithm, federation.client(0)
    message = algorithm.download(federation.server, (0,))[0]
    reply, state = algorithm.client_update(client, message)
    y = message["theta"]
    gradients = []
    for x, labels in client.batches(8, 2):
        net = algorithm.task.net(y)
        cross_entropy(net(x), labels).backward()
        g = {name: p.grad for name, p in net.named_parameters()}
        gradients.append(g)
        d = {name: message["c"][name] - client.state["c"][name] for name in y}
        y = {name: p - 0.05 * (g[name] + d[name]) for name, p in y.items()}
    assert len(gradients) > 4
    assert len(client.y) % 8  # the last batch is a short one
    close(reply["theta"], y)
    close(state["c"], {n: torch.stack([g[n] for g in gradients]).mean(0) for n in y}, atol=1e-4)
    close(reply["dc"], {n: state["c"][n] - client.state["c"][n] for n in y})


def test_option_1_is_the_gradient_of_all_data_at_the_model_received():
    federation = played(toy("scaffold", {"lr": 0.05, "control": "full"}), 1)
    client = federation.client(1)
    message = federation.algorithm.download(federation.server, (1,))[1]
    _, state = federation.algorithm.client_update(client, message)
    net = federation.algorithm.task.net(message["theta"])
    x, y = next(client.samples())
    cross_entropy(net(x), y).backward()
    close(state["c"], {name: p.grad for name, p in net.named_parameters()})


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
def test_with_all_clients_and_equal_steps_c_is_the_servers_own_step(server_lr: float):
    split = split_by_class(TOY["dataset"], [[0, 1] * 10, [2, 3] * 10], [[0], [2]])
    hparams = {"lr": 0.05, "epochs": 2, "server_lr": server_lr}
    federation = toy("scaffold", hparams, split)
    for _ in range(3):
        before = federation.server["x"]
        federation.step()
        after = federation.server["x"]
        steps = 2 * 2 * 0.05 * server_lr  # two batches, twice
        close(control(federation), {n: (before[n] - after[n]) / steps for n in before}, atol=1e-4)


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[registry.load("scaffold").__module__]
    monkeypatch.setattr(module, "cross_entropy_loss", quadratic.loss)


@pytest.mark.usefixtures("by_hand")
def test_two_quadratics_by_hand():
    federation = quadratic.two_clients("scaffold", {"lr": 0.1, "batch_size": 2})
    algorithm = federation.algorithm
    start = quadratic.constant(algorithm.task.initial, 3.0)
    federation.server = {**federation.server, "x": start}
    message = algorithm.download(federation.server, (0,))[0]
    ends = [algorithm.client_update(federation.client(id), message)[0]["theta"] for id in (0, 1)]
    assert [quadratic.only(y) for y in ends] == pytest.approx([2.43, 2.81])
    federation.step()
    assert quadratic.only(federation.server["x"]) == pytest.approx(2.62)
    assert [quadratic.only(federation.states[id]["c"]) for id in (0, 1)] == pytest.approx(
        [2.85, 0.95]
    )
    assert quadratic.only(control(federation)) == pytest.approx(1.9)
    one_step = {"lr": 0.1, "batch_size": 4}
    other = quadratic.two_clients("scaffold", one_step)
    message = algorithm.download(federation.server, (0,))[0]
    firsts, fedavgs = [], []
    for id in (0, 1):
        client = other.client(id)
        c_i = federation.states[id]["c"]
        loss = algorithm.corrected_loss(message["c"], c_i)
        no = linear(quadratic.loss, {name: torch.zeros_like(p) for name, p in c_i.items()})
        firsts.append(local_sgd(loss, message["theta"], client, other.algorithm.hp))
        fedavgs.append(local_sgd(no, message["theta"], client, other.algorithm.hp))
    assert [quadratic.only(y) for y in firsts] == pytest.approx([2.453, 2.463])
    assert [quadratic.only(y) for y in fedavgs] == pytest.approx([2.358, 2.558])


def test_clients_that_are_alike_need_no_correction():
    rows = toy("fedavg").partition.train[0]
    split = Partition((rows, rows), (rows[:1], rows[:1]))
    hparams = {"lr": 0.05, "epochs": 3, "batch_size": 1000}
    scaffold, fedavg = toy("scaffold", hparams, split), toy("fedavg", hparams, split)
    for _ in range(3):
        scaffold.step()
        fedavg.step()
        close(scaffold.server["x"], fedavg.server["theta"])
    assert max(c.abs().max() for c in control(scaffold).values()) > 0.01


def test_without_a_step_c_i_stays():
    federation = played(toy("scaffold", {"lr": 0.05, "epochs": 0}), 2)
    assert all(c.abs().max() == 0 for s in federation.states.values() for c in s["c"].values())
    assert equal(federation.server["x"], federation.algorithm.task.initial)
