"""One run from its configuration to its files: the partition that it asks for, checkpoints, ends."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pflbench.api import Params
from pflbench.data import partition
from pflbench.data.prepared import Data
from pflbench.errors import RunFailed, UserError
from pflbench.methods.hyperparameters import make_run
from pflbench.records import integrity
from pflbench.records.leases import LeaseLost, Leases
from pflbench.records.run_folder import RunFolder
from pflbench.simulation import engine, runner
from pflbench.simulation.client_states import ClientStates
from pflbench.simulation.cohort import Diverged
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY, equal
from pflbench.testing.problem import toy_setup
from tests.factories.federations import Constant, setup_of


class Counts(Constant):
    """Server and clients count the rounds in a state that is a view of something large."""

    def init_server(self) -> Any:
        return {"v": torch.zeros(100_000)[:1]}

    def client_update(self, client: Any, message: Any) -> Any:
        return {}, {"v": message["v"] + 1}

    def aggregate(self, server: Any, replies: Any) -> Any:
        return {"v": (torch.zeros(100_000) + server["v"])[:1] + 1}


class Views(Counts):
    def aggregate(self, server: Any, replies: Any) -> Any:
        return {"v": (torch.ones(100_000) + server["v"])[:1]}


def execute(out: Path, method: type[Constant] = Counts, rounds: int = 7, **how: Any) -> Path:
    """A run of two clients; its folder."""
    setup = setup_of(method, clients=2, rounds=rounds)
    return runner.execute(setup, out, **{"checkpoint_every": 2, **how}).folder


def status(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "status.json").read_text())
    return content


def rounds_of(folder: Path, file: str = "rounds.jsonl") -> list[int]:
    return [json.loads(line)["round"] for line in (folder / file).read_text().splitlines()]


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*.pt"))


# Preparing


def digest(**settings: Any) -> str:
    return toy_setup("fedavg", **settings).partition.digest


def test_the_partition_has_a_seed_of_its_own_if_asked_for():
    by_seed = [digest(seed=seed) for seed in range(3)]
    assert len(set(by_seed)) == 3
    for seed in range(3):
        assert [digest(seed=seed, partition_seed=other) for other in range(3)] == by_seed


def initial(**settings: Any) -> Params:
    return toy_setup("fedavg", **settings).algorithm().task.initial


def test_the_initial_model_depends_on_the_seed_but_not_on_that_of_the_partition():
    assert equal(initial(seed=1, partition_seed=0), initial(seed=1, partition_seed=2))
    assert not equal(initial(seed=1, partition_seed=0), initial(seed=2, partition_seed=0))


def test_every_option_of_the_partition_comes_from_the_run(monkeypatch):
    settings = {
        "clients": 5,
        "seed": 3,
        "partition_seed": 4,
        "test_fraction": 0.4,
        "min_samples": 2,
        "samples_per_client": (3, 9),
        "overlap": True,
        "max_samples": 8,
        "data_fraction": 0.7,
        "scarce_clients": 2,
        "validation": 0.1,
    }
    given: list[partition.Options] = []

    def spy(spec: str, y: Any, classes: int, options: partition.Options, owners: Any) -> None:
        given.append(options)

    monkeypatch.setattr(partition, "make", spy)
    runner.prepare(make_run("fedavg", {**TOY, **settings}, {}))
    assert dataclasses.asdict(given[0]) == {
        **{name: value for name, value in settings.items() if name != "partition_seed"},
        "seed": 4,
    }


def test_data_that_are_given_are_not_loaded_again(monkeypatch):
    first = toy_setup("fedavg")
    monkeypatch.setattr("pflbench.data.datasets.load", lambda *_: pytest.fail("loaded again"))
    again = runner.prepare(first.run, data=first.data)
    assert isinstance(again.data, Data) and again.data is first.data
    assert again.partition.digest == first.partition.digest


def test_a_device_that_is_not_there_is_found_before_any_file():
    with pytest.raises(UserError, match="device 'nowhere' cannot be used here"):
        runner.prepare(make_run("fedavg", TOY, {}), device="nowhere")


# Rounds and checkpoints


def test_every_round_is_recorded_once_and_watched(tmp_path):
    seen, started = [], []

    def watch(record: Any, timing: Any) -> None:
        assert record["round"] == timing["round"]
        seen.append(record["round"])

    folder = execute(tmp_path, watch=watch, started=started.append)
    assert rounds_of(folder) == rounds_of(folder, "timing.jsonl") == seen == [*range(8)]
    assert started == [0]
    ended = status(folder)
    assert ended.pop("records") == integrity.sums(folder)
    assert ended == {"status": "finished", "round": 7}


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds of which checkpoints are saved."""
    rounds: list[int] = []
    save = RunFolder.save

    def spy(self: RunFolder, snapshot: Any) -> None:
        rounds.append(snapshot["round"])
        save(self, snapshot)

    monkeypatch.setattr(RunFolder, "save", spy)
    return rounds


