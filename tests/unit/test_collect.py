"""The runs of a folder as a report takes them: which version counts, and single runs."""

from pathlib import Path
from typing import Any

import pytest

from pflbench.methods import versions
from pflbench.records.plan import Plan, Planned
from pflbench.report.grouping.layout import counted, lay_out
from pflbench.report.load import runs
from pflbench.report.load.runs import OTHERS, Choice, Numbers
from pflbench.report.tables.accuracy import cell
from pflbench.report.tables.notes import below_tables
from tests.factories import runs as factory
from tests.factories.run_files import write_run

OLD, NEW = "r1", "r2"


@pytest.fixture(autouse=True)
def current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "current", lambda plugin: NEW)


def planned(version: str, seed: int = 0, **config: Any) -> Planned:
    return factory.planned(seed=seed, version=version, rounds=1, clients=2, **config)


def store(folder: Path, run: Planned, accuracy: float, time: int = 1000) -> None:
    """Records of a finished run whose two clients have this accuracy."""
    line = {"round": 1, "cohort": [0, 1], "bytes": {}, "accuracy": {"pre": [accuracy] * 2}}
    write_run(folder, run, lines=[{"round": 0}, line], time=time)


def write_plan(folder: Path, *wanted: Planned, name: str = "mine") -> None:
    Plan(name, "Mine", "", "", wanted).write(folder)


def collected(folder: Path) -> dict[str, tuple[Numbers, ...]]:
    return {found.plan.name: found.runs for found in runs.collect(folder, Choice())}


def test_runs_of_the_current_version_are_not_outdated(tmp_path: Path):
    write_plan(tmp_path, planned(NEW))
    store(tmp_path, planned(NEW), 0.5)
    store(tmp_path, planned(OLD), 0.9)
    found = collected(tmp_path)
    assert list(found) == ["mine"]  # the older records are no experiment of their own
    (run,) = found["mine"]
    assert (run.status, run.version, run.outdated, run.clients[0]) == ("finished", NEW, False, 0.5)


def test_where_there_is_an_earlier_version_only_it_is_shown_and_marked(tmp_path: Path):
    write_plan(tmp_path, planned(NEW), planned(NEW, seed=1))
    store(tmp_path, planned(OLD), 0.4)
    store(tmp_path, planned(OLD, seed=1), 0.6)
    (found,) = runs.collect(tmp_path, Choice())
    assert [(run.status, run.version, run.outdated) for run in found.runs] == [
        ("finished", OLD, True)
    ] * 2
    shown = cell(found.runs, Choice(), "seeds")
    assert shown.accuracy == pytest.approx(50)
    assert (shown.seeds, shown.outdated) == (2, True)


def test_a_cell_never_mixes_two_versions(tmp_path: Path):
    write_plan(tmp_path, *(planned(NEW, seed=seed) for seed in (0, 1, 2)))
    store(tmp_path, planned(NEW), 0.5, time=1000)
    store(tmp_path, planned(OLD, seed=1), 0.9, time=2000)
    store(tmp_path, planned(OLD, seed=2), 0.9, time=2000)
    (found,) = runs.collect(tmp_path, Choice())
    assert [run.version for run in counted(found.runs)] == [NEW]
    shown = cell(found.runs, Choice(), "seeds")
    assert shown.accuracy == pytest.approx(50)
    assert (shown.seeds, shown.state) == (1, "partial")
    assert not shown.outdated
    notes = below_tables(lay_out(found, [found]))
    assert notes == ["FedAvg: left out, from another version: 2 runs."]


def test_single_runs_of_two_versions_are_not_mixed_either(tmp_path: Path):
    store(tmp_path, planned(NEW), 0.5)
    store(tmp_path, planned(OLD, seed=1), 0.9)
    found = collected(tmp_path)[OTHERS]
    assert [run.version for run in counted(found)] == [NEW]


def test_a_run_that_is_in_no_plan_is_a_single_run(tmp_path: Path):
    write_plan(tmp_path, planned(NEW))
    store(tmp_path, planned(NEW), 0.5)
    store(tmp_path, planned(NEW, dataset="emnist"), 0.7)
    found = collected(tmp_path)
    assert list(found) == ["mine", OTHERS]
    assert [run.planned.config["dataset"] for run in found[OTHERS]] == ["emnist"]


def test_a_folder_that_is_itself_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = planned(NEW)
    store(tmp_path, run, 0.5)
    assert collected(tmp_path / run.id)[OTHERS][0].clients[0] == 0.5
    monkeypatch.chdir(tmp_path / run.id)
    single = runs.single_run(Path(), Choice())
    assert (single.status, single.clients[0], single.version) == ("finished", 0.5, NEW)
    assert collected(Path())[OTHERS][0].status == "finished"


def test_two_experiments_that_share_a_run_have_it_each_in_its_own_words(tmp_path: Path):
    one = planned(NEW)
    other = factory.in_plan(one.run, "in other words", "variant")
    write_plan(tmp_path, one)
    write_plan(tmp_path, other, name="other")
    store(tmp_path, one, 0.5)
    found = collected(tmp_path)
    assert found["mine"][0].planned.scenario == "digits dir:0.1"
    assert found["other"][0].planned.scenario == "in other words"
    assert found["mine"][0].clients[0] == found["other"][0].clients[0] == 0.5
