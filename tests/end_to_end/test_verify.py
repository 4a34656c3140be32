"""`pflbench verify`, and what the other commands make of damaged runs."""

from pathlib import Path

import pytest

from tests.end_to_end.commands import Call, fine
from tests.factories.run_files import write_sweep

TABLE = {"algorithms": ["fedavg", "local"], "dataset": "digits", "clients": 3, "rounds": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_sweep(tmp_path / "out", "mine", TABLE)
    return tmp_path / "out"


@pytest.fixture
def damaged(folder: Path) -> Path:
    """The folder after the run of FedAvg has lost its last round."""
    (file,) = folder.glob("fedavg-*/rounds.jsonl")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    return folder


def test_sound_records_are_told_in_one_line(call: Call, folder: Path):
    assert fine(call, "verify", str(folder)) == "runs verified: 2; damaged: 0\n"


def test_damaged_records_are_named_and_the_exit_code_is_1(call: Call, damaged: Path):
    code, out, err = call("verify", str(damaged))
    assert (code, out) == (1, "runs verified: 2; damaged: 1\n")
    assert err.startswith("pflbench: damaged: fedavg-digits-dir0.1-s0-") and err.count("\n") == 1


def test_a_folder_without_ended_runs_is_a_mistake(call: Call, tmp_path: Path):
    code, _, err = call("verify", str(tmp_path))
    assert code == 2 and "there is nothing to verify" in err


def test_a_damaged_run_is_no_number_in_a_table_and_counted_by_status(call: Call, damaged: Path):
    code, out, _ = call("report", str(damaged), "--only", "tables")
    assert code == 0 and "mine: 2 runs, of them 1 damaged" in out
    table = (damaged / "report" / "mine" / "accuracy.md").read_text()
    (row,) = [line for line in table.splitlines() if line.startswith("| FedAvg ")]
    assert row == "| FedAvg | \u2013x |"
    assert "\u2013x: damaged." in table
    (row,) = [line for line in fine(call, "status", str(damaged)).splitlines() if "mine" in line]
    assert row.split()[:8] == ["mine", "paper", "2", "1", "0", "0", "0", "1"]
