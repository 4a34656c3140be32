"""Private states in memory and in files, and the checkpoints that name those files."""

import hashlib
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from pflbench.api import State
from pflbench.errors import RunFailed
from pflbench.records.run_folder import RunFolder, Unwritable
from pflbench.simulation.client_states import ClientStates
from tests.factories.runs import about_run, planned


def state(value: float) -> State:
    return {"v": torch.full((10,), float(value))}  # 40 bytes


def value(found: State) -> float:
    return float(found["v"][0])


def on_disk(states: ClientStates) -> list[int]:
    """Clients of the files, in order of their names."""
    return [int(path.name.split("-")[0]) for path in sorted(states.folder.glob("*"))]


def kept(tmp_path: Path, memory: int, clients: int = 0) -> ClientStates:
    """Clients 0, 1, ... with states of their number."""
    states = ClientStates(tmp_path / "states", memory)
    states.update({id: state(id) for id in range(clients)})
    return states


def test_what_fits_into_the_budget_needs_no_file(tmp_path):
    states = kept(tmp_path, 120, clients=3)
    assert not states.folder.exists()
    assert {id: value(states[id]) for id in states} == {0: 0.0, 1: 1.0, 2: 2.0}


def test_the_least_recently_used_goes_first(tmp_path):
    states = kept(tmp_path, 80, clients=3)
    assert on_disk(states) == [0]
    assert value(states[1]) == 1.0  # used: now 2 is the oldest
    states[3] = state(3)
    assert on_disk(states) == [0, 2]
    assert value(states[0]) == 0.0  # read back: 1 goes
    assert on_disk(states) == [0, 1, 2]


def test_a_state_is_read_back_bit_for_bit(tmp_path):
    image = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    given = {
        "a": {"w": image, "n": torch.tensor(3, dtype=torch.int32)},
        "b": torch.tensor([float("nan"), -0.0]),
    }
    states = kept(tmp_path, 0)
    states[7] = given
    found = states[7]
    assert found is not given
    assert found["a"]["w"].stride() == image.stride() and torch.equal(found["a"]["w"], image)
    assert found["a"]["n"].dtype == torch.int32 and int(found["a"]["n"]) == 3
    assert torch.equal(found["b"].view(torch.int32), given["b"].view(torch.int32))


def test_what_has_not_changed_is_not_written_twice(tmp_path):
    states = kept(tmp_path, 40, clients=2)
    (file,) = states.folder.iterdir()
    before = file.stat().st_mtime_ns
    assert [value(states[id]) for id in (0, 1, 0, 1, 0)] == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert on_disk(states) == [0, 1]
    assert file.stat().st_mtime_ns == before


def test_a_file_is_named_by_client_round_and_checksum(tmp_path):
    states = kept(tmp_path, 0)
    states.round = 12
    states[34] = state(1.0)
    (file,) = states.folder.iterdir()
    assert file.name == f"000034-000012-{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}.pt"


def test_a_copy_has_states_or_names_and_outlives_what_comes_later(tmp_path):
    states = kept(tmp_path, 40, clients=2)
    before = states.copy()
    assert before[0] == next(states.folder.iterdir()).name
    assert value(before[1]) == 1.0
    states.round = 5
    states.update({id: state(10 + id) for id in range(2)})
    later = kept(tmp_path, 40)
    later.update(before)
    assert [value(later[id]) for id in range(2)] == [0.0, 1.0]
    assert [value(states[id]) for id in range(2)] == [10.0, 11.0]
    assert states.copy()[0] != before[0]


def test_it_is_a_mapping_of_all_clients(tmp_path):
    states = kept(tmp_path, 40, clients=3)
    assert (len(states), sorted(states), 0 in states, 2 in states, 3 in states) == (
        3,
        [0, 1, 2],
        True,
        True,
        False,
    )
    del states[0], states[2]
    assert (len(states), list(states)) == (1, [1])
    for missing in (0, 3):
        with pytest.raises(KeyError):
            states[missing]
        with pytest.raises(KeyError):
            del states[missing]
    states.clear()
    assert (len(states), states.copy()) == (0, {})
    states.update({id: state(id) for id in (4, 5)})
    assert [type(held) for held in states.copy().values()] == [
        dict,
        str,
    ]  # 5 in memory, whose room is free again


