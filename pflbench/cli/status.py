"""`pflbench status`: how far the sweeps of a folder are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pflbench.cli import console, options
from pflbench.errors import UserError

if TYPE_CHECKING:
    from pflbench.records.plan import Plan
    from pflbench.records.status import RunStatus


def status(
    ctx: typer.Context,
    folder: options.Records = Path("results/runs"),
    as_json: options.Json = False,
) -> None:
    """Show the progress of sweeps. Runs are counted by state, with the time left."""
    from pflbench.methods import versions
    from pflbench.records import archive, plan
    from pflbench.records.leases import Leases
    from pflbench.records.status import StatusReader

    records = ctx.with_resource(archive.opened(folder))
    plans = plan.read(records)
    if not plans:
        raise UserError(f"no sweep has been started in {folder}: it has no plans/")
    reader = StatusReader(Leases(records), versions.current)
    found = {one.name: [reader.status(run) for run in one.unique().values()] for one in plans}
    rows = [_row(one, found[one.name]) for one in plans]
    if as_json:
        runs = {name: [_run_row(run) for run in members] for name, members in found.items()}
        console.dump({"experiments": rows, "runs": runs})
        return
    headers = [*[*rows[0]][:-1], "left"]
    console.table(headers, [[*[*row.values()][:-1], _time(row["seconds_left"])] for row in rows])
    _tell({run.planned.id: run for members in found.values() for run in members})


def _row(one: Plan, runs: list[RunStatus]) -> dict[str, Any]:
    """An experiment: how many of its runs are in which state."""
    from pflbench.records.status import STATES
    from pflbench.records.time_left import time_left

    counts = Counter(run.label for run in runs)
    row: dict[str, Any] = {"experiment": one.name, "scale": one.scale, "runs": len(runs)}
    left = time_left(runs, counts["running"])
    return {**row, **{label: counts[label] for label in STATES}, "seconds_left": left}


def _run_row(run: RunStatus) -> dict[str, Any]:
    return {
        "id": run.planned.id,
        "name": run.planned.name,
        "state": run.label,
        "version": run.version,
        "round": run.round,
        "rounds": run.rounds,
        "accuracy": run.accuracy,
        "reason": run.reason,
        "owner": run.owner,
    }


def _tell(runs: dict[str, RunStatus]) -> None:
    """A line for every running run, for the outdated runs of a method, and for every run that did
    not finish.
    """
    from pflbench.records.status import outdated_methods

    for run in runs.values():
        if run.state == "running":
            print(f"running: {run.planned.name}: round {run.round} of {run.rounds}; {run.owner}")
    for line in outdated_methods(runs.values()):
        print(f"outdated: {line}")
    for run in runs.values():
        if run.reason:
            print(f"{run.label}: {run.planned.name}: {run.reason}")


def _time(seconds: float | None) -> str:
    from pflbench.records.time_left import duration

    return "" if seconds is None else duration(seconds)
