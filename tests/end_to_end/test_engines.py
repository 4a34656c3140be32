"""Engines: any number of workers gives the same bytes; failures and deaths of workers are named."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pflbench
from pflbench.errors import RunFailed
from pflbench.simulation import engine
from pflbench.simulation.client_worker import ClientJob
from pflbench.simulation.engine import Processes, Serial
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY
from pflbench.testing.problem import toy_setup

DIGITS: dict[str, Any] = {"dataset": "digits", "partition": "dir:0.1", "rounds": 3}
KEPT: dict[str, Any] = {**TOY, "validation": 0.3, "participation": 0.5, "representations": 5}
"""Two of four clients per round, a validation part, and representations after the last round."""


def files(folder: Path) -> dict[str, bytes]:
    """What a run leaves behind and the seed alone determines."""
    names = ("rounds.jsonl", "representations.npz")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


@pytest.mark.parametrize(
    "method, settings, workers",
    [("fedcosr", DIGITS, 3), ("fedcosr", KEPT, 2), ("fedavg", KEPT, 2)],
    ids=["digits", "evaluated at post", "evaluated at pre"],
)
def test_one_worker_and_more_write_the_same_bytes(tmp_path, method, settings, workers):
    one, more = (
        files(pflbench.run(method, out=tmp_path / str(n), workers=n, **settings).folder)
        for n in (1, workers)
    )
    assert one == more
    assert len(one) == (2 if "representations" in settings else 1)
    assert len(one["rounds.jsonl"].splitlines()) == settings["rounds"] + 1
    assert (b'"post_validation":' in one["rounds.jsonl"]) == ("validation" in settings)


def test_one_worker_is_this_process_and_more_are_processes(monkeypatch):
    monkeypatch.setattr(engine, "Processes", lambda setup, workers: f"{workers} processes")
    setup = toy_setup("fedavg")
    assert isinstance(engine.start(setup, 1), Serial)
    assert [engine.start(setup, workers) for workers in (2, 3)] == ["2 processes", "3 processes"]


PLUGIN = '''
"""Broken: has client functions that go wrong."""
import os, signal
from pflbench.api import Algorithm, note
class Broken(Algorithm):
    title = "Broken"
    family = "none"
    def client_update(self, client, message):
        if client.round == 1 and client.id == 2:
            self.fails(client, message)
        note(f"client {client.id}")
        return {"n": client.n}, {}
    def aggregate(self, server, replies):
        return server
    def personal_model(self, client, message):
        return message["theta"]
    def fails(self, client, message):
        raise ValueError("no luck")
    def returns_a_number(self, client, message):
        return {"theta": message["theta"], "n": 3}, {}
    def dies(self, client, message):
        os.kill(os.getpid(), signal.SIGKILL)
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plugin") / "broken.py"
    path.write_text(PLUGIN)
    return str(path)


@pytest.fixture(scope="module")
def two_workers(plugin: str) -> Iterator[tuple[Federation, Processes]]:
    """A federation of the broken method, and its workers."""
    setup = toy_setup(plugin)
    workers = Processes(setup, 2)
    yield Federation(setup, workers), workers
    workers.close()


def job(federation: Federation, stage: str) -> ClientJob:
    """A job of client 2 in the second round."""
    return ClientJob(stage, 2, 1, federation.server, {})


def test_a_failure_in_a_run_names_method_round_client_and_stage(tmp_path, plugin):
    said = r"Broken failed in round 2, client 2, client_update\(\): ValueError: no luck"
    with pytest.raises(RunFailed, match=said) as caught:
        pflbench.run(plugin, out=tmp_path, **TOY)
    assert 'raise ValueError("no luck")' in caught.value.details


def test_a_failure_in_a_worker_process_names_the_same(two_workers):
    federation, workers = two_workers
    line = r"\(\S*broken\.py, line \d+\)"
    said = rf"^Broken failed in round 2, client 2, fails\(\): ValueError: no luck {line}$"
    with pytest.raises(RunFailed, match=said) as caught:
        workers.run([job(federation, "fails")])
    assert 'raise ValueError("no luck")' in caught.value.details


def test_a_reply_that_is_no_tensor_is_refused_in_a_worker_process(two_workers):
    federation, workers = two_workers
    with pytest.raises(
        RunFailed, match=r"client 2, returns_a_number\(\): NotATensor: 'n' is a int"
    ):
        workers.run([job(federation, "returns_a_number")])


def test_the_largest_client_goes_first_and_notes_come_back(two_workers, monkeypatch):
    federation, workers = two_workers
    order = []
    hand_out = workers._hand_out

    def spy(pipe: Any, waiting: list[ClientJob], busy: Any) -> None:
        order.extend(each.client for each in waiting[-1:])
        hand_out(pipe, waiting, busy)

    monkeypatch.setattr(workers, "_hand_out", spy)
    record, _ = federation.step()
    sizes = [len(rows) for rows in federation.partition.train]
    assert order[:4] == sorted(range(4), key=lambda id: -sizes[id])
    assert record["notes"] == [f"client {id}" for id in range(4)]


def test_the_death_of_a_worker_is_named_with_its_place_and_the_others_end_with_the_engine(plugin):
    setup = toy_setup(plugin)
    workers = Processes(setup, 2)
    pids = [process.pid for process in workers.workers.values()]
    said = (
        r"worker process died \(out of memory\?\) in round 2, client 2, dies\(\); the same command"
    )
    with pytest.raises(RunFailed, match=said):
        workers.run([job(Federation(setup, workers), "dies")])
    workers.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIG_DFL)