@pytest.mark.parametrize("every, rounds", [(2, [2, 4, 6]), (3, [3, 6]), (4, [4]), (7, [])])
def test_checkpoints_come_after_every_so_many_rounds_but_the_last(tmp_path, saved, every, rounds):
    folder = execute(tmp_path, checkpoint_every=every)
    assert saved == rounds
    assert checkpoints(folder) == []


def test_by_default_a_checkpoint_comes_every_ten_rounds(tmp_path, saved):
    runner.execute(setup_of(Counts, clients=2, rounds=21), tmp_path)
    assert saved == [10, 20]


def test_states_that_did_not_change_are_written_after_a_checkpoint(tmp_path, monkeypatch):
    calls: list[int] = []
    monkeypatch.setattr(ClientStates, "write_unchanged", lambda self: calls.append(self.round))
    execute(tmp_path)
    assert calls == [2, 4, 6]


def test_a_checkpoint_has_no_more_of_the_server_than_its_state(tmp_path):
    """A tensor that is a view would be stored with the 400 kB that it is a view of."""
    sizes: list[int] = []

    def watch(record: Any, timing: Any) -> None:
        sizes.extend(path.stat().st_size for path in tmp_path.glob("*/checkpoint-*.pt"))

    execute(tmp_path, Views, watch=watch)
    assert sizes and max(sizes) < 20_000


def interrupted(out: Path, round: int, error: BaseException, **how: Any) -> Path:
    """The folder of a run that an error ends while it is playing this round."""
    step = Federation.step

    def breaking(self: Federation) -> Any:
        if self.round + 1 == round:
            raise error
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Federation, "step", breaking)
        with pytest.raises(type(error)):
            execute(out, **how)
    (folder,) = out.glob("fedavg-*")
    return folder


@pytest.mark.parametrize(
    "error, said",
    [
        (RunFailed("it broke", "at line 3"), {"reason": "it broke", "details": "at line 3"}),
        (KeyboardInterrupt(), {"reason": "interrupted; the same command resumes"}),
    ],
)
def test_a_run_that_stops_saves_its_last_round_and_goes_on_from_there(tmp_path, error, said):
    folder = interrupted(tmp_path, 6, error)
    state = "failed" if isinstance(error, RunFailed) else "stopped"
    assert status(folder) == {"status": state, "round": 5, **said}
    assert checkpoints(folder) == [4, 5]
    played, started = [], []
    execute(
        tmp_path,
        watch=lambda record, timing: played.append(record["round"]),
        started=started.append,
    )
    assert (started, played) == ([5], [6, 7])
    assert rounds_of(folder) == [*range(8)]
    assert status(folder)["status"] == "finished"


def test_a_run_that_stops_right_after_a_checkpoint_writes_no_second_one(tmp_path, saved):
    interrupted(tmp_path, 5, KeyboardInterrupt())
    assert saved == [2, 4]
    interrupted(tmp_path, 5, KeyboardInterrupt())  # nothing new since it was resumed
    assert saved == [2, 4]


def test_a_run_that_diverges_is_final(tmp_path):
    folder = interrupted_by_divergence(tmp_path)
    ended = status(folder)
    assert (ended["status"], ended["round"], ended["reason"]) == ("diverged", 4, "not finite")
    assert checkpoints(folder) == []
    started: list[int] = []
    execute(tmp_path, started=started.append)
    assert started == []


def interrupted_by_divergence(out: Path) -> Path:
    step = Federation.step

    def diverging(self: Federation) -> Any:
        if self.round == 4:
            raise Diverged("not finite")
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Federation, "step", diverging)
        return execute(out)


