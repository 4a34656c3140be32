"""Runs of one method in several versions: which of them count, and that two never count together."""

from pathlib import Path
from typing import Any

import pytest

from pflbench.records.leases import Leases
from pflbench.records.plan import Planned
from pflbench.records.status import RunState, StatusReader, one_version, outdated_methods
from tests.factories import runs
from tests.factories.run_files import write_run
from tests.factories.runs import about_run

OLD, NEW = "r1", "0123456789"


def planned(version: str = NEW, **config: Any) -> Planned:
    return runs.planned(version=version, **config)


def store(folder: Path, run: Planned, status: str = "finished", time: int = 1000) -> Path:
    """Records of a run that ended like this at a time."""
    return write_run(folder, run, status, about=about_run(run.config, 20), lines=[], time=time)


def reader(folder: Path, current: str = NEW) -> StatusReader:
    return StatusReader(Leases(folder), lambda plugin: current)


def found(folder: Path, run: Planned, current: str = NEW) -> tuple[str, bool, str]:
    state = reader(folder, current).state(run)
    return state.state, state.outdated, state.version


def test_versions_of_a_run_share_their_id_but_for_its_end():
    assert planned(OLD).id.removesuffix(OLD) == planned(NEW).id.removesuffix(NEW)
    assert planned(OLD).id.removesuffix(OLD) != planned(NEW, rounds=3).id.removesuffix(NEW)


def test_a_run_of_the_current_version_is_not_outdated(tmp_path):
    store(tmp_path, planned(OLD))
    store(tmp_path, planned(NEW))
    assert found(tmp_path, planned(NEW)) == ("finished", False, NEW)


@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_a_run_that_ended_in_another_version_only_is_outdated(tmp_path, status):
    path = store(tmp_path, planned(OLD), status)
    state = reader(tmp_path).state(planned(NEW))
    assert (state.state, state.outdated, state.version, state.folder) == (status, True, OLD, path)
    assert (state.label, state.current) == ("outdated", NEW)


@pytest.mark.parametrize("status", ["failed", "stopped", ""])
def test_a_run_that_did_not_end_in_another_version_is_missing(tmp_path, status):
    store(tmp_path, planned(OLD), status)
    assert found(tmp_path, planned(NEW)) == ("missing", False, NEW)


def test_a_run_of_another_configuration_is_no_other_version(tmp_path):
    store(tmp_path, planned(OLD, rounds=3))
    store(tmp_path, planned(OLD, seed=1))
    assert found(tmp_path, planned(NEW)) == ("missing", False, NEW)


def test_the_newest_of_several_other_versions_stands_for_the_run(tmp_path):
    store(tmp_path, planned("aaaaaaaaaa"), time=3000)
    store(tmp_path, planned(OLD), time=4000)
    store(tmp_path, planned("bbbbbbbbbb"), time=2000)
    assert found(tmp_path, planned(NEW)) == ("finished", True, OLD)


def test_a_run_that_has_started_in_the_planned_version_is_not_outdated(tmp_path):
    store(tmp_path, planned(OLD))
    store(tmp_path, planned(NEW), "")
    assert found(tmp_path, planned(NEW)) == ("missing", False, NEW)


def test_a_plan_whose_method_has_changed_since_is_outdated_where_that_is_known(tmp_path):
    store(tmp_path, planned(OLD))
    assert found(tmp_path, planned(OLD), current=NEW) == ("finished", True, OLD)
    assert found(tmp_path, planned(OLD), current="") == ("finished", False, OLD)


def test_runs_without_a_plan_are_there_once_in_the_current_or_newest_version(tmp_path):
    for version, time in ((OLD, 3000), (NEW, 2000)):
        store(tmp_path, planned(version), time=time)
        store(tmp_path, planned(version, seed=1), time=time)
    all_runs = [run.folder.name for run in reader(tmp_path).unplanned([])]
    assert all_runs == [planned(NEW).id, planned(NEW, seed=1).id]
    newest = [run.folder.name for run in reader(tmp_path, current="").unplanned([planned(NEW)])]
    assert newest == [planned(OLD, seed=1).id]


def kept(folder: Path, runs: list[Planned], current: str = NEW) -> list[tuple[str, bool]]:
    states = one_version([reader(folder, current).state(run) for run in runs])
    return [(run.version if run.state == "finished" else run.state, run.left_out) for run in states]


SEEDS = [planned(seed=seed) for seed in range(3)]


def test_seeds_of_the_current_version_leave_out_those_of_others(tmp_path):
    store(tmp_path, planned(OLD, seed=0), time=9000)
    store(tmp_path, planned(NEW, seed=1), time=2000)
    assert kept(tmp_path, SEEDS) == [("missing", True), (NEW, False), ("missing", False)]


def test_seeds_of_one_old_version_count_together(tmp_path):
    store(tmp_path, planned(OLD, seed=0))
    store(tmp_path, planned(OLD, seed=1))
    assert kept(tmp_path, SEEDS) == [(OLD, False), (OLD, False), ("missing", False)]


def test_of_several_old_versions_only_the_newest_counts(tmp_path):
    store(tmp_path, planned(OLD, seed=0), time=2000)
    store(tmp_path, planned("aaaaaaaaaa", seed=1), time=3000)
    store(tmp_path, planned("aaaaaaaaaa", seed=2), time=1000)
    assert kept(tmp_path, SEEDS) == [
        ("missing", True),
        ("aaaaaaaaaa", False),
        ("aaaaaaaaaa", False),
    ]


def test_versions_are_chosen_for_each_scenario_by_itself(tmp_path):
    other = [planned(seed=seed, partition="iid") for seed in range(2)]
    store(tmp_path, planned(NEW, seed=0))
    store(tmp_path, planned(OLD, seed=0, partition="iid"))
    assert kept(tmp_path, [SEEDS[0], other[0]]) == [(NEW, False), (OLD, False)]


def test_outdated_runs_are_told_by_method():
    runs = [
        RunState(planned(), "finished", Path(), OLD, NEW, outdated=True),
        RunState(planned(seed=1), "finished", Path(), "aaaaaaaaaa", NEW, outdated=True),
        RunState(planned(seed=2), "finished", Path(), NEW, NEW),
    ]
    assert outdated_methods(runs) == [
        f"fedavg: 2 runs are of version aaaaaaaaaa and r1, it is now {NEW}"
    ]
    assert outdated_methods(runs[:1]) == [f"fedavg: 1 run is of version r1, it is now {NEW}"]
    assert outdated_methods(runs[2:]) == []
