"""`pflbench tune`: the hyperparameters of methods, with the same number of trials for all, on validation samples."""

import dataclasses
import shlex
import signal
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pflbench.cli import console, options
from pflbench.cli.run import Terminated, cores, terminate
from pflbench.errors import RunFailed, UserError

if TYPE_CHECKING:
    from pflbench.records.plan import Plan, Planned
    from pflbench.sweep.experiment import Table
    from pflbench.sweep.launchers.task import Launcher
    from pflbench.sweep.scheduler import Sweep
    from pflbench.sweep.tuning import Study

TRIALS = 20  # where nothing is said

Name = Annotated[
    str,
    typer.Argument(help="A name of 'pflbench experiments', or FILE.toml.", metavar="EXPERIMENT"),
]
Out = Annotated[
    Path, typer.Option(help="Folder of the trials, tuned.toml and tuning.md.", metavar="FOLDER")
]
Trials = Annotated[
    int | None, typer.Option(help="Trials of each method in each setting. [20]", metavar="N", min=1)
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods", "--algorithms", help="Methods in place of the experiment's.", metavar="NAMES"
    ),
]
Searched = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        help="Hyperparameters in place of lr and the method's own rates and weights; 'default' are those.",
        metavar="NAMES",
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        help="Values to try, and nothing else, in place of a search: lr=0.01,0.1; several make a grid.",
        metavar="NAME=VALUES",
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option("--seed", help="Tuning seed; may be repeated. [1000]", metavar="N", min=0),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show what is searched, and the time it will take.")
]


