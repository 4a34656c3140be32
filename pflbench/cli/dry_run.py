"""`pflbench sweep --dry-run`: the runs that a sweep would make, and the time that those left will
take.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pflbench.cli import console
from pflbench.errors import RunFailed, UserError
from pflbench.output import plural

if TYPE_CHECKING:
    from pflbench.records.plan import Plan, Planned

HEADERS = ["scenario", "variant", "methods", "seeds", "runs", "ended", "core time"]
PATIENCE = 5.0  # seconds until a note says what takes so long


def show(
    plans: "Sequence[Plan]",
    runs: "Mapping[str, Planned]",
    out: Path,
    keep_outdated: bool,
    jobs: int,
    probe: bool,
    data_root: Path | None,
    as_json: bool,
) -> None:
    """Print what would be done with `runs`, and nothing else."""
    from pflbench.methods import versions
    from pflbench.records.leases import FINAL, Leases
    from pflbench.records.status import StatusReader, outdated_methods
    from pflbench.records.time_left import duration

    reader = StatusReader(Leases(out), versions.current)
    states = {id: reader.state(planned) for id, planned in runs.items()}
    ended = {
        id
        for id, state in states.items()
        if state.state in FINAL and (keep_outdated or not state.outdated)
    }
    todo = {id: planned for id, planned in runs.items() if id not in ended}
    cost, why = core_seconds(todo, data_root) if probe and todo else ({}, "")
    if as_json:
        listed = [
            {**planned.as_json(), "state": states[id].label, "seconds": cost.get(id)}
            for id, planned in runs.items()
        ]
        console.dump({"experiments": [plan.name for plan in plans], "runs": listed})
        return
    for plan in plans:
        mine = [planned for planned in plan.runs if planned.id in runs]
        print(f"{plan.name}: {plan.title}")
        console.table(HEADERS, _rows(mine, ended, cost))
        number = len({planned.id for planned in mine})
        done = len({planned.id for planned in mine} & ended)
        print(f"{plural(number, 'run')} at scale {plan.scale}, {done} of them have ended")
    for line in outdated_methods(states.values()):
        print(f"outdated: {line}")
    if cost:
        needed = duration(sum(cost.values()) / jobs)
        print(f"about {needed} with {plural(jobs, 'job')}, from one round of each method here")
    elif why:
        print(f"no estimate of the time: {why}")


def core_seconds(
    todo: "Mapping[str, Planned]", data_root: Path | None
) -> tuple[dict[str, float], str]:
    """Seconds of every run on one core, or why they are not known."""
    from pflbench.sweep import estimate

    start, said = time.monotonic(), False

    def probed(done: int, all: int) -> None:
        nonlocal said
        if not said and done < all and time.monotonic() - start > PATIENCE:
            said = True
            about = f"{done} of {all} rounds have been played to estimate the time"
            console.say("note", f"{about}; --no-probe lists the runs at once")

    try:
        seconds = estimate.seconds_per_round(todo.values(), data_root, probed)
    except (UserError, RunFailed) as error:
        return {}, str(error)
    return {id: seconds[id] * planned.run.rounds for id, planned in todo.items()}, ""


def _rows(
    runs: "Sequence[Planned]", ended: set[str], cost: Mapping[str, float]
) -> list[list[object]]:
    """A row for every scenario and variant."""
    from pflbench.records.time_left import duration

    cells: dict[tuple[str, str], list[Planned]] = {}
    for planned in runs:
        cells.setdefault((planned.scenario, planned.variant), []).append(planned)
    rows: list[list[object]] = []
    for (scenario, variant), members in cells.items():
        methods = len({planned.run.algorithm for planned in members})
        seeds = len({planned.run.seed for planned in members})
        done = sum(planned.id in ended for planned in members)
        needed = duration(sum(cost.get(planned.id, 0.0) for planned in members)) if cost else ""
        rows.append([scenario, variant, methods, seeds, len(members), done, needed])
    return rows
