"""IFCA: the identities of several global models, of which clients choose one."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from pflbench.data.partition import Partition
from pflbench.ops import phi, pi
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy

TWO_GROUPS = split_by_class(
    TOY["dataset"], [[0, 1] * 6, [0, 1] * 6, [2, 3] * 6, [2, 3] * 6], [[0], [1], [2], [3]]
)


def chosen(federation, id: int) -> int:
    """The model that a client would train now."""
    message = federation.algorithm.download(federation.server, (id,))[id]
    reply, _ = federation.algorithm.client_update(federation.client(id), message)
    return int(reply["j"])


@pytest.mark.parametrize("init_rounds", [0, 2])
@pytest.mark.parametrize("share", ["none", "body"])
def test_one_model_is_fedavg(init_rounds: int, share: str):
    ifca = toy(
        "ifca", {"lr": 0.05, "K": 1, "init_rounds": init_rounds, "share": share}, participation=0.5
    )
    fedavg = toy("fedavg", {"lr": 0.05}, participation=0.5)
    for _ in range(3):
        record, _ = ifca.step()
        other, _ = fedavg.step()
        assert equal(ifca.server["models"]["0"], fedavg.server["theta"])
        assert record["accuracy"]["pre"] == other["accuracy"]["pre"]


def test_of_equal_models_all_take_the_first_and_the_others_stay():
    ifca = toy("ifca", {"lr": 0.05, "K": 3, "init_rounds": 0})
    start = ifca.algorithm.task.initial
    ifca.server = {**ifca.server, "models": dict.fromkeys(("0", "1", "2"), start)}
    fedavg = played(toy("fedavg", {"lr": 0.05}), 1)
    record, _ = ifca.step()
    assert equal(ifca.server["models"]["0"], fedavg.server["theta"])
    assert equal(ifca.server["models"]["1"], start)
    assert equal(ifca.server["models"]["2"], start)
    assert record["notes"] == ["in some rounds no client trained one of the K models"]


def test_the_first_model_is_the_common_start_and_the_others_are_further_draws():
    ifca = toy("ifca", {"K": 3})
    task, models = ifca.algorithm.task, ifca.server["models"]
    assert equal(models["0"], task.initial)
    assert equal(models["1"], task.another(1))
    assert equal(models["2"], task.another(2))


def test_the_model_is_chosen_by_the_mean_loss_of_the_training_data():
    ifca = played(toy("ifca", {"lr": 0.1, "K": 3}), 2)
    for id in range(4):
        client = ifca.client(id)
        x, y = next(client.samples())
        losses = [
            torch.nn.functional.cross_entropy(ifca.algorithm.task.net(theta)(x), y).item()
            for theta in ifca.server["models"].values()
        ]
        best = losses.index(min(losses))
        assert chosen(ifca, id) == best
        assert equal(personal(ifca, id), ifca.server["models"][str(best)])


def test_the_loss_is_a_mean_of_samples_and_not_of_batches(monkeypatch: pytest.MonkeyPatch):
    ifca = played(toy("ifca", {"lr": 0.1}), 1)
    algorithm: Any = ifca.algorithm
    client, theta = ifca.client(0), ifca.server["models"]["0"]
    whole = algorithm.mean_loss(client, theta)
    x, y = next(client.samples())
    mean = torch.nn.functional.cross_entropy(algorithm.task.net(theta)(x), y)
    assert whole == pytest.approx(mean.item(), rel=1e-6)
    samples = type(client).samples
    monkeypatch.setattr(type(client), "samples", lambda self: samples(self, 7))
    assert len(client.y) % 7
    assert algorithm.mean_loss(client, theta) == pytest.approx(whole, rel=1e-6)


def test_permuted_models_give_permuted_models():
    first, second = (toy("ifca", {"lr": 0.1, "K": 3, "init_rounds": 0}) for _ in range(2))
    played(first, 1)
    models = first.server["models"]
    second.server = {
        "t": first.server["t"],
        "models": {"0": models["2"], "1": models["0"], "2": models["1"]},
    }
    second.round = 1
    second.states.update(first.states)
    first.step()
    second.step()
    new, permuted = first.server["models"], second.server["models"]
    assert equal(permuted["0"], new["2"])
    assert equal(permuted["1"], new["0"])
    assert equal(permuted["2"], new["1"])


def trained_apart() -> Any:
    """Two models, one trained on each of the two groups of clients."""
    ifca = toy("ifca", {"lr": 0.2, "epochs": 3}, TWO_GROUPS)
    models = {}
    for k, ids in (("0", (2, 3)), ("1", (0, 1))):
        split = Partition(
            tuple(TWO_GROUPS.train[id] for id in ids), tuple(TWO_GROUPS.test[id] for id in ids)
        )
        models[k] = played(toy("fedavg", {"lr": 0.2, "epochs": 3}, split), 3).server["theta"]
    ifca.server = {"models": models, "t": torch.tensor(5, dtype=torch.int32)}
    return ifca


def test_each_group_finds_the_model_of_its_own_data():
    ifca = trained_apart()
    assert [chosen(ifca, id) for id in range(4)] == [1, 1, 0, 0]
    before = ifca.server["models"]
    other = trained_apart()
    fewer = Partition((TWO_GROUPS.train[0][:3], *TWO_GROUPS.train[1:]), TWO_GROUPS.test)
    changed = toy("ifca", {"lr": 0.2, "epochs": 3}, fewer)
    changed.server = other.server
    ifca.step()
    changed.step()
    assert equal(ifca.server["models"]["0"], changed.server["models"]["0"])
    assert not equal(ifca.server["models"]["1"], changed.server["models"]["1"])
    assert not equal(ifca.server["models"]["0"], before["0"])


def test_models_are_means_by_samples_of_those_who_trained_them_and_others_keep_their_bits():
    algorithm = toy("ifca", {"K": 3}).algorithm
    server = algorithm.init_server()

    def reply(j: int, value: float, n: int):
        theta = {name: torch.full_like(p, value) for name, p in algorithm.task.initial.items()}
        return {"theta": theta, "j": torch.tensor(j), "n": torch.tensor(n)}

    new = algorithm.aggregate(
        server, {0: reply(0, 1.0, 3), 2: reply(0, 5.0, 1), 3: reply(2, 9.0, 7)}
    )
    assert {float(p.flatten()[0]) for p in new["models"]["0"].values()} == {2.0}
    assert {float(p.flatten()[0]) for p in new["models"]["2"].values()} == {9.0}
    assert equal(new["models"]["1"], server["models"]["1"])
    assert new["t"] == 1


@pytest.mark.parametrize("clients, sizes", [(6, [3, 3]), (5, [2, 3])])
def test_in_the_first_rounds_random_groups_of_equal_size_train(clients: int, sizes: list[int]):
    ifca = toy("ifca", {"init_rounds": 2, "lr": 0.1}, clients=clients)
    first = [chosen(ifca, id) for id in range(clients)]
    assert sorted((first.count(0), first.count(1))) == sizes
    ifca.step()
    assert [chosen(ifca, id) for id in range(clients)] == first
    assert first != [chosen(toy("ifca", clients=clients, seed=3), id) for id in range(clients)]
    ifca.step()
    message = ifca.algorithm.download(ifca.server, (0, 1))
    assert [int(message[id]["j"]) for id in (0, 1)] == [-1, -1]


def test_a_shared_body_is_the_mean_of_all_and_the_same_in_all_models():
    ifca = toy("ifca", {"lr": 0.1, "K": 2, "share": "body"})
    models = ifca.server["models"]
    assert equal(phi(models["0"]), phi(models["1"]))
    for _ in range(2):
        ifca.step()
        models = ifca.server["models"]
        assert equal(phi(models["0"]), phi(models["1"]))
        assert not equal(pi(models["0"]), pi(models["1"]))
    own = toy("ifca", {"lr": 0.1, "K": 2, "share": "body"})
    messages = own.algorithm.download(own.server, (0, 1, 2, 3))
    replies = {i: own.algorithm.client_update(own.client(i), messages[i])[0] for i in range(4)}
    n = [len(rows) for rows in own.partition.train]
    own.step()
    mean = sum(n[i] / sum(n) * replies[i]["theta"]["body.fc1.bias"].double() for i in range(4))
    torch.testing.assert_close(own.server["models"]["0"]["body.fc1.bias"].double(), mean)


def test_a_client_without_data_takes_the_first_model():
    ifca = played(toy("ifca", {"lr": 0.1}), 2)
    nothing = replace(ifca.client(0), y=ifca.client(0).y[:0])
    message = ifca.algorithm.download(ifca.server, (0,))[0]
    assert equal(ifca.algorithm.personal_model(nothing, message), ifca.server["models"]["0"])
