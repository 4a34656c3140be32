"""FedBN: the identities of batch norm that stays on the client."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pflbench.api import Net
from pflbench.methods import registry
from pflbench.testing import equal, personal, played, split_by_class, toy
from pflbench.testing.problem import TOY_CNN
from pflbench.testing.subject import Subject

BN: dict[str, Any] = {**TOY_CNN, "model": "cnn_bn"}
RESNET: dict[str, Any] = {"model": "resnet8"}
RATE = {"lr": 0.05}


def module() -> Any:
    return sys.modules[registry.load("fedbn").__module__]


def norms(theta) -> set[str]:
    return {name for name in theta if ".norm" in name or ".shortcut.1." in name}


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_without_batch_norm_it_is_fedavg_to_the_byte_and_says_so(settings):
    fedbn, fedavg = toy("fedbn", RATE, **settings), toy("fedavg", RATE, **settings)
    for _ in range(3):
        record, _ = fedbn.step()
        expected, _ = fedavg.step()
        assert equal(fedbn.server["theta"], fedavg.server["theta"])
        assert record["bytes"] == expected["bytes"]
        assert record["accuracy"] == expected["accuracy"]
        assert record["notes"] == ["the network has no batch norm: without it FedBN is FedAvg"]


@pytest.mark.parametrize(
    ("settings", "layers", "numbers"),
    [(BN, 2, 4 * 96), (RESNET, 9, 4 * (5 * 16 + 3 * 32 + 64 * 3 - 32))],
)
def test_everything_of_batch_norm_is_private_and_nothing_else(settings, layers, numbers):
    """By type, also the second layer of a shortcut, whose name does not say what it is."""
    federation = toy("fedbn", RATE, **settings)
    algorithm: Any = federation.algorithm
    task = algorithm.task
    private = norms(task.initial)
    assert len(private) == 4 * layers
    assert task.statistics < private
    assert algorithm.sizes() == {"bn": numbers}
    record, _ = federation.step()
    assert "notes" not in record
    for id in range(4):
        reply, state = algorithm.client_update(federation.client(id), federation.server)
        assert reply.keys() == {"theta", "n"}
        assert reply["theta"].keys() == task.initial.keys() - private
        assert state["beta"].keys() == private
    assert federation.server["theta"].keys() == task.initial.keys() - private


def test_layers_all_keeps_group_norm_too():
    federation = toy("fedbn", {"layers": "all"}, model="resnet18")
    algorithm: Any = federation.algorithm
    kinds = {
        type(layer)
        for name, layer in algorithm.task.skeleton.named_modules()
        if any(
            private.startswith(f"{name}.") for private in federation.algorithm.init_client()["beta"]
        )
        and not list(layer.children())
    }
    assert kinds == {nn.GroupNorm}
    whole = sum(p.numel() for p in algorithm.task.initial.values())
    sent = sum(p.numel() for p in federation.server["theta"].values())
    assert sent == whole - algorithm.sizes()["bn"] < whole


def test_a_download_and_other_clients_rounds_change_no_norm():
    federation = toy(
        "fedbn",
        RATE,
        clients=6,
        participation=0.2,
        **{k: v for k, v in BN.items() if k != "clients"},
    )
    federation.step()
    (first,) = federation.states
    unselected = 0
    for _ in range(6):
        own = federation.states[first]["beta"]
        selected = first in federation.select()
        federation.step()
        model = personal(federation, first)
        private = {name: model[name] for name in own}
        assert selected or equal(private, own)
        assert equal(private, federation.states[first]["beta"])
        assert equal(
            {name: model[name] for name in federation.server["theta"]}, federation.server["theta"]
        )
        unselected += not selected
    assert unselected > 2


@pytest.mark.parametrize("settings", [BN, RESNET], ids=["cnn_bn", "resnet8"])
def test_one_client_is_local_on_the_same_network(settings):
    one = {**settings, "clients": 1}
    local, fedbn = toy("local", RATE, **one), toy("fedbn", RATE, **one)
    for _ in range(3):
        local.step()
        fedbn.step()
        assert equal(personal(fedbn), local.states[0]["theta"])


def test_the_shared_part_of_the_first_uploads_is_fedavgs_and_of_later_ones_not():
    fedbn, fedavg = toy("fedbn", RATE, **BN), toy("fedavg", RATE, **BN)
    for same in (True, False):
        for id in range(4):
            ours, _ = fedbn.algorithm.client_update(fedbn.client(id), fedbn.server)
            theirs, _ = fedavg.algorithm.client_update(fedavg.client(id), fedavg.server)
            shared = {name: theirs["theta"][name] for name in ours["theta"]}
            assert equal(ours["theta"], shared) == same
        fedbn.step()
        fedavg.step()


def test_what_is_evaluated_after_training_is_what_the_client_trained():
    federation = played(toy("fedbn", RATE, **BN), 1)
    client, server = federation.client(0), federation.server
    reply, state = federation.algorithm.client_update(client, server)
    model = federation.algorithm.trained_model(replace(client, state=state), server, reply)
    local: Any = toy("local", RATE, **BN).algorithm
    _, alone = local.client_update(replace(client, state={"theta": personal(federation)}), {})
    assert equal(model, alone["theta"])


@pytest.mark.parametrize("refresh", [False, True])
def test_evaluation_changes_no_running_statistic(refresh: bool):
    federation = played(toy("fedbn", {**RATE, "refresh": refresh}, **BN), 2)
    before = {
        id: {k: p.clone() for k, p in state["beta"].items()}
        for id, state in federation.states.items()
    }
    federation.start()
    x, _ = next(federation.client(0).samples())
    model = personal(federation)
    assert torch.equal(
        federation.algorithm.predict(model, x), federation.algorithm.predict(model, x)
    )
    assert all(equal(before[id], federation.states[id]["beta"]) for id in before)


def test_a_client_of_one_sample_trains():
    split = split_by_class(BN["dataset"], [[0], [1, 2, 1, 3]], [[0], [1]])
    federation = played(toy("fedbn", RATE, split, **BN), 3)
    assert all(p.isfinite().all() for p in personal(federation, 0).values())
    assert not equal(federation.states[0]["beta"], federation.algorithm.init_client()["beta"])


def first_norm(net: Net, x: torch.Tensor) -> torch.Tensor:
    """What the first batch norm gives, in training."""
    body: Any = net.train().body
    output: torch.Tensor = body.norm1(body.conv1(x))
    return output


def test_brightness_and_contrast_of_a_client_vanish_in_its_first_norm():
    """x -> a x + b changes nothing behind the first batch norm: its convolution pads nothing."""
    federation = toy("fedbn", **BN)
    x, _ = next(federation.client(0).samples())
    theta = personal(federation)
    plain = first_norm(federation.algorithm.task.net(theta), x)
    moved = first_norm(federation.algorithm.task.net(theta), 3.0 * x + 0.5)
    torch.testing.assert_close(moved, plain, rtol=1e-2, atol=1e-2)
    evaluated = federation.algorithm.task.net(theta).body
    assert not torch.allclose(evaluated(3.0 * x + 0.5), evaluated(x), rtol=1e-2, atol=1e-2)


def test_clients_are_weighted_by_their_samples():
    federation = toy("fedbn", RATE, **BN)
    replies = {
        id: federation.algorithm.client_update(federation.client(id), federation.server)[0]
        for id in range(4)
    }
    n = torch.tensor([len(rows) for rows in federation.partition.train]).double()
    federation.step()
    for name, p in federation.server["theta"].items():
        stacked = torch.stack([replies[id]["theta"][name].double() for id in range(4)])
        mean = torch.einsum("i,i...->...", n / n.sum(), stacked)
        torch.testing.assert_close(p.double(), mean, rtol=1e-5, atol=1e-7)


def test_refreshed_statistics_are_those_of_the_own_data_under_the_new_model():
    federation = played(toy("fedbn", {**RATE, "refresh": True}, **BN), 2)
    stale = federation.states[1]["beta"]
    model = personal(federation, 1)
    net = federation.algorithm.task.net(model)
    body: Any = net.body
    (x,) = (x for x, _ in federation.client(1).samples())
    hidden = body.conv1(x)
    found = model["body.norm1.running_mean"], model["body.norm1.running_var"]
    torch.testing.assert_close(found[0], hidden.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1], hidden.var((0, 2, 3)), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found[0], stale["body.norm1.running_mean"], rtol=1e-2)
    others = {name for name in model if not name.endswith(("running_mean", "running_var"))}
    kept = {**federation.server["theta"], **stale}
    assert all(torch.equal(model[name], kept[name]) for name in others)


def test_refreshed_statistics_of_several_batches_are_weighted_by_samples(monkeypatch):
    federation = toy("fedbn", {"refresh": True}, **BN)
    client = federation.client(0)
    size = len(client.y) // 3 + 1
    parts = [x for x, _ in client.samples(size)]
    whole = type(client).samples
    monkeypatch.setattr(type(client), "samples", lambda self: whole(self, size))
    body: Any = federation.algorithm.task.net(personal(federation)).body
    shares = torch.tensor([len(x) / len(client.y) for x in parts])
    means = torch.stack([body.conv1(x).mean((0, 2, 3)) for x in parts])
    found = personal(federation)["body.norm1.running_mean"]
    assert len({len(x) for x in parts}) == 2
    torch.testing.assert_close(found, shares @ means, rtol=1e-4, atol=1e-5)


def test_a_new_client_starts_with_the_initial_norms_and_learns_its_own():
    federation = played(toy("fedbn", RATE, **BN), 2)
    algorithm: Any = federation.algorithm
    stranger = replace(federation.client(0), id=99, state=algorithm.init_client())
    model = algorithm.personal_model(stranger, federation.server)
    initial = algorithm.task.initial
    assert all(torch.equal(model[name], initial[name]) for name in norms(model))
    adapted = algorithm.adapted_model(stranger, federation.server, 1)
    assert adapted.keys() == initial.keys()
    assert not any(torch.equal(adapted[name], initial[name]) for name in algorithm.task.statistics)


def test_the_kit_and_the_golden_numbers_have_a_network_with_batch_norm():
    assert Subject("fedbn").federation().algorithm.task.statistics
    assert Subject("fedbn").network_setup.run.model == "resnet8"
    assert Subject("fedavg").network_setup.run.model == "cnn"
    stored = json.loads((Path(__file__).parents[1] / "golden" / "fedbn.json").read_text())
    assert all(client["beta"]["moved"] > 0 for client in stored["clients"].values())
