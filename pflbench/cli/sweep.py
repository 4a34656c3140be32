"""`pflbench sweep`: experiments to runs, where they are done, and how they ended."""

import dataclasses
import hashlib
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pflbench.cli import console, options
from pflbench.cli.interrupt import exit_code, sigterm_as_ctrl_c
from pflbench.cli.machine import cores, launcher
from pflbench.errors import RunFailed, UserError

if TYPE_CHECKING:
    from pflbench.records.plan import Plan, Planned
    from pflbench.sweep.scheduler import Sweep

Experiments = Annotated[
    list[str] | None, typer.Argument(help="Names of 'pflbench experiments', or FILE.toml.")
]


def sweep(
    ctx: typer.Context,
    names: Experiments = None,
    algorithms: options.Algorithms = None,
    datasets: options.Datasets = None,
    partitions: options.Partitions = None,
    seeds: options.Seeds = None,
    clients: options.Clients = None,
    rounds: options.Rounds = None,
    participation: options.Participation = None,
    eval_every: options.EvalEvery = None,
    evaluate_clients: options.EvaluateClients = None,
    max_samples: options.MaxSamples = None,
    hparams: options.SweepHyperparameters = None,
    scale: options.Scale = "paper",
    only: options.Only = None,
    exclude: options.Exclude = None,
    out: options.RunsFolder = Path("results/runs"),
    jobs: options.Jobs = None,
    on: options.On = "local",
    address: options.Address = None,
    device: options.Device = "cpu",
    runs_per_gpu: options.RunsPerGpu = 1,
    retry_failed: options.RetryFailed = False,
    keep_outdated: options.KeepOutdated = False,
    dry_run: options.DryRun = False,
    probe: options.Probe = True,
    data_root: options.DataRoot = None,
    checkpoint_every: options.CheckpointEvery = 10,
    state_memory: options.StateMemory = 2.0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Many runs: methods x scenarios x seeds. Finished runs stay; the same command goes on with the
    rest.
    """
    plans = _plans(ctx, names or [], scale)
    runs = _chosen(plans, only or [], exclude or [])
    if dry_run:
        from pflbench.cli.dry_run import show

        return show(plans, runs, out, keep_outdated, jobs or cores(), probe, data_root, as_json)
    from pflbench.data import datasets as data
    from pflbench.sweep.scheduler import Sweep

    specs = sorted({planned.run.dataset for planned in runs.values()})
    loaded = {spec: data.load(spec, data_root) for spec in specs}
    made = Sweep(
        out.absolute(),
        runs,
        loaded,
        launcher(on, address, jobs, device, runs_per_gpu),
        scale,
        checkpoint_every=checkpoint_every,
        state_memory=state_memory,
        retry_failed=retry_failed,
        keep_outdated=keep_outdated,
    )
    for plan in plans:
        plan.write(out)
    made.open()
    if not as_json:
        _tell_outdated(made)
    _run(made, quiet or as_json)
    _tell(made, out, as_json)


def _plans(ctx: typer.Context, names: list[str], scale: str) -> "list[Plan]":
    """The plans of the experiments named, or of the grid that the options make; options override a
    file.
    """
    from pflbench.records.status import stem_of
    from pflbench.sweep import experiment

    given = _table(ctx)
    if not names and "algorithms" not in given:
        raise UserError(
            "name an experiment, or --algorithms for a grid;"
            " pflbench experiments lists what there is"
        )
    command = shlex.join(["pflbench", *sys.argv[1:]])
    stems = [Path(name).stem for name in names]
    if len({*stems}) < len(stems):
        raise UserError(f"two experiments of one name: {', '.join(names)}; rename a file")
    if names:
        tables = {
            stem: experiment.overridden(experiment.read(name), given)
            for stem, name in zip(stems, names, strict=True)
        }
        return [experiment.make(stem, table, scale, command) for stem, table in tables.items()]
    grid = experiment.make("grid", given, scale, command)
    ids = " ".join(sorted(stem_of(run.id) for run in grid.runs))
    label = f"grid-{hashlib.sha256(ids.encode()).hexdigest()[:6]}"
    return [dataclasses.replace(grid, name=label, title=command)]


def _table(ctx: typer.Context) -> dict[str, Any]:
    """The options as keys of an experiment."""
    from pflbench.sweep import experiment

    table = options.settings_of(ctx)
    lists = {}
    for name in ("algorithms", "datasets", "partitions", "seeds"):
        if ctx.params[name]:
            lists[name] = experiment.listed(",".join(ctx.params[name]))
    if "algorithms" in lists:
        table["algorithms"] = lists["algorithms"]
    if "seeds" in lists:
        table["seeds"] = _seeds(lists["seeds"])
    data = {"dataset": "datasets", "partition": "partitions"}
    scenario = {key: lists[name] for key, name in data.items() if name in lists}
    if scenario:
        table["scenarios"] = [scenario]
    for pair in ctx.params["hparams"] or []:
        _add_hyperparameter(table, pair)
    return table


def _add_hyperparameter(table: dict[str, Any], pair: str) -> None:
    name, equals, value = pair.partition("=")
    if not equals:
        raise UserError(
            f"--set {pair}: must be NAME=VALUE or METHOD.NAME=VALUE, as in --set fedprox.mu=0.1"
        )
    method, _, name = name.strip().rpartition(".")
    where = table.setdefault("methods", {}).setdefault(method, {}) if method else table
    where.setdefault("hparams", {})[name] = value.strip()


def _seeds(texts: list[str]) -> int | list[int]:
    if not all(text.isdecimal() for text in texts):
        raise UserError(f"--seeds {','.join(texts)}: must be a number of seeds, or a list as 0,1,2")
    return int(texts[0]) if len(texts) == 1 else [int(text) for text in texts]


def _chosen(plans: "list[Plan]", only: list[str], exclude: list[str]) -> "dict[str, Planned]":
    """The runs that --only and --exclude leave, each once."""
    from pflbench.sweep import experiment

    runs: dict[str, Planned] = {}
    for plan in plans:
        left = {run.id for run in experiment.chosen(plan.runs, only, exclude)}
        runs |= {id: run for id, run in plan.unique().items() if id in left}
    if not runs:
        raise UserError("--only and --exclude leave no run")
    return runs


def _tell_outdated(made: "Sweep") -> None:
    from pflbench.records.status import outdated_methods

    then = (
        "they are kept" if made.keep_outdated else "they are run again, --keep-outdated keeps them"
    )
    for line in outdated_methods(made.outdated.values()):
        print(f"outdated: {line}; {then}", flush=True)


def _run(made: "Sweep", quiet: bool) -> None:
    """Sweep, with its progress on the screen; Ctrl-C and SIGTERM let every run save a
    checkpoint.
    """
    from pflbench.sweep.progress import make_progress

    with sigterm_as_ctrl_c(), make_progress(quiet) as progress:
        made.watch = progress.watch
        try:
            made.run()
        except KeyboardInterrupt as stop:
            progress.close()
            left = sum(made.ended.get(run, "stopped") == "stopped" for run in made.runs)
            print(
                f"stopped; {left} of {len(made.runs)} runs are left, the same command goes on",
                file=sys.stderr,
            )
            raise exit_code(stop) from None


def _tell(made: "Sweep", out: Path, as_json: bool) -> None:
    """How the runs ended; a failure ends the command with exit code 1."""
    from pflbench.records import status

    states = (*status.STATES, "stopped")
    counts = Counter(made.ended.values())
    if as_json:
        outdated = {id: run.version for id, run in made.outdated.items()}
        console.dump({"folder": str(out), "runs": made.ended, "outdated": outdated})
    else:
        words = ", ".join(f"{counts[state]} {state}" for state in states if counts[state])
        print(f"{len(made.runs)} runs: {words}; records in {out}")
    for run, state in made.ended.items():
        if state not in ("finished", "outdated"):
            end = made.leases.status(run)
            path = out / run / "status.json"
            where = f"; its traceback is in {path}" if "details" in end else ""
            reason = end.get("reason", "the same command resumes it")
            console.say(state, f"{made.runs[run].name}: {reason}{where}")
    if counts["failed"]:
        retry = "" if made.retry_failed else "; --retry-failed runs them again"
        raise RunFailed(f"{counts['failed']} of {len(made.runs)} runs failed{retry}")
    if counts["stopped"]:
        stopped = f"{counts['stopped']} of {len(made.runs)} runs were stopped"
        raise RunFailed(f"{stopped}; the same command resumes them")
