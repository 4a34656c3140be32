"""Local: the identities of training alone."""

import dataclasses

import pytest

from pflbench.api import Client
from pflbench.data.partition import Partition
from pflbench.testing import equal, personal, played, toy


def test_isolation_replacing_another_clients_data_changes_nothing():
    split = toy("local").partition
    other = Partition((*split.train[:3], split.train[3][:5]), split.test)
    first, second = played(toy("local", split=split)), played(toy("local", split=other))
    assert all(equal(first.states[i]["theta"], second.states[i]["theta"]) for i in range(3))
    assert not equal(first.states[3]["theta"], second.states[3]["theta"])


def test_number_of_other_clients_does_not_matter():
    split = toy("local", clients=6).partition
    few = Partition(split.train[:3], split.test[:3])
    first, second = played(toy("local", split=split)), played(toy("local", split=few))
    assert all(equal(first.states[i]["theta"], second.states[i]["theta"]) for i in range(3))


def test_bytes_sent_are_zero_in_every_round():
    federation = toy("local")
    for _ in range(3):
        record, _ = federation.step()
        assert record["bytes"] == {"down": {}, "up": {}}


@pytest.mark.parametrize("other", ["fedavg", "fedper", "lgfedavg"])
def test_one_client_alone_is_local_bit_for_bit(other: str):
    alone = played(toy("local", {"lr": 0.05}, clients=1))
    federation = played(toy(other, {"lr": 0.05, "epochs": 1}, clients=1))
    assert equal(personal(federation), alone.states[0]["theta"])


def test_rounds_of_one_pass_are_one_run_of_as_many_passes(monkeypatch: pytest.MonkeyPatch):
    three = played(toy("local", {"lr": 0.05}, clients=2), 3)
    once = toy("local", {"lr": 0.05, "epochs": 3}, clients=2)
    batches = Client.batches

    def of_three_rounds(client: Client, size: int, epochs: int = 1, stream: str = "train"):
        for round in range(epochs):
            yield from batches(dataclasses.replace(client, round=round), size, 1, stream)

    monkeypatch.setattr(Client, "batches", of_three_rounds)
    played(once, 1)
    assert all(equal(three.states[i]["theta"], once.states[i]["theta"]) for i in range(2))


def test_unselected_clients_do_not_train():
    federation = played(toy("local", participation=0.5), 1)
    assert len(federation.states) == 2
