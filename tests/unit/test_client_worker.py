"""Jobs of clients: what client functions see, what is kept of them, how models are evaluated."""

from typing import Any

import numpy as np
import pytest
import torch

from pflbench.api import Model, State, log, note
from pflbench.data.partition import Partition
from pflbench.errors import RunFailed, UserError
from pflbench.simulation import client_worker
from pflbench.simulation.client_worker import ClientJob, ClientResult, ClientWorker
from pflbench.testing import TOY, split_by_class
from tests.factories.federations import Constant, setup_of


def two_clients() -> Partition:
    return split_by_class(TOY["dataset"], [[0, 0, 3], [1, 2, 2, 2]], [[0, 1, 1, 3], [2, 2, 0]])


def worker(method: type[Constant], split: Partition | None = None) -> ClientWorker:
    return ClientWorker(setup_of(method, split or two_clients()))


def work(method: type[Constant], stage: str = "client_update", **job: Any) -> ClientResult:
    """The result of a job of client 1 in round 4."""
    given = {"message": {}, "state": {}, **job}
    return worker(method).work(ClientJob(stage, 1, 4, **given))


class Sees(Constant):
    """Logs what a client function sees."""

    def client_update(self, client: Any, message: Any) -> Any:
        assert (client.id, client.round) == (1, 4)
        rows = torch.arange(len(client.y))
        return {"y": client.y, "x": client.x[rows], "n": client.n}, client.state


def test_a_client_function_sees_the_clients_own_training_samples():
    made = worker(Sees)
    result = made.work(ClientJob("client_update", 1, 4, {}, {"s": torch.tensor(3)}))
    rows = made.setup.partition.train[1]
    assert result.client == 1
    assert result.reply["y"].tolist() == made.setup.data.y[rows].tolist()
    assert sorted(result.reply["y"].tolist()) == [1, 2, 2, 2]
    assert np.array_equal(result.reply["x"].numpy(), made.setup.data.x[rows])
    assert int(result.reply["n"]) == 4
    assert int(result.state["s"]) == 3


class Edits(Constant):
    """Edits its arguments, and returns one tensor as reply and as state."""

    shared = torch.zeros(2)

    def client_update(self, client: Any, message: Any) -> Any:
        client.state["v"].add_(1.0)
        message["v"].add_(1.0)
        self.shared.fill_(7.0)
        return {"v": self.shared}, {"v": self.shared}


def test_a_client_function_works_on_copies_and_its_results_are_copied():
    message, state = {"v": torch.zeros(2)}, {"v": torch.zeros(2)}
    result = work(Edits, message=message, state=state)
    assert message["v"].tolist() == state["v"].tolist() == [0.0, 0.0]
    Edits.shared.fill_(-1.0)
    assert result.reply["v"].tolist() == [7.0, 7.0]
    result.reply["v"].fill_(-2.0)
    assert result.state["v"].tolist() == [7.0, 7.0]


class Trains(Constant):
    """After training the model says the class that is in the new state; extra models say 0 and 1."""

    def client_update(self, client: Any, message: Any) -> Any:
        log(loss=0.5)
        note("trained")
        return {"v": torch.tensor(2)}, {"said": torch.tensor(2)}

    def second(self, client: Any, message: Any) -> Any:
        return {}, {}

    def trained_model(self, client: Any, message: Any, reply: Any) -> Model:
        assert int(reply["v"]) == 2
        assert int(message["m"]) == 5
        note("evaluated")
        client.state["said"].add_(0)
        return int(client.state["said"])

    def personal_model(self, client: Any, message: Any) -> Model:
        log(m=message["m"])
        return 2

    def extra_models(self, client: Any, message: Any) -> dict[str, Model]:
        return {"zero": 0, "one": int(message["m"]) - 4}


MESSAGE = {"m": torch.tensor(5)}


def test_the_trained_model_is_evaluated_if_asked_for():
    """Client 1 has the test classes 2, 2, 0."""
    result = work(Trains, message=MESSAGE, evaluate=True)
    assert result.correct == {"post": 2}
    assert (result.logs, result.notes) == ({"loss": 0.5}, ["trained", "evaluated"])
    result = work(Trains, message=MESSAGE)
    assert result.correct == {}
    assert result.notes == ["trained"]
    assert work(Trains, "second", message=MESSAGE, evaluate=True).correct == {}
    assert work(Constant, evaluate=True).correct == {}  # it has no trained model