def test_a_finished_run_is_left_as_it_is_unless_asked_for(tmp_path):
    started: list[int] = []
    folder = execute(tmp_path, started=started.append)
    before = (folder / "rounds.jsonl").stat().st_mtime_ns
    (folder / "checkpoint-000006-left.pt").write_bytes(b"of a process that was killed")
    execute(tmp_path, started=started.append)
    assert started == [0]
    assert (folder / "rounds.jsonl").stat().st_mtime_ns == before
    assert checkpoints(folder) == []
    execute(tmp_path, started=started.append, fresh=True)
    assert started == [0, 0]
    assert (folder / "rounds.jsonl").stat().st_mtime_ns > before


def test_a_folder_of_another_run_is_refused_even_if_it_is_finished(tmp_path):
    file = execute(tmp_path) / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "id": "another"}))
    with pytest.raises(UserError, match="another run, another"):
        execute(tmp_path)


def test_a_fresh_run_forgets_an_unfinished_one(tmp_path):
    interrupted(tmp_path, 6, KeyboardInterrupt())
    started: list[int] = []
    folder = execute(tmp_path, started=started.append, fresh=True)
    assert started == [0]
    assert rounds_of(folder) == [*range(8)]


# The right to do a run


def test_a_run_that_another_process_does_is_refused(tmp_path):
    setup = setup_of(Counts, clients=2)
    book = Leases(tmp_path)
    book.open()
    lease = book.claim(setup.run.id)
    assert lease is not None
    with pytest.raises(UserError, match=rf"{setup.run.id} is in use by .*; wait for it"):
        runner.execute(setup, tmp_path)
    assert not (tmp_path / setup.run.id).exists()
    runner.execute(setup, tmp_path, lease=lease)
    assert lease.held()  # it is given back by whoever claimed it


@pytest.mark.parametrize("error", [None, RunFailed("it broke")])
def test_the_right_to_a_run_is_given_back(tmp_path, error):
    if error:
        interrupted(tmp_path, 3, error)
    else:
        execute(tmp_path)
    assert Leases(tmp_path).leases() == {}


def test_a_run_whose_right_is_lost_writes_nothing_more(tmp_path):
    def watch(record: Any, timing: Any) -> None:
        if record["round"] == 3:
            for path in (tmp_path / "leases").iterdir():
                path.unlink()

    with pytest.raises(LeaseLost):
        execute(tmp_path, watch=watch)
    (folder,) = tmp_path.glob("fedavg-*")
    assert rounds_of(folder) == [0, 1, 2, 3]
    assert not (folder / "status.json").exists()
    assert checkpoints(folder) == [2]


# Means


def test_one_thread_and_no_more_workers_than_clients(tmp_path, monkeypatch):
    asked, threads = [], []
    start = engine.start

    def spy(setup: Any, workers: int) -> Any:
        asked.append(workers)
        return start(setup, 1)

    monkeypatch.setattr(engine, "start", spy)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for workers in (1, 2, 5):
            folder = execute(
                tmp_path / str(workers),
                workers=workers,
                watch=lambda *_: threads.append(torch.get_num_threads()),
            )
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert (asked, set(threads)) == ([1, 2, 2], {1})
    assert json.loads((folder / "run.json").read_text())["machine"]["workers"] == 5


@pytest.mark.parametrize("error", [None, RunFailed("it broke")])
def test_the_engine_is_closed(tmp_path, monkeypatch, error):
    closed: list[bool] = []
    monkeypatch.setattr(engine.Serial, "close", lambda self: closed.append(True))
    if error:
        interrupted(tmp_path, 3, error)
    else:
        execute(tmp_path)
    assert closed == [True]


def test_memory_for_states_is_given_in_gib(tmp_path, monkeypatch):
    given = []
    init = ClientStates.__init__

    def spy(self: ClientStates, folder: Path, memory: int) -> None:
        given.append((folder.name, memory))
        init(self, folder, memory)

    monkeypatch.setattr(ClientStates, "__init__", spy)
    execute(tmp_path)
    execute(tmp_path / "less", state_memory=0.5)
    assert given == [("states", 2 * 1024**3), ("states", 512 * 1024**2)]


def test_files_of_states_are_named_by_the_round_in_which_they_changed(tmp_path):
    """Without memory every state goes to a file; restored ones keep the round of the checkpoint."""
    names: set[str] = set()

    def watch(*_: Any) -> None:
        names.update(path.name[:13] for path in tmp_path.glob("*/states/*"))

    interrupted(tmp_path, 4, KeyboardInterrupt(), state_memory=0.0, watch=watch)
    assert names == {f"{id:06d}-{round:06d}" for id in (0, 1) for round in (1, 2, 3)}
