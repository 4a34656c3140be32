"""Records and data that were cut short or changed are never taken for numbers."""

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench.data import datasets, partition_file, prepared
from pflbench.data.prepared import Data
from pflbench.errors import UserError
from pflbench.records import integrity, leases, provenance, run_folder
from pflbench.records.leases import Leases
from pflbench.records.run_folder import RunFolder
from pflbench.records.verification import damage, how_it_ended
from pflbench.report.load import runs
from pflbench.report.load.runs import Choice
from pflbench.simulation import runner
from pflbench.sweep.launchers.task import Task, do
from pflbench.testing.problem import toy_setup
from tests.factories.run_files import write_run
from tests.factories.runs import planned

RECORDS = ("rounds.jsonl", "timing.jsonl", "run.json")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of three rounds."""
    return write_run(tmp_path, planned("fedavg", rounds=3, clients=2))


def cut(content: bytes) -> bytes:
    return content[: content.rindex(b"\n", 0, -1) + 1]  # the last line is lost


def flipped(content: bytes) -> bytes:
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


CHANGES = {"cut": cut, "emptied": lambda content: b"", "flipped": flipped}


# A run that has ended


def test_a_finished_run_is_what_it_wrote(run: Path):
    assert how_it_ended(run) == ("finished", "")
    assert damage(run) == ""


@pytest.mark.parametrize("file", RECORDS)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_records_are_damaged_and_no_number_in_a_report(run: Path, file: str, change: str):
    content = (run / file).read_bytes()
    changed = CHANGES[change](content) if content.count(b"\n") > 1 else flipped(content)
    (run / file).write_bytes(changed)
    assert file in damage(run)
    found = runs.single_run(run, Choice()) if file != "run.json" else read(run)
    assert (found.status, found.has_numbers) == ("damaged", False)


def read(run: Path) -> Any:
    return runs.read(run, planned("fedavg", rounds=3, clients=2), Choice())


def test_sizes_are_enough_for_a_state(run: Path):
    (run / "rounds.jsonl").write_bytes(cut((run / "rounds.jsonl").read_bytes()))
    state, reason = how_it_ended(run)
    assert state == "damaged"
    assert reason.startswith("rounds.jsonl has ") and "when the run ended" in reason


def test_a_status_without_checksums_is_damaged(run: Path):
    (run / "status.json").write_text('{"status": "finished", "round": 3}')
    assert how_it_ended(run) == ("damaged", "status.json has no checksums")


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '"finished"', "[" * 100_000])
def test_a_status_that_cannot_be_read_is_damaged(run: Path, content: str):
    (run / "status.json").write_text(content)
    state, reason = how_it_ended(run)
    assert state == "damaged" and "status.json" in reason and "\n" not in reason


def test_a_folder_in_the_place_of_a_status_is_damaged_and_fresh_repairs_it(tmp_path: Path):
    setup = toy_setup("fedavg", rounds=2)
    folder = runner.execute(setup, tmp_path).folder
    before = (folder / "rounds.jsonl").read_bytes()
    (folder / "status.json").unlink()
    (folder / "status.json").mkdir()
    assert how_it_ended(folder)[0] == "damaged"
    runner.execute(setup, tmp_path, fresh=True)
    assert how_it_ended(folder) == ("finished", "")
    assert (folder / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize("accuracy", [2.65, -0.1, float("inf")])
def test_an_impossible_accuracy_is_damage_even_if_the_sums_are_right(run: Path, accuracy: float):
    lines = run_folder.rounds(run)
    lines[-1]["accuracy"]["pre"][0] = accuracy
    assert "not between 0 and 1" in integrity.wrong_numbers(
        lines, {"status": "finished", "round": 3}
    )


def test_a_missing_round_is_damage_even_if_the_sums_are_right(run: Path):
    lines = run_folder.rounds(run)
    ended = {"status": "finished", "round": 3}
    assert integrity.wrong_numbers(lines, ended) == ""
    for left_out in range(4):
        rest = lines[:left_out] + lines[left_out + 1 :]
        assert "all rounds from 0 to 3" in integrity.wrong_numbers(rest, ended)


def test_a_damaged_run_is_refused_until_it_is_done_again_and_then_equals_the_first(tmp_path: Path):
    setup = toy_setup("fedavg", rounds=3)
    folder = runner.execute(setup, tmp_path).folder
    whole = (folder / "rounds.jsonl").read_bytes()
    (folder / "rounds.jsonl").write_bytes(cut(whole))
    with pytest.raises(UserError, match=r"is damaged: .*; --fresh runs it again"):
        runner.execute(setup, tmp_path)
    assert (folder / "rounds.jsonl").read_bytes() == cut(whole)
    runner.execute(setup, tmp_path, fresh=True)
    assert (folder / "rounds.jsonl").read_bytes() == whole
    assert how_it_ended(folder) == ("finished", "")


# Power cuts


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="tells files by /proc")
def test_all_lines_are_on_the_disk_before_the_status_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    flushed: list[str] = []
    flush = os.fsync

    def noting(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name.lstrip("."))
        flush(descriptor)

    folder = RunFolder(tmp_path / "run", "run")
    folder.open({})
    for file in integrity.LINES:
        folder.append(file, {"round": 0})
    monkeypatch.setattr(os, "fsync", noting)
    folder.finish("finished", 0)
    assert sorted(flushed[:2]) == ["rounds.jsonl", "timing.jsonl"]
    assert flushed[2].startswith("status.json") and flushed[3] == "run"


# Resuming


def interrupted(out: Path, rounds: int = 4) -> Path:
    """A run that stopped after three rounds, with a checkpoint after every one."""
    setup = toy_setup("fedavg", rounds=rounds)

    def stop(record: Any, timing: Any) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.execute(setup, out, checkpoint_every=1, watch=stop)
    return out / setup.run.id


@pytest.mark.parametrize("change", CHANGES)
def test_a_resumed_run_never_builds_on_changed_records(tmp_path: Path, change: str):
    expected = runner.execute(toy_setup("fedavg", rounds=4), tmp_path / "whole").folder
    folder = interrupted(tmp_path / "out")
    content = (folder / "rounds.jsonl").read_bytes()
    (folder / "rounds.jsonl").write_bytes(CHANGES[change](content))
    with pytest.warns(UserWarning, match="needs the lines of its rounds in rounds.jsonl"):
        runner.execute(toy_setup("fedavg", rounds=4), tmp_path / "out")
    assert (folder / "rounds.jsonl").read_bytes() == (expected / "rounds.jsonl").read_bytes()


# Links


@pytest.mark.parametrize("fresh", [False, True])
def test_what_a_link_in_a_run_folder_points_to_stays(tmp_path: Path, fresh: bool):
    setup = toy_setup("fedavg", rounds=1)
    folder = tmp_path / "out" / setup.run.id
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.pt").write_text("years of work")
    folder.mkdir(parents=True)
    (folder / "states").symlink_to(precious, target_is_directory=True)
    (folder / "rounds.jsonl").symlink_to(precious / "thesis.pt")
    runner.execute(setup, tmp_path / "out", fresh=fresh)
    assert (precious / "thesis.pt").read_text() == "years of work"


# Prepared data


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return datasets.load("synthetic:classes=2,side=4,samples=20", tmp_path)


def overwrite(folder: Path) -> None:
    """Another pixel, in a file of the same size."""
    x = np.load(folder / "x.npy", mmap_mode="r+")
    x[0, 0, 0, 0] ^= 1
    x.flush()


def test_data_that_were_changed_are_refused(tmp_path: Path, data: Data):
    overwrite(data.folder)
    with pytest.raises(
        UserError, match=r"the prepared data in .* were changed.*; delete that folder"
    ):
        datasets.load(data.name, tmp_path)


def test_data_that_were_copied_are_verified_once(
    tmp_path: Path, data: Data, monkeypatch: pytest.MonkeyPatch
):
    os.utime(data.folder / "x.npy", (1, 1))
    assert datasets.load(data.name, tmp_path).digest == data.digest
    monkeypatch.setattr(prepared, "digest", lambda x, y: pytest.fail("verified again"))
    datasets.load(data.name, tmp_path)


def test_data_that_were_changed_behind_the_clock_are_found_when_asked(data: Data):
    times = os.stat(data.folder / "x.npy")
    overwrite(data.folder)
    os.utime(data.folder / "x.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
    prepared.verify(data)
    with pytest.raises(UserError, match="were changed"):
        prepared.verify(data, always=True)


def test_leases_and_plans_of_other_kinds_do_not_block_a_folder(tmp_path: Path):
    book = Leases(tmp_path)
    book.open()
    for number, content in enumerate(["[]", "{", '{"owner": "me"}', json.dumps({"owner": {}})]):
        (tmp_path / "leases" / f"run{number}.000001").write_text(content)
        assert book.claim(f"run{number}") is None  # until it has expired
    book.expires = 0.0
    assert all(book.claim(f"run{number}") for number in range(4))


# Other machines


def test_a_run_that_is_resumed_on_another_kind_of_machine_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = interrupted(tmp_path)
    monkeypatch.setattr(provenance, "kind_of_machine", lambda device="cpu": "an abacus")
    setup = toy_setup("fedavg", rounds=4)
    before = {path.name: path.read_bytes() for path in folder.glob("*-*.pt")}
    with pytest.raises(UserError, match=r"was started on another kind of machine .*an abacus"):
        runner.execute(setup, tmp_path, strict=True)
    assert {path.name: path.read_bytes() for path in folder.glob("*-*.pt")} == before
    with pytest.warns(UserWarning, match=r"the run is marked"):
        runner.execute(setup, tmp_path)
    assert run_folder.read_json(folder / "status.json")["mixed"][1] == "an abacus"
    (noted,) = runs.single_run(folder, Choice()).notes
    assert noted == "resumed on another kind of machine, whose last bits may differ"


def test_a_run_of_one_kind_of_machine_is_not_marked(tmp_path: Path):
    folder = interrupted(tmp_path)
    runner.execute(toy_setup("fedavg", rounds=4), tmp_path, strict=True)
    assert "mixed" not in run_folder.read_json(folder / "status.json")


def test_settings_that_change_bits_are_another_kind_of_machine():
    names = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR")
    defaults = dict.fromkeys(names, "default")
    kinds = [kind_of_machine(**defaults)]
    kinds += [kind_of_machine(**{**defaults, name: "AVX"}) for name in names]
    assert len(set(kinds)) == 4, kinds


def kind_of_machine(**environment: str) -> str:
    """As a process with this environment says it."""
    code = "from pflbench.records import provenance as p; print(p.kind_of_machine())"
    command, environment = [sys.executable, "-c", code], {**os.environ, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


# Partitions in files


def test_a_file_whose_clients_test_on_others_training_samples_is_warned_about(tmp_path: Path):
    train = (np.arange(0, 6), np.arange(8, 12))
    test = (np.arange(6, 8), np.arange(5, 7))
    partition_file.write(tmp_path / "split.npz", {"train": train, "test": test})
    with pytest.warns(UserWarning, match=r"training and test samples of different clients overlap"):
        partition_file.read(str(tmp_path / "split.npz"), 20, None)


# Leases of the dead


def lease_of(folder: Path, **owner: str) -> Leases:
    """A book with a lease of `run` that a process elsewhere has, or nobody."""
    book = Leases(folder, expires=0.2)
    book.open()
    content = {"token": "t", "owner": {**asdict(leases.me()), **owner}} if owner else {}
    (folder / "leases" / "run.000001").write_text(json.dumps(content))
    return book


@pytest.mark.parametrize("owner", [{}, {"host": "elsewhere"}, {"space": "an earlier boot 1"}])
def test_a_lease_whose_owner_may_be_dead_is_waited_for_until_it_expires(
    tmp_path: Path, owner: dict[str, str]
):
    book = lease_of(tmp_path, **owner)
    assert book.claim("run") is None
    assert book.wait("run", seconds_between_looks=0.05) is not None


def test_a_lease_whose_owner_shows_that_it_lives_is_not_waited_for(tmp_path: Path):
    book = lease_of(tmp_path, host="elsewhere")
    book.expires = 60.0
    path = tmp_path / "leases" / "run.000001"
    touching = threading.Timer(0.1, os.utime, [path])
    touching.start()
    assert book.wait("run", seconds_between_looks=0.02) is None
    touching.join()


def test_a_sweep_leaves_a_run_of_another_kind_of_machine_as_it_is_if_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = interrupted(tmp_path)
    setup = toy_setup("fedavg", rounds=4)
    book = Leases(tmp_path)
    book.open()
    lease = book.claim(setup.run.id)
    assert lease is not None
    asked = Task(setup.run, setup.plugin, setup.data, tmp_path, lease, "paper", strict=True)
    before = {path.name: path.read_bytes() for path in folder.glob("*-*.pt")}
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(provenance, "kind_of_machine", lambda device="cpu": "an abacus")
        assert do(asked) is None
    ended = run_folder.read_json(folder / "status.json")
    assert (ended["status"], ended["round"]) == ("stopped", 3)
    assert "was started on another kind of machine" in ended["reason"]
    assert {path.name: path.read_bytes() for path in folder.glob("*-*.pt")} == before
    assert do(asked) is None  # on the first machine
    assert how_it_ended(folder) == ("finished", "")
    assert "mixed" not in run_folder.read_json(folder / "status.json")


# What a user may do to a folder


def test_a_configuration_that_was_edited_before_a_run_goes_on_is_written_again(tmp_path: Path):
    folder = interrupted(tmp_path)
    about = json.loads((folder / "run.json").read_text())
    edited = {**about, "config": {**about["config"], "seed": 7}}
    (folder / "run.json").write_text(json.dumps(edited))
    with pytest.warns(UserWarning, match=r"run\.json was changed; it is written again"):
        runner.execute(toy_setup("fedavg", rounds=4), tmp_path)
    assert json.loads((folder / "run.json").read_text())["config"] == about["config"]
    assert damage(folder) == ""


def test_a_configuration_of_another_id_is_damage_even_if_the_sums_are_right(run: Path):
    about = json.loads((run / "run.json").read_text())
    about["config"]["seed"] = 7
    (run / "run.json").write_text(json.dumps(about))
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, "records": integrity.sums(run)}))
    assert "has the configuration of fedavg-digits-dir0.1-s7-" in damage(run)


def test_a_run_copied_to_the_place_of_another_is_no_number_of_that_one(run: Path):
    other = planned("fedavg", rounds=3, clients=2, seed=1)
    shutil.copytree(run, run.parent / other.id)
    found = runs.read(run.parent / other.id, other, Choice())
    assert (found.status, found.reason) == ("damaged", f"it has the records of {run.name}")


def test_a_run_whose_bytes_were_changed_is_refused_even_if_its_sizes_are_the_same(tmp_path: Path):
    setup = toy_setup("fedavg", rounds=2)
    folder = runner.execute(setup, tmp_path).folder
    whole = (folder / "rounds.jsonl").read_bytes()
    (folder / "rounds.jsonl").write_bytes(flipped(whole))
    with pytest.raises(UserError, match="was changed after the run had ended; --fresh"):
        runner.execute(setup, tmp_path)
    book = Leases(tmp_path)
    book.open()
    lease = book.claim(setup.run.id)
    assert lease is not None
    assert do(Task(setup.run, setup.plugin, setup.data, tmp_path, lease, "paper")) is None
    assert (folder / "rounds.jsonl").read_bytes() == whole  # a sweep does it again


WRONG: dict[str, list[tuple[str, Any]]] = {
    "run.json": [("config", 3), ("method", {"title": []}), ("partition", []), ("data", None)],
    "status.json": [("records", []), ("round", "three"), ("reason", {}), ("models", 3)],
    "rounds.jsonl": [("accuracy", {"pre": "x"}), ("bytes", 3), ("logs", {"a": "x"}), ("notes", 1)],
    "timing.jsonl": [("wall", "x"), ("round", None), ("client", [])],
}


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    ("file", "name", "value"),
    [(file, *change) for file, changes in WRONG.items() for change in changes],
)
def test_a_value_of_another_type_is_damage_that_names_the_file(
    run: Path, file: str, name: str, value: Any, ended: bool
):
    *before, last = (run / file).read_text().splitlines()
    (run / file).write_text("\n".join([*before, json.dumps({**json.loads(last), name: value})]))
    status = json.loads((run / "status.json").read_text())
    if file != "status.json":
        (run / "status.json").write_text(json.dumps({**status, "records": integrity.sums(run)}))
        if not ended:
            (run / "status.json").unlink()
    found = read(run)
    assert (found.status, found.has_numbers) == ("damaged", False)
    assert file in found.reason and name in found.reason