def test_the_trained_model_may_edit_what_it_is_given():
    class Spoils(Trains):
        def trained_model(self, client: Any, message: Any, reply: Any) -> Model:
            client.state["said"].fill_(9)
            client.optimizers["train"]["m"]["w"].fill_(9)
            reply["v"].fill_(9)
            return 0

    kept = {"train": {"m": {"w": torch.tensor(3)}}}
    state = {client_worker.OPTIMIZERS: kept}
    result = work(Spoils, message=MESSAGE, state=state, evaluate=True)
    assert (int(result.reply["v"]), int(result.state["said"])) == (2, 2)
    assert result.state[client_worker.OPTIMIZERS] == kept


def test_the_personal_model_and_extra_ones_are_evaluated():
    result = work(Trains, "personal_model", message=MESSAGE, state={"kept": torch.zeros(1)})
    assert result.correct == {"pre": 2, "zero": 1, "one": 0}
    assert result.logs == {"m": 5.0}
    assert (result.client, result.reply, result.state) == (1, {}, {})


def test_with_a_validation_part_every_series_has_a_second_one():
    both = split_by_class(TOY["dataset"], [[0], [1], [2], [2, 2, 3]], [[0], [2, 1]])
    split = Partition(both.train[:2], both.test, both.train[2:])
    made = worker(Trains, split)
    result = made.work(ClientJob("personal_model", 1, 0, MESSAGE, {}))
    assert result.correct == {
        "pre": 1,
        "pre_validation": 2,
        "zero": 0,
        "zero_validation": 0,
        "one": 1,
        "one_validation": 0,
    }


@pytest.mark.parametrize("size", [1, 3, 256])
def test_the_size_of_batches_changes_no_count(monkeypatch, size):
    """Seven samples: batches of three leave one for the last."""
    seen = []

    class Sized(Constant):
        def predict(self, model: Any, x: Any) -> Any:
            seen.append(len(x))
            assert not torch.is_grad_enabled()
            return super().predict(model, x)

    monkeypatch.setattr(client_worker, "LARGE", size)
    split = split_by_class(TOY["dataset"], [[0]], [[0, 1, 0, 0, 2, 0, 3]])
    result = worker(Sized, split).work(ClientJob("personal_model", 0, 0, {}, {}))
    assert result.correct == {"pre": 4}
    assert seen == [len(part) for part in torch.arange(7).split(size)]


def test_pixels_are_those_of_the_test_samples():
    seen = []

    class Reads(Constant):
        def predict(self, model: Any, x: Any) -> Any:
            seen.append(x)
            return super().predict(model, x)

    made = worker(Reads)
    made.work(ClientJob("personal_model", 0, 0, {}, {}))
    raw = torch.from_numpy(np.asarray(made.setup.data.x[made.setup.partition.test[0]]))
    torch.testing.assert_close(seen[0], raw.float() / 127.5 - 1.0)


def test_a_failure_names_method_round_client_stage_and_line():
    class Fails(Constant):
        def second(self, client: Any, message: Any) -> Any:
            raise ValueError("first line\nsecond line")

    said = r"^Constant failed in round 5, client 1, second\(\): ValueError: first line"
    line = Fails.second.__code__.co_firstlineno + 1
    place = rf" \(\S*test_client_worker\.py, line {line}\)$"
    with pytest.raises(RunFailed, match=said + place) as caught:
        work(Fails, "second")
    assert "in second" in caught.value.details


@pytest.mark.parametrize("part", ["reply", "state"])
def test_results_that_are_no_tensors_are_refused(part):
    class Numbers(Constant):
        def client_update(self, client: Any, message: Any) -> tuple[Any, State]:
            return ({"n": 3}, {}) if part == "reply" else ({}, {"n": 3})

    with pytest.raises(RunFailed, match=r"client_update\(\): NotATensor: 'n' is a int"):
        work(Numbers)


def test_a_device_that_is_not_there_is_the_users_mistake():
    with pytest.raises(UserError, match=r"^device 'nowhere' cannot be used here: [^\n]+$"):
        client_worker.device_of("nowhere")
    assert client_worker.device_of("cpu") == torch.device("cpu")
