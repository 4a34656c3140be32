"""`pflbench report`: records to tables, figures and a page."""

import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pflbench.cli import console, options
from pflbench.errors import UserError

if TYPE_CHECKING:
    from pflbench.report.build import Report

SECONDS_BETWEEN_LOOKS = 3.0
ALLOWED = {
    "round": ("last", "last10", "best", "validation"),
    "point": ("pre", "post"),
    "std": ("clients", "seeds"),
    "only": ("tables", "figures", "page"),
}


def report(
    ctx: typer.Context,
    folder: options.Records,
    out: options.ReportFolder = None,
    experiment: options.ReportedExperiments = None,
    round: options.ChosenRound = "last",
    point: options.Point = None,
    proposed: options.Proposed = None,
    std: options.Std = "clients",
    weighted: options.Weighted = False,
    decimals: options.Decimals = 2,
    margin: options.Margin = 1.0,
    only: options.OnlyFiles = None,
    watch: options.Watch = False,
    as_json: options.Json = False,
) -> None:
    """Tables (LaTeX, CSV, Markdown), figures (PDF, PNG) and a page of all runs in a folder."""
    given = {"round": [round], "point": [point] if point else [], "std": [std], "only": only or []}
    for name, values in given.items():
        for value in values:
            if value not in ALLOWED[name]:
                raise UserError(f"--{name} {value}: must be {' or '.join(ALLOWED[name])}")
    if watch and as_json:
        raise UserError("--watch prints what it writes again and again; use it without --json")
    if watch and folder.is_file():
        raise UserError(f"--watch: {folder} is a file, in which no runs go on")
    from pflbench.records import archive
    from pflbench.report import build, summary
    from pflbench.report.load.runs import Choice

    choice = Choice(round, point, std, weighted, decimals, proposed)  # type: ignore[arg-type]

    records = ctx.with_resource(archive.opened(folder))
    place = out or archive.stem(folder) / "report"

    def once() -> "Report":
        return build.report(records, place, choice, experiment or [], only or [], margin / 100)

    made = _watch(folder, once) if watch else once()
    rows = summary.grouped([run for one in made.experiments for run in one.runs], weighted)
    if as_json:
        files = {"written": made.written, "removed": made.removed}
        console.dump(
            {"rows": rows, **{name: [str(path) for path in paths] for name, paths in files.items()}}
        )
        return
    if rows:
        console.table(*summary.columns(rows))
        print(textwrap.fill(summary.caption(choice), 110))
    _tell(made)


def _watch(folder: Path, once: "Callable[[], Report]") -> "Report":
    """Write the report whenever records have changed, until all runs have ended or Ctrl-C."""
    from pflbench.report.build import state

    before = state(folder)
    made = once()
    try:
        while True:
            ended, number = made.ended
            print(
                f"{ended} of {number} runs have ended; {len(made.written)} files are written",
                flush=True,
            )
            if ended == number:
                break
            while (now := state(folder)) == before:
                time.sleep(SECONDS_BETWEEN_LOOKS)
            before = now
            made = once()
    except KeyboardInterrupt:
        print("stopped; what is written stays")
    return made


def _tell(made: "Report") -> None:
    """What was written; for every experiment, which runs are not finished; for every method, which
    are outdated.
    """
    from pflbench.records.status import OUTDATED, outdated_methods

    for experiment in made.experiments:
        states = {
            run.planned.id: OUTDATED if run.outdated else run.status for run in experiment.runs
        }
        rest = [state for state in states.values() if state != "finished"]
        if rest:
            counts = ", ".join(f"{rest.count(state)} {state}" for state in dict.fromkeys(rest))
            print(f"{experiment.plan.name}: {len(states)} runs, of them {counts}")
    for line in outdated_methods(run for one in made.experiments for run in one.runs):
        print(f"outdated: {line}; a new sweep runs them again")
    folders: dict[Path, dict[str, None]] = {}
    for path in made.written:
        name = path.name if path.suffix == ".html" else path.stem.removesuffix("-page")
        folders.setdefault(path.parent, {})[name] = None
    for folder, names in folders.items():
        print(f"written to {folder}: {', '.join(names)}")
    if made.removed:
        print(f"removed {len(made.removed)} files of an earlier report that this one does not have")
