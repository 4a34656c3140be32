"""`pflbench tune`: the hyperparameters of methods, with the same number of trials for all, on
validation samples.
"""

import dataclasses
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pflbench.cli import asked, console, options
from pflbench.cli.interrupt import exit_code, sigterm_as_ctrl_c
from pflbench.errors import RunFailed, UserError
from pflbench.output import plural
from pflbench.sweep.launchers.machine import cores, local_launcher

if TYPE_CHECKING:
    from pflbench.records.plan import Plan, Planned
    from pflbench.sweep.asked import Asked
    from pflbench.sweep.experiment import Table
    from pflbench.sweep.scheduler import Sweep
    from pflbench.sweep.tuning import Study

TRIALS = 20  # where nothing is said
PARTS = ("trials", "searched", "grid", "tuning_seeds", "only", "exclude")  # of the command

Experiment = Annotated[
    str | None,
    typer.Argument(
        help="An experiment listed by 'pflbench experiments', or FILE.toml.", show_default=False
    ),
]
Out = Annotated[
    Path, typer.Option(help="Folder of the trials, tuned.toml and tuning.md.", metavar="FOLDER")
]
Trials = Annotated[
    int | None,
    typer.Option(help="Trials of each method in each scenario. [20]", metavar="N", min=1),
]
Searched = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        help="Hyperparameters to tune; 'default' is lr and the method's own rates and weights.",
        metavar="NAMES",
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        help="Values to try instead of a search, e.g. lr=0.01,0.1 or fedprox.mu=0.1,1;"
        " several make a grid.",
        metavar="NAME=VALUES",
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option(
        "--seed",
        help="Seed of the trials, not one of the experiment; may be repeated. [1000]",
        metavar="N",
        min=0,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only show what is searched, with the time that it will take."),
]


