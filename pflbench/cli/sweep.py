"""`pflbench sweep` and `pflbench status`: experiments to runs, where they are done, and how they ended."""

import dataclasses
import hashlib
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pflbench.cli import console, options
from pflbench.cli.run import Terminated, cores, settings_of, terminate
from pflbench.errors import RunFailed, UserError

if TYPE_CHECKING:
    from pflbench.records.plan import Plan, Planned
    from pflbench.sweep.launchers.task import Launcher
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
    dry_run: options.DryRun = False,
    probe: options.Probe = True,
    data_root: options.DataRoot = None,
    checkpoint_every: options.CheckpointEvery = 10,
    state_memory: options.StateMemory = 2.0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Many runs: methods x settings x seeds. What is done stays done; the same command goes on with the rest."""
    from pflbench.data import datasets as data
    from pflbench.sweep import experiment

    plans = _plans(ctx, names or [], scale)
    runs: dict[str, Planned] = {}
    for plan in plans:
        left = {run.id for run in experiment.chosen(plan.runs, only or [], exclude or [])}
        runs |= {id: run for id, run in plan.unique().items() if id in left}
    if not runs:
        raise UserError("no run is left by --only and --exclude")
    if dry_run:
        return _dry_run(plans, runs, out, jobs or cores(), probe, data_root, as_json)
    for dataset in sorted({run.config["dataset"] for run in runs.values()}):
        data.load(
            dataset, data_root
        )  # a data set that is not there is missed now, not in every run
    for plan in plans:
        plan.write(out)
    where = _launcher(on, address, jobs, device, runs_per_gpu)
    done = _work(
        out.absolute(),
        runs,
        where,
        scale,
        quiet=quiet or as_json,
        retry_failed=retry_failed,
        checkpoint_every=checkpoint_every,
        state_memory=state_memory,
        data_root=data.data_root(data_root),
    )
    _tell(done, out, as_json)


def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a sweep.")] = Path("results/runs"),
    as_json: options.Json = False,
) -> None:
    """How far the sweeps of a folder are: done, running, failed and missing runs, and the time left."""
    from pflbench.records import plan
    from pflbench.records import status as standing
    from pflbench.records.leases import Leases

    ledger = Leases(folder)
    plans = plan.read(folder)
    if not plans:
        raise UserError(f"no sweep has been begun in {folder}: it has no plans/")
    leases = ledger.leases()
    found = {
        one.name: [standing.look(ledger, run, leases) for run in one.unique().values()]
        for one in plans
    }
    rows: list[dict[str, Any]] = []
    for one in plans:
        counts = Counter(run.state for run in found[one.name])
        row = {"experiment": one.name, "scale": one.scale, "runs": len(found[one.name])}
        left = standing.left(found[one.name], counts["running"])
        rows.append(
            {**row, **{state: counts[state] for state in standing.STATES}, "seconds_left": left}
        )
    if as_json:
        console.dump(
            {
                "experiments": rows,
                "runs": {name: [_row(run) for run in runs] for name, runs in found.items()},
            }
        )
        return
    headers = [*[*rows[0]][:-1], "left"]
    console.table(headers, [[*[*row.values()][:-1], _time(row["seconds_left"])] for row in rows])
    each = {run.planned.id: run for runs in found.values() for run in runs}
    for run in each.values():
        if run.state == "running":
            print(f"running: {run.planned.name}: round {run.round} of {run.rounds}; {run.owner}")
    for run in each.values():
        if run.reason:
            print(f"{run.state}: {run.planned.name}: {run.reason}")


def experiments(as_json: options.Json = False) -> None:
    """The experiments that come with pflbench: the tables and figures of the FedCoSR paper, and a first look."""
    from pflbench.sweep import experiment

    rows = [
        {"name": name, "title": str(experiment.read(name).get("title", ""))}
        for name in experiment.names()
    ]
    if as_json:
        console.dump(rows)
    else:
        console.table(["name", "title"], [[*row.values()] for row in rows])


def _plans(ctx: typer.Context, names: list[str], scale: str) -> "list[Plan]":
    """The plans of the experiments named, or of the grid that the options make; options override a file."""
    from pflbench.sweep import experiment

    given = _table(ctx)
    if not names and "algorithms" not in given:
        raise UserError(
            "name an experiment, or --algorithms for a grid; pflbench experiments lists what there is"
        )
    command = shlex.join(["pflbench", *sys.argv[1:]])
    stems = [Path(name).stem for name in names]
    if len({*stems}) < len(stems):
        raise UserError(f"two experiments of one name: {', '.join(names)}; rename a file")
    tables = {
        Path(name).stem: experiment.overridden(experiment.read(name), given) for name in names
    } or {"grid": given}
    plans = [experiment.make(name, table, scale, command) for name, table in tables.items()]
    if not names:
        ids = " ".join(sorted(run.id for run in plans[0].runs))
        label = f"grid-{hashlib.sha256(ids.encode()).hexdigest()[:6]}"
        plans = [dataclasses.replace(plans[0], name=label, title=command)]
    return plans


def _table(ctx: typer.Context) -> dict[str, Any]:
    """The options as keys of an experiment."""
    from pflbench.sweep import experiment

    table = settings_of(ctx)
    asked = {
        name: ",".join(ctx.params[name] or [])
        for name in ("algorithms", "datasets", "partitions", "seeds")
    }
    lists = {name: experiment.listed(text) for name, text in asked.items() if text}
    if "algorithms" in lists:
        table["algorithms"] = lists["algorithms"]
    if "seeds" in lists:
        table["seeds"] = _seeds(lists["seeds"])
    axes = {
        key: lists[name]
        for key, name in (("dataset", "datasets"), ("partition", "partitions"))
        if name in lists
    }
    if axes:
        table["settings"] = [axes]
    for pair in ctx.params["hparams"] or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(
                f"--set {pair}: must be NAME=VALUE or METHOD.NAME=VALUE, as in --set fedcosr.alpha=0.5"
            )
        method, _, name = name.strip().rpartition(".")
        place = table.setdefault("methods", {}).setdefault(method, {}) if method else table
        place.setdefault("hparams", {})[name] = value.strip()
    return table


def _seeds(texts: list[str]) -> int | list[int]:
    if not all(text.isdecimal() for text in texts):
        raise UserError(f"--seeds {','.join(texts)}: must be a number of seeds, or a list as 0,1,2")
    return int(texts[0]) if len(texts) == 1 else [int(text) for text in texts]


def _launcher(
    on: str, address: str | None, jobs: int | None, device: str, runs_per_gpu: int
) -> "Launcher":
    if on == "ray":
        from pflbench.sweep.launchers.ray import OnRay

        return OnRay(address, jobs, device, runs_per_gpu)
    if on != "local":
        raise UserError(f"--on {on}: must be local or ray")
    if address is not None:
        raise UserError("--address is the address of a Ray cluster; use it with --on ray")
    from pflbench.sweep.launchers.local import Local, devices

    return Local(devices(device, jobs or cores(), runs_per_gpu, limit=jobs))


def _work(
    folder: Path,
    runs: "Mapping[str, Planned]",
    where: "Launcher",
    scale: str,
    *,
    quiet: bool,
    **how: Any,
) -> "Sweep":
    """Sweep, with its progress on the screen; Ctrl-C and SIGTERM let every run save a checkpoint."""
    from pflbench.sweep.progress import board
    from pflbench.sweep.scheduler import Sweep

    before = signal.signal(signal.SIGTERM, terminate)
    with board(quiet) as told:
        done = Sweep(folder, runs, where, scale, watch=told.watch, **how)
        try:
            done.run()
        except KeyboardInterrupt as stop:
            told.close()
            ended = Counter(done.ended.values())
            left = len(runs) - sum(ended[state] for state in ("finished", "diverged", "failed"))
            print(
                f"stopped; {left} of {len(runs)} runs are left, the same command goes on",
                file=sys.stderr,
            )
            raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
        finally:
            signal.signal(signal.SIGTERM, before)
    return done


def _tell(done: "Sweep", out: Path, as_json: bool) -> None:
    """How the runs ended; a failure ends the command with exit code 1."""
    counts = Counter(done.ended.values())
    if as_json:
        console.dump({"folder": str(out), "runs": done.ended})
    else:
        print(
            f"{len(done.runs)} runs: {', '.join(f'{n} {state}' for state, n in counts.items())}; records in {out}"
        )
    bad = {run: how for run, how in done.ended.items() if how != "finished"}
    for run, how in bad.items():
        status = done.ledger.status(run)
        where = f"; its traceback is in {out / run / 'status.json'}" if "details" in status else ""
        console.say(
            how,
            f"{done.runs[run].name}: {status.get('reason', 'the same command resumes it')}{where}",
        )
    if counts["failed"]:
        retry = (
            "" if done.retry_failed else "; when it is mended, run them again with --retry-failed"
        )
        raise RunFailed(f"{counts['failed']} of {len(done.runs)} runs failed{retry}")
    if counts["stopped"]:
        raise RunFailed(
            f"{counts['stopped']} of {len(done.runs)} runs were stopped; the same command resumes them"
        )


def _dry_run(
    plans: "list[Plan]",
    runs: "Mapping[str, Planned]",
    out: Path,
    jobs: int,
    probe: bool,
    data_root: Path | None,
    as_json: bool,
) -> None:
    """The runs that a sweep would make, and the time that those will take that are not done."""
    from pflbench.records.leases import FINAL, Leases

    ledger = Leases(out)
    todo = {id: run for id, run in runs.items() if ledger.status(id).get("status") not in FINAL}
    seconds, why = _estimate(todo, data_root) if probe and todo else ({}, "")
    cost = {id: seconds[id] * run.config["rounds"] for id, run in todo.items() if id in seconds}
    if as_json:
        listed = [
            {**run.__dict__, "finished": id not in todo, "seconds": cost.get(id)}
            for id, run in runs.items()
        ]
        console.dump({"experiments": [plan.name for plan in plans], "runs": listed})
        return
    for plan in plans:
        mine = {id: run for id, run in plan.unique().items() if id in runs}
        print(f"{plan.name}: {plan.title}")
        places: dict[tuple[str, str], list[str]] = {}
        for run in plan.runs:
            if run.id in mine:
                places.setdefault((run.setting, run.variant), []).append(run.id)
        rows = []
        for (setting, variant), ids in places.items():
            methods = len({mine[id].config["algorithm"] for id in ids})
            number = len({mine[id].config["seed"] for id in ids})
            time = _time(sum(cost[id] for id in ids if id in cost)) if cost else ""
            rows.append(
                [
                    setting,
                    variant,
                    methods,
                    number,
                    len(ids),
                    sum(id not in todo for id in ids),
                    time,
                ]
            )
        console.table(
            ["setting", "variant", "methods", "seeds", "runs", "finished", "core time"], rows
        )
        print(
            f"{len(mine)} runs at scale {plan.scale}, {sum(id not in todo for id in mine)} of them done"
        )
    if cost:
        print(
            f"about {_time(sum(cost.values()) / jobs)} with {jobs} jobs, from one round of each method here"
        )
    elif why:
        print(f"no estimate of the time: {why}")


def _estimate(
    todo: "Mapping[str, Planned]", data_root: Path | None
) -> tuple[Mapping[str, float], str]:
    from pflbench.sweep import estimate

    try:
        return estimate.seconds_per_round(todo.values(), data_root), ""
    except (UserError, RunFailed) as error:
        return {}, str(error)


def _row(run: Any) -> dict[str, Any]:
    shown = {"id": run.planned.id, "name": run.planned.name, "state": run.state, "round": run.round}
    return {
        **shown,
        "rounds": run.rounds,
        "accuracy": run.accuracy,
        "reason": run.reason,
        "owner": run.owner,
    }


def _time(seconds: float | None) -> str:
    return "" if seconds is None else console.duration(seconds)
