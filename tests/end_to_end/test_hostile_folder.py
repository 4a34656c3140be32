"""A results folder of somebody else: it is read, never executed, and nothing is written outside."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pflbench.records.plan import Planned
from tests.end_to_end.commands import Call, fine
from tests.factories.run_files import write_run, write_sweep
from tests.factories.runs import about_run, planned

TABLE = {"algorithms": ["fedavg", "local"], "dataset": "digits", "clients": 3, "rounds": 2}
TRAP = 'from pathlib import Path\nPath("{}").touch()\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_sweep(tmp_path / "out", "mine", TABLE)
    return tmp_path / "out"


def edit_plan(folder: Path, **change: Any) -> None:
    path = folder / "plans" / "mine.json"
    plan = json.loads(path.read_text())
    for run in plan["runs"]:
        run.update(change)
    path.write_text(json.dumps(plan))


@pytest.mark.parametrize("command", ["report", "status", "verify"])
def test_no_command_executes_a_plugin_that_a_plan_names(call: Call, folder: Path, command: str):
    trap = folder / "trap.py"
    trap.write_text(TRAP.format(folder / "sprung"))
    edit_plan(folder, plugin=str(trap))
    fine(call, command, str(folder))
    assert not (folder / "sprung").exists()


def test_no_report_executes_the_method_of_a_single_run(call: Call, tmp_path: Path):
    trap = tmp_path / "trap.py"
    trap.write_text(TRAP.format(tmp_path / "sprung"))
    run = planned(str(trap), rounds=2, clients=2, id="stray")
    write_run(tmp_path / "out", run, about=about(run))
    fine(call, "report", str(tmp_path / "out"))
    assert not (tmp_path / "sprung").exists()


def about(run: Planned, **method: Any) -> dict[str, Any]:
    return about_run(run.config, 2, **method)


@pytest.mark.parametrize(
    "title", ["FedAvg w/ EMA", "../../../escaped", "/escaped", "a\\b", "..", "\u2728", "x" * 300]
)
def test_a_title_is_no_path(call: Call, tmp_path: Path, title: str):
    for seed in range(2):
        run = planned("mine", rounds=2, clients=2, seed=seed)
        write_run(tmp_path / "out", run, about=about(run, title=title))
    before = {path for path in tmp_path.rglob("*") if "out" not in path.parts}
    code, _, err = call("report", str(tmp_path / "out"))
    assert code == 0, err
    assert (tmp_path / "out" / "report" / "index.html").exists()
    assert {path for path in tmp_path.rglob("*") if "out" not in path.parts} == before


@pytest.mark.parametrize("title", ["=1+1", "+SUM(A1)", "-2", "@now"])
def test_a_name_is_no_formula_of_a_spreadsheet(call: Call, tmp_path: Path, title: str):
    run = planned("mine", rounds=2, clients=2)
    write_run(tmp_path / "out", run, about=about(run, title=title))
    fine(call, "report", str(tmp_path / "out"), "--only", "tables")
    files = list((tmp_path / "out" / "report").rglob("*.csv"))
    rows = [row for path in files for row in csv.reader(path.read_text().splitlines())]
    cells = {cell for row in rows for cell in row}
    assert files and f"'{title}" in cells and title not in cells