@options.added(options.EXPERIMENT, before="out")
def tune(
    ctx: typer.Context,
    experiment: Experiment = None,
    out: Out = Path("results/tuning"),
    trials: Trials = None,
    searched: Searched = None,
    grid: Grid = None,
    tuning_seeds: Seeds = None,
    only: options.Only = None,
    exclude: options.Exclude = None,
    scale: options.Scale = "paper",
    jobs: options.Jobs = None,
    device: options.Device = "cpu",
    runs_per_gpu: options.RunsPerGpu = 1,
    retry_failed: options.RetryFailed = False,
    dry_run: DryRun = False,
    probe: options.Probe = True,
    data_root: options.DataRoot = None,
    checkpoint_every: options.CheckpointEvery = 10,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Tune hyperparameters on validation samples. The same command resumes an unfinished search."""
    from pflbench.data import datasets
    from pflbench.sweep.scheduler import Sweep

    if grid and (trials or searched):
        raise UserError("--grid names all values to try; leave out --tune and --trials")
    (one,) = asked.experiments(ctx, [experiment] if experiment else [], PARTS)
    found = _studies(ctx, one, scale)
    trials = trials or TRIALS
    if dry_run:
        return _dry_run(found, trials, jobs or cores(), probe, data_root, as_json)
    specs = sorted({study.first[0].run.dataset for study in found})
    sweep = Sweep(
        out.absolute(),
        {},
        {spec: datasets.load(spec, data_root) for spec in specs},
        local_launcher(jobs, device, runs_per_gpu),
        scale,
        checkpoint_every=checkpoint_every,
        retry_failed=retry_failed,
    )
    try:
        with sigterm_as_ctrl_c():
            _search(sweep, _plan(one, scale), found, trials, quiet or as_json)
    except KeyboardInterrupt as stop:
        ended = sum(len(study.scores) for study in found)
        every = sum(study.budget(trials) for study in found)
        print(
            f"stopped; {ended} of {every} trials have ended, the same command continues",
            file=sys.stderr,
        )
        raise exit_code(stop) from None
    _tell(out, one.table, found, as_json)


def _studies(ctx: typer.Context, one: "Asked", scale: str) -> "list[Study]":
    """The searches that the options ask for."""
    from pflbench.sweep import experiment, search_space, tuning

    given = ctx.params
    return tuning.studies(
        one.name,
        one.table,
        scale,
        given["tuning_seeds"] or [tuning.SEED],
        experiment.listed(",".join(given["searched"] or [])) or [search_space.RULE],
        given["only"] or [],
        given["exclude"] or [],
        _grid(given["grid"] or []),
        given["data_root"],
    )


def _grid(pairs: "Sequence[str]") -> dict[str, list[str]]:
    """NAME=VALUE,VALUE as a table of texts."""
    values = {name: text.split(",") for name, _, text in (pair.partition("=") for pair in pairs)}
    if len(values) < len(pairs) or not all(all(texts) for texts in values.values()):
        raise UserError(
            f"--grid {' --grid '.join(pairs)}: must be NAME=VALUES or METHOD.NAME=VALUES, each name"
            " once, as in --grid lr=0.01,0.1"
        )
    return values


def _plan(one: "Asked", scale: str) -> "Plan":
    """The plan without its runs: they are known as the search goes on."""
    from pflbench.records.plan import Plan

    called = "-".join([one.name, "tuning", *([] if scale == "paper" else [scale])])
    title = f"{one.table.get('title', one.name)}: tuning"
    return Plan(called, title, scale, one.command, ())


def _search(
    sweep: "Sweep", plan: "Plan", found: "Sequence[Study]", trials: int, quiet: bool
) -> None:
    """One sweep that gets more runs whenever a study goes on; its plan has all runs so far, for
    `status`.
    """
    from pflbench.sweep import tuning

    def frontier() -> "dict[str, Planned]":
        before = sum(len(study.trials) for study in found)
        runs = tuning.frontier(sweep.folder, found, trials)
        if sum(len(study.trials) for study in found) > before:
            every = tuple(run for study in found for trial in study.trials for run in trial.runs)
            dataclasses.replace(plan, runs=every).write(sweep.folder)
        return runs

    def watch(sweep: "Sweep", ended: str | None) -> None:
        if ended is not None:
            sweep.add(frontier())
            if not quiet:
                _say(sweep, ended)

    sweep.runs = frontier()
    sweep.watch = watch
    sweep.open()
    sweep.run()


def _say(sweep: "Sweep", ended: str) -> None:
    """A line for a run that has ended, with what the search learns of it: never an accuracy on test
    samples.
    """
    from pflbench.sweep import tuning

    how, run = sweep.ended[ended], sweep.runs[ended]
    what = str(sweep.leases.status(ended).get("reason", ""))
    if how == "finished":
        what = f"{100 * tuning.accuracy(sweep.folder, run):.2f} % (validation)"
    print(": ".join(filter(None, [how, run.name, what])), flush=True)


def _tell(out: Path, table: "Table", found: "Sequence[Study]", as_json: bool) -> None:
    """What was found; a failure ends the command with exit code 1, and there is no tuned.toml of
    unequal trials.
    """
    from pflbench.records.leases import Leases
    from pflbench.sweep import tuning_results

    written = tuning_results.write(out, table, found)
    rows = tuning_results.rows(found)
    if as_json:
        console.dump({"rows": rows, "written": [str(path) for path in written]})
    else:
        console.table([*rows[0]], map(tuning_results.cells, rows))
        for text in filter(None, [tuning_results.caption(found), tuning_results.at_an_end(found)]):
            print(textwrap.fill(text, 110))
        print(f"written to {out}: {', '.join(path.name for path in written)}")
    for run in (run for study in found for run in (*study.diverged, *study.unfinished)):
        status = Leases(out).status(run.id)
        path = out / run.id / "status.json"
        where = f"; its traceback is in {path}" if "details" in status else ""
        reason = status.get("reason", "no reason known")
        console.say(status.get("status", "stopped"), f"{run.name}: {reason}{where}")
    if broken := sum(bool(study.unfinished) for study in found):
        raise RunFailed(
            f"{broken} of {len(found)} searches could not be completed, so nothing is tuned;"
            " --retry-failed runs failed runs again"
        )
    if not as_json:
        print(f"next: pflbench sweep {shlex.quote(str(out / 'tuned.toml'))} --out FOLDER")


def _dry_run(
    found: "Sequence[Study]",
    trials: int,
    jobs: int,
    probe: bool,
    data_root: Path | None,
    as_json: bool,
) -> None:
    """What would be searched, and the time of all trials if they cost as much as the first."""
    from pflbench.cli.dry_run import core_seconds
    from pflbench.records.time_left import duration

    times = {run.id: study.budget(trials) for study in found for run in study.first}
    first = {run.id: run for study in found for run in study.first}
    cost, why = core_seconds(first, data_root) if probe else ({}, "")
    seconds = sum(cost[id] * times[id] for id in first) if cost else None
    rows = _search_rows(found)
    if as_json:
        console.dump({"rows": rows, "runs": sum(times.values()), "seconds": seconds})
        return
    columns = [name for name in rows[0] if name != "scenario"]
    shown = dict.fromkeys(tuple(str(row[name]) for name in columns) for row in rows)
    console.table(columns, shown)
    print(f"{_size(found, trials)}: {plural(sum(times.values()), 'run')}")
    if seconds is not None:
        time = duration(seconds / jobs)
        print(f"about {time} with {plural(jobs, 'job')}, from one round of each method here")
    elif why:
        print(f"no estimate of the time: {why}")


def _search_rows(found: "Sequence[Study]") -> list[dict[str, Any]]:
    """A row for every hyperparameter that is searched."""
    return [
        {
            "method": study.method.title,
            "scenario": study.scenario,
            "hyperparameter": one.name,
            "first": one.first,
            "searched": one.words,
        }
        for study in found
        for one in study.dimensions
    ]


def _size(found: "Sequence[Study]", trials: int) -> str:
    """For a person: "2 methods x 3 scenarios x 20 trials"."""
    scenarios = len({study.scenario for study in found})
    budgets = sorted({study.budget(trials) for study in found})
    parts = [
        plural(len(found) // scenarios, "method"),
        plural(scenarios, "scenario"),
        f"{' or '.join(map(str, budgets))} trials",
    ]
    if len(found[0].first) > 1:
        parts.append(f"{len(found[0].first)} seeds")
    return " x ".join(parts)
