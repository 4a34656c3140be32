"""`pflbench sweep`: experiments to runs, where they are done, and how they ended."""

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pflbench.cli import asked, console, options
from pflbench.cli.interrupt import exit_code, sigterm_as_ctrl_c
from pflbench.cli.machine import cores, launcher
from pflbench.errors import RunFailed, UserError

if TYPE_CHECKING:
    from pflbench.records.plan import Plan, Planned
    from pflbench.sweep.scheduler import Sweep
    from pflbench.trackers.live import Live

Experiments = Annotated[
    list[str] | None, typer.Argument(help="Names of 'pflbench experiments', or FILE.toml.")
]


@options.added(options.EXPERIMENT, before="scale")
def sweep(
    ctx: typer.Context,
    experiments: Experiments = None,
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
    strict: options.Strict = False,
    dry_run: options.DryRun = False,
    probe: options.Probe = True,
    data_root: options.DataRoot = None,
    checkpoint_every: options.CheckpointEvery = 10,
    state_memory: options.StateMemory = 2.0,
    track: options.Track = None,
    save_models: options.SaveModels = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Many runs: methods x scenarios x seeds. Finished runs stay; the same command goes on with the
    rest.
    """
    if on == "local" and not dry_run:
        from pflbench.simulation import fork_server

        fork_server.prepare()  # it loads torch while this process does
    from pflbench.sweep import experiment

    plans = [
        experiment.make(one.name, one.table, scale, one.command)
        for one in asked.experiments(ctx, experiments or [])
    ]
    runs = _chosen(plans, only or [], exclude or [])
    if dry_run:
        from pflbench.cli.dry_run import show

        return show(plans, runs, out, keep_outdated, jobs or cores(), probe, data_root, as_json)
    from pflbench.data import datasets as data
    from pflbench.sweep.scheduler import Sweep
    from pflbench.trackers.live import Live

    trackers = Live(track or [], out.absolute())
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
        save_models=save_models,
        strict=strict,
        retry_failed=retry_failed,
        keep_outdated=keep_outdated,
    )
    _note_left_out(plans, out)
    made.open()  # before the plans: a sweep that is refused leaves none
    for plan in plans:
        plan.write(out)
    if not as_json:
        _tell_outdated(made)
    if save_models:
        _note_no_models(made)
    with trackers:
        _run(made, trackers, quiet or as_json)
    _tell(made, out, as_json)


def _chosen(plans: "list[Plan]", only: list[str], exclude: list[str]) -> "dict[str, Planned]":
    """The runs that --only and --exclude leave, each once."""
    from pflbench.sweep import experiment

    experiment.check_only([run for plan in plans for run in plan.runs], only)
    runs: dict[str, Planned] = {}
    for plan in plans:
        left = {run.id for run in experiment.chosen(plan.runs, only, exclude)}
        runs |= {id: run for id, run in plan.unique().items() if id in left}
    if not runs:
        raise UserError("--only and --exclude leave no run")
    return runs


def _note_left_out(plans: "list[Plan]", out: Path) -> None:
    """Say which experiments of the folder had runs that they no longer have."""
    from pflbench.records import plan
    from pflbench.records.status import stem_of

    with contextlib.suppress(UserError):  # of a plan that cannot be read, and is replaced
        before = {one.name: {stem_of(run.id) for run in one.runs} for one in plan.read(out)}
        for one in plans:
            gone = before.get(one.name, set()) - {stem_of(run.id) for run in one.runs}
            if gone:
                console.say(
                    "note",
                    f"{len(gone)} runs are no longer in experiment {one.name}; --only runs a part"
                    " of an experiment, --name makes another one",
                )


def _tell_outdated(made: "Sweep") -> None:
    from pflbench.records.status import outdated_methods

    then = (
        "they are kept" if made.keep_outdated else "they are run again, --keep-outdated keeps them"
    )
    for line in outdated_methods(made.outdated.values()):
        print(f"outdated: {line}; {then}", flush=True)


def _note_no_models(made: "Sweep") -> None:
    """Say how many runs were finished before they were asked to keep their models."""
    from pflbench.records import models

    finished = [run for run, state in made.ended.items() if state == "finished"]
    without = [run for run in finished if not models.name_in(made.folder / run)]
    if without:
        console.say(
            "note", f"{len(without)} runs were finished without --save-models and have no models"
        )


def _run(made: "Sweep", trackers: "Live", quiet: bool) -> None:
    """Sweep, with its progress on the screen and in trackers; Ctrl-C and SIGTERM let every run save
    a checkpoint.
    """
    from pflbench.sweep.progress import make_progress

    with sigterm_as_ctrl_c(), make_progress(quiet) as progress:

        def watch(sweep: "Sweep", ended: str | None) -> None:
            progress.watch(sweep, ended)
            trackers.see(sweep.held, ended)

        made.watch = watch
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