def test_states_without_tensors_stay_in_memory(tmp_path):
    states = kept(tmp_path, 0)
    states.update({id: {} for id in range(3)})
    states.write_unchanged()
    states.write_unchanged()
    assert not states.folder.exists()
    assert states.copy() == {0: {}, 1: {}, 2: {}}


def test_settling_writes_what_did_not_change_since_the_last_time(tmp_path):
    states = kept(tmp_path, 400, clients=3)
    states.write_unchanged()
    assert not states.folder.exists()
    states[1] = state(11)
    states.write_unchanged()
    assert on_disk(states) == [0, 2]
    names = states.copy()
    assert [type(names[id]) for id in range(3)] == [str, dict, str]
    files = sorted(states.folder.iterdir())
    for file in files:
        file.unlink()
    assert [value(states[id]) for id in range(3)] == [
        0.0,
        11.0,
        2.0,
    ]  # they are in memory all the same


def test_what_has_a_file_is_not_written_again(tmp_path):
    states = kept(tmp_path, 400, clients=2)
    for states.round in (1, 2, 3):
        states.write_unchanged()
    assert sorted(path.name[:13] for path in states.folder.iterdir()) == [
        "000000-000002",
        "000001-000002",
    ]


def test_before_the_first_round_files_are_of_round_0(tmp_path):
    (file,) = kept(tmp_path, 0, clients=1).folder.iterdir()
    assert file.name.startswith("000000-000000-")


@pytest.mark.parametrize("damage", ["missing", "flipped", "cut"])
def test_a_file_that_is_not_sound_is_named_in_one_line(tmp_path, damage):
    states = kept(tmp_path, 0, clients=1)
    (file,) = states.folder.iterdir()
    content = bytearray(file.read_bytes())
    file.unlink()
    if damage != "missing":
        content[len(content) // 2] ^= 1
        file.write_bytes(content if damage == "flipped" else content[:-1])
    with pytest.raises(
        RunFailed, match=f"state of client 0 in .*{file.name} is missing or corrupt"
    ):
        states[0]


class Harmful:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_reading_a_state_executes_nothing(tmp_path):
    states = kept(tmp_path, 0, clients=1)
    torch.save({"v": Harmful(tmp_path / "made")}, tmp_path / "harmful")
    content = (tmp_path / "harmful").read_bytes()
    name = f"000000-000000-{hashlib.sha256(content).hexdigest()[:16]}.pt"
    (states.folder / name).write_bytes(content)
    states[0] = name
    with pytest.raises(pickle.UnpicklingError):
        states[0]
    assert not (tmp_path / "made").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "states").write_text("a file")
    with pytest.raises(Unwritable, match=r"cannot write to .*states"):
        kept(tmp_path, 0, clients=1)


# The files that checkpoints name.


class Folder:
    """The folder of a run without rounds."""

    def __init__(self, path: Path) -> None:
        self.records = RunFolder(path, "run")
        run = planned()
        self.records.open(about_run(run.config, run.run.clients))
        self.states = ClientStates(path / "states", 0)

    def save(self, round: int, **changed: float) -> dict[int, Any]:
        """Change states (`c0=1.5`: of client 0) and write a checkpoint."""
        self.states.round = round
        self.states.update({int(name[1:]): state(number) for name, number in changed.items()})
        held = self.states.copy()
        self.records.save({"round": round, "server": {}, "clients": held})
        return held

    def restored(self) -> tuple[int, dict[int, float]] | None:
        """The round and the values that another process would go on from."""
        found = RunFolder(self.records.folder, "run").restore()
        if found is None:
            return None
        states = ClientStates(self.states.folder, 0)
        states.update(found["clients"])
        return found["round"], {id: value(states[id]) for id in sorted(states)}

    def files(self) -> list[str]:
        return sorted(path.name for path in self.states.folder.iterdir())


