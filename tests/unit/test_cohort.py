"""What a round's clients are given and what is kept of their results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pflbench.api import State
from pflbench.errors import RunFailed
from pflbench.simulation.client_worker import ClientJob, ClientResult
from pflbench.simulation.cohort import Cohort, Diverged
from tests.factories.federations import Constant, setup_of


class Prepared:
    """An engine that keeps its jobs and returns results that a test prepared, the last client's
    first.
    """

    def __init__(self, **results: Any) -> None:
        self.results = results
        self.jobs: list[ClientJob] = []

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        self.jobs = list(jobs)
        made = [ClientResult(job.client, state={"by": torch.tensor(job.client)}) for job in jobs]
        return [replace(one, **self._given(one.client)) for one in reversed(made)]

    def _given(self, client: int) -> dict[str, Any]:
        return {name: values[client] for name, values in self.results.items() if client in values}

    def close(self) -> None: ...


class Stated(Constant):
    def init_client(self) -> State:
        return {"by": torch.tensor(-1)}


def cohort(engine: Prepared, ids: tuple[int, ...] = (1, 2, 5), **given: Any) -> Cohort:
    """A cohort in round 7, of which client 2 has a state of an earlier round."""
    states = {2: {"by": torch.tensor(20)}, 3: {"by": torch.tensor(30)}}
    return Cohort(setup_of(Stated).algorithm(), engine, states, ids, 7, **given)


def client_update(client: Any, message: Any) -> Any:
    """Only its name is used."""


def second(client: Any, message: Any) -> Any:
    """Only its name is used."""


def value(state: State) -> int:
    return int(state["by"])


def test_a_job_has_the_stage_the_round_the_message_and_the_newest_state():
    engine = Prepared()
    made = cohort(engine)
    sent = {id: {"v": torch.zeros(id)} for id in (1, 2)}
    made.call(client_update, sent)
    assert [(job.stage, job.client, job.round) for job in engine.jobs] == [
        ("client_update", 1, 7),
        ("client_update", 2, 7),
    ]
    assert [job.message for job in engine.jobs] == [sent[1], sent[2]]
    assert [value(job.state) for job in engine.jobs] == [-1, 20]  # the first, and a stored one
    made.call(second, {id: {} for id in (1, 2, 5)})
    assert [job.stage for job in engine.jobs] == ["second"] * 3
    assert [value(job.state) for job in engine.jobs] == [1, 2, -1]  # of the call before


def test_replies_come_in_ascending_order_of_client():
    replies = {id: {"v": torch.tensor(10 * id)} for id in (1, 2, 5)}
    got = cohort(Prepared(reply=replies)).call(client_update, {id: {} for id in (5, 1, 2)})
    assert [*got] == [1, 2, 5]
    assert got == replies


def test_new_states_stay_with_the_cohort():
    engine = Prepared()
    made = cohort(engine)
    made.call(client_update, {1: {}, 2: {}})
    assert {id: value(state) for id, state in made.new_states.items()} == {1: 1, 2: 2}
    assert value(made._states[2]) == 20


def test_bytes_are_counted_by_client_and_part_over_all_calls():
    engine = Prepared(reply={1: {"v": torch.zeros(2)}, 2: {"w": torch.zeros(1)}})
    made = cohort(engine)
    made.call(client_update, {1: {"v": torch.zeros(3)}, 2: {"v": torch.zeros(4)}})
    made.call(second, {1: {"v": torch.zeros(1), "u": torch.zeros(5)}})
    assert made.down == {1: {"v": 16, "u": 20}, 2: {"v": 16}}
    assert made.up == {1: {"v": 16}, 2: {"w": 4}}


def test_logs_notes_and_seconds_of_all_calls_are_kept():
    engine = Prepared(
        logs={1: {"a": 1.0, "b": 1.0}, 2: {"a": 2.0}},
        notes={1: ["one"], 5: ["five", "one"]},
        seconds={1: 1.0, 2: 10.0},
        evaluation_seconds={1: 100.0, 5: 1000.0},
    )
    made = cohort(engine)
    made.call(client_update, {id: {} for id in (5, 2, 1)})
    assert made.logs == {1: {"a": 1.0, "b": 1.0}, 2: {"a": 2.0}, 5: {}}
    assert made.notes == ["one", "five", "one"]
    assert (made.seconds, made.evaluation_seconds) == (11.0, 1100.0)
    engine.results = {"logs": {1: {"b": 3.0, "c": 4.0}}, "seconds": {1: 2.0}}
    made.call(second, {1: {}})
    assert made.logs[1] == {"a": 1.0, "b": 3.0, "c": 4.0}
    assert made.seconds == 13.0


def test_correct_samples_and_representations_are_kept_by_client():
    z = np.ones((2, 3), dtype=np.float32)
    engine = Prepared(
        correct={1: {"post": 3, "post_validation": 1}, 2: {"post": 4}}, represented={2: z}
    )
    made = cohort(engine)
    made.call(client_update, {id: {} for id in (1, 2, 5)})
    assert made.correct == {"post": {1: 3, 2: 4}, "post_validation": {1: 1}}
    assert [*made.represented] == [2]
    assert made.represented[2] is z


def test_clients_whose_numbers_are_not_finite_are_named():
    made = cohort(Prepared(finite={1: True, 2: False, 5: False}))
    said = r"^numbers that are not finite from clients \[2, 5\] in round 8$"
    with pytest.raises(Diverged, match=said):
        made.call(client_update, {id: {} for id in (1, 2, 5)})


@pytest.mark.parametrize("given, flags", [({}, [False] * 3), ({"evaluated": {2, 3}}, [0, 1, 0])])
def test_trained_models_are_evaluated_of_the_clients_that_are_named(given, flags):
    engine = Prepared()
    cohort(engine, **given).call(client_update, {id: {} for id in (1, 2, 5)})
    assert [job.evaluate for job in engine.jobs] == flags


def test_a_client_outside_the_cohort_cannot_be_called():
    engine = Prepared()
    made = cohort(engine)
    said = r"^Constant: second\(\) called for clients \[3, 4\], which are not in the cohort$"
    with pytest.raises(RunFailed, match=said):
        made.call(second, {1: {}, 4: {}, 3: {}})
    assert (engine.jobs, made.down) == ([], {})


def test_a_cohort_has_its_ids_and_round():
    made = cohort(Prepared())
    assert (made.ids, made.round) == ((1, 2, 5), 7)