def tune(
    name: Name,
    out: Out = Path("results/tuning"),
    trials: Trials = None,
    methods: Methods = None,
    only: options.Only = None,
    searched: Searched = None,
    grid: Grid = None,
    seed: Seeds = None,
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
    """Tune methods on validation samples. What is done stays done; the same command goes on with the rest."""
    from pflbench.sweep import experiment, search_space
    from pflbench.sweep import tuning as tune

    table = experiment.read(name)
    if methods:
        table["algorithms"] = experiment.listed(",".join(methods))
    if grid and (trials or searched):
        raise UserError("--grid says what is tried: leave out --tune and --trials")
    asked = experiment.listed(",".join(searched or [])) or [search_space.RULE]
    found = tune.studies(
        Path(name).stem, table, scale, seed or [tune.SEED], asked, only or [], _grid(grid or [])
    )
    trials = trials or TRIALS
    if dry_run:
        return _dry_run(found, trials, jobs or cores(), probe, data_root, as_json)
    how = {
        "checkpoint_every": checkpoint_every,
        "retry_failed": retry_failed,
        "data_root": data_root,
    }
    plan = _plan(name, table, scale)
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        _work(
            out, plan, found, trials, _launcher(device, jobs, runs_per_gpu), quiet or as_json, how
        )
    except KeyboardInterrupt as stop:
        ended, every = (
            sum(len(study.scores) for study in found),
            sum(study.budget(trials) for study in found),
        )
        print(
            f"stopped; {ended} of {every} trials are scored, the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    _tell(out, table, found, as_json)


def _grid(pairs: "Sequence[str]") -> dict[str, list[str]]:
    """NAME=VALUE,VALUE as a table of texts."""
    values = {name: text.split(",") for name, _, text in (pair.partition("=") for pair in pairs)}
    if len(values) < len(pairs) or not all(all(texts) for texts in values.values()):
        raise UserError(
            f"--grid {' --grid '.join(pairs)}: must be NAME=VALUES, each name once, as in --grid lr=0.01,0.1"
        )
    return values


def _plan(name: str, table: "Table", scale: str) -> "Plan":
    """The plan without its runs: they are known as the search goes on."""
    from pflbench.records.plan import Plan

    called = "-".join([Path(name).stem, "tuning", *([] if scale == "paper" else [scale])])
    return Plan(
        called,
        f"{table.get('title', name)}: tuning",
        scale,
        shlex.join(["pflbench", *sys.argv[1:]]),
        (),
    )


def _launcher(device: str, jobs: int | None, runs_per_gpu: int) -> "Launcher":
    from pflbench.sweep.launchers.local import Local, devices

    return Local(devices(device, jobs or cores(), runs_per_gpu, limit=jobs))


def _work(
    out: Path,
    plan: "Plan",
    found: "Sequence[Study]",
    trials: int,
    where: "Launcher",
    quiet: bool,
    how: Mapping[str, Any],
) -> None:
    """One sweep that is given more runs whenever a study goes on; its plan has all runs so far, for `status`."""
    from pflbench.data import datasets
    from pflbench.sweep import tuning as tune
    from pflbench.sweep.scheduler import Sweep

    for dataset in sorted({study.first[0].config["dataset"] for study in found}):
        datasets.load(
            dataset, how["data_root"]
        )  # a data set that is not there is missed now, not in every run

    def frontier() -> "dict[str, Planned]":
        before = sum(len(study.trials) for study in found)
        runs = tune.frontier(out, found, trials)
        if sum(len(study.trials) for study in found) > before:
            begun = tuple(run for study in found for trial in study.trials for run in trial.runs)
            dataclasses.replace(plan, runs=begun).write(out)
        return runs

    def watch(sweep: "Sweep", ended: str | None) -> None:
        if ended is not None:
            sweep.add(frontier())
            if not quiet:
                _say(sweep, ended)

    runs = frontier()
    options = {**how, "data_root": datasets.data_root(how["data_root"])}
    Sweep(out.absolute(), runs, where, plan.scale, watch=watch, **options).run()


def _say(sweep: "Sweep", ended: str) -> None:
    """A line for a run that has ended, with what the search is told of it: never an accuracy on test samples."""
    from pflbench.sweep import tuning as tune

    how, run = sweep.ended[ended], sweep.runs[ended]
    what = str(sweep.ledger.status(ended).get("reason", ""))
    if how == "finished":
        what = f"{100 * tune.accuracy(sweep.folder, run):.2f} % (validation)"
    print(": ".join(filter(None, [how, run.name, what])), flush=True)


def _tell(out: Path, table: "Table", found: "Sequence[Study]", as_json: bool) -> None:
    """What was found; a failure ends the command with exit code 1, and there is no tuned.toml of unequal trials."""
    from pflbench.records.leases import Leases
    from pflbench.sweep import tuning as tune

    written = tune.write(out, table, found)
    rows = tune.rows(found)
    if as_json:
        console.dump({"rows": rows, "written": [str(path) for path in written]})
    else:
        console.table([*rows[0]], map(tune.cells, rows))
        print(textwrap.fill(tune.caption(found), 110))
        print(f"written to {out}: {', '.join(path.name for path in written)}")
    for run in (run for study in found for run in (*study.diverged, *study.unfinished)):
        status = Leases(out).status(run.id)
        where = (
            f"; its traceback is in {out / run.id / 'status.json'}" if "details" in status else ""
        )
        console.say(
            status.get("status", "stopped"),
            f"{run.name}: {status.get('reason', 'no reason known')}{where}",
        )
    if broken := sum(bool(study.unfinished) for study in found):
        advice = "when it is mended, give the command with --retry-failed"
        raise RunFailed(
            f"{broken} of {len(found)} searches could not go on, so nothing is tuned; {advice}"
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
    runs = sum(study.budget(trials) * len(study.first) for study in found)
    seconds, why = _estimate(found, trials, data_root) if probe else (None, "")
    rows = [
        {
            "method": study.method.title,
            "setting": study.setting,
            "hyperparameter": one.name,
            "first": one.first,
        }
        | {"searched": one.words}
        for study in found
        for one in study.dimensions
    ]
    if as_json:
        console.dump({"rows": rows, "runs": runs, "seconds": seconds})
        return
    shown = dict.fromkeys(
        tuple(str(value) for name, value in row.items() if name != "setting") for row in rows
    )
    console.table([name for name in rows[0] if name != "setting"], shown)
    settings = len({study.setting for study in found})
    budgets = sorted({study.budget(trials) for study in found})
    parts = [
        f"{len(found) // settings} methods",
        f"{settings} settings",
        f"{' or '.join(map(str, budgets))} trials",
    ]
    parts += [f"{len(found[0].first)} seeds"] if len(found[0].first) > 1 else []
    print(f"{' x '.join(parts)}: {runs} runs")
    if seconds is not None:
        print(
            f"about {console.duration(seconds / jobs)} with {jobs} jobs, from one round of each method here"
        )
    elif why:
        print(f"no estimate of the time: {why}")


def _estimate(
    found: "Sequence[Study]", trials: int, data_root: Path | None
) -> tuple[float | None, str]:
    """Seconds of all trials on one core, or why they are not known."""
    from pflbench.sweep import estimate

    try:
        runs = [(run, study.budget(trials)) for study in found for run in study.first]
        cost = estimate.seconds_per_round([run for run, _ in runs], data_root)
        return sum(cost[run.id] * run.config["rounds"] * times for run, times in runs), ""
    except (UserError, RunFailed) as error:
        return None, str(error)