def test_a_file_goes_when_neither_of_two_checkpoints_needs_it(tmp_path):
    folder = Folder(tmp_path)
    first = folder.save(1, c0=1.0, c1=1.0)
    second = folder.save(2, c0=2.0)
    assert (
        folder.files() == sorted({*first.values(), *second.values()}) and len(folder.files()) == 3
    )
    (folder.states.folder / ".half.123").write_bytes(b"of a process that was killed")
    third = folder.save(3, c2=3.0)
    assert (
        folder.files() == sorted({*second.values(), *third.values()})
        and first[0] not in folder.files()
    )
    assert folder.restored() == (3, {0: 2.0, 1: 1.0, 2: 3.0})


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="tells files by /proc")
def test_files_are_on_the_disk_before_a_checkpoint_names_them(tmp_path, monkeypatch):
    flushed: list[str] = []
    flush = os.fsync

    def noting(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_dir():
            flushed.append(path.name)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    folder = Folder(tmp_path)
    folder.states[0] = state(1.0)
    assert flushed == ["run.json"] or flushed[0].startswith(".run.json")
    assert len(flushed) == 1  # a state waits for the checkpoint that names it
    for round in (1, 2):
        flushed.clear()
        named = folder.save(round, **{f"c{round}": 1.0})
        *first, last = flushed
        assert named[round] in first and last.startswith(".checkpoint-")
    assert named[1] not in flushed


def test_after_resuming_the_checkpoint_that_was_read_keeps_its_files(tmp_path):
    folder = Folder(tmp_path)
    folder.save(1, c0=1.0, c1=1.0)
    before = folder.save(2, c0=2.0)
    resumed = Folder(tmp_path)
    found = resumed.records.restore()
    assert found is not None
    resumed.states.update(found["clients"])
    after = resumed.save(3, c0=3.0, c1=3.0)
    assert resumed.files() == sorted({*before.values(), *after.values()})


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_a_checkpoint_whose_file_is_not_sound_is_passed_over(tmp_path, damage):
    folder = Folder(tmp_path)
    folder.save(1, c0=1.0, c1=1.0)
    newest = folder.save(2, c0=2.0)
    file = folder.states.folder / newest[0]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink() if damage == "missing" else file.write_bytes(content)
    with pytest.warns(
        UserWarning, match=f"checkpoint .*-000002-.* needs states/{newest[0]}, which is missing or"
    ):
        assert folder.restored() == (1, {0: 1.0, 1: 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert folder.restored() == (1, {0: 1.0, 1: 1.0})  # what was not sound is gone
    folder.states.folder.joinpath(newest[1]).unlink()
    with pytest.warns(UserWarning, match="checkpoint .*-000001-.* needs"):
        assert folder.restored() is None


def test_checkpoints_that_are_not_sound_do_not_push_out_new_ones(tmp_path):
    folder = Folder(tmp_path)
    for round in (5, 6):
        folder.save(round, c0=round)
    for path in tmp_path.glob("checkpoint-*"):
        path.write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="corrupt"):
        assert folder.restored() is None
    Folder(tmp_path).save(1, c0=1.0)
    assert folder.restored() == (1, {0: 1.0})


def test_a_checkpoint_with_all_states_in_it_is_read(tmp_path):
    folder = Folder(tmp_path)
    folder.records.save({"round": 4, "server": {}, "clients": {0: state(1.0), 3: state(2.0)}})
    assert folder.restored() == (4, {0: 1.0, 3: 2.0})


@pytest.mark.parametrize(
    "status, left", [("finished", False), ("diverged", False), ("failed", True), ("stopped", True)]
)
def test_files_go_with_the_end_of_the_run(tmp_path, status, left):
    folder = Folder(tmp_path)
    folder.save(1, c0=1.0)
    folder.records.finish(status, 1)
    assert folder.states.folder.exists() == left


def test_files_go_when_the_run_is_forgotten(tmp_path):
    folder = Folder(tmp_path)
    folder.save(1, c0=1.0)
    folder.records.clear()
    assert list(tmp_path.iterdir()) == []
