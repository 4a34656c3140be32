"""`pflbench sweep`: experiments to runs, where they are done, and how they ended."""

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pflbench.cli import asked, console, options
from pflbench.cli.interrupt import exit_code, sigterm_as_ctrl_c
from pflbench.errors import RunFailed, UserError
from pflbench.output import plural
from pflbench.sweep.launchers.machine import cores, launcher

if TYPE_CHECKING:
    from pflbench.records.plan import Plan
    from pflbench.sweep.scheduler import Sweep
    from pflbench.trackers.live import Live

Experiments = Annotated[
    list[str] | None,
    typer.Argument(help="Experiments listed by 'pflbench experiments', or FILE.toml."),
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
    """Run methods x scenarios x seeds. The same command resumes an unfinished sweep."""
    if on == "local" and not dry_run:
        from pflbench.simulation import fork_server

        fork_server.prepare()  # it loads torch while this process does
    from pflbench.interface import many_runs
    from pflbench.sweep import experiment
    from pflbench.trackers.live import Live

    plans = [
        experiment.make(one.name, one.table, scale, one.command, data_root)
        for one in asked.experiments(ctx, experiments or [])
    ]
    runs = many_runs.chosen(plans, only or [], exclude or [])
    if dry_run:
        from pflbench.cli.dry_run import show

        return show(plans, runs, out, keep_outdated, jobs or cores(), probe, data_root, as_json)
    trackers = Live(track or [], out.absolute())
    left_out = _left_out(plans, out)
    made = many_runs.opened(
        plans,
        runs,
        out,
        launcher(on, address, jobs, device, runs_per_gpu),
        scale,
        data_root,
        checkpoint_every=checkpoint_every,
        state_memory=state_memory,
        save_models=save_models,
        strict=strict,
        retry_failed=retry_failed,
        keep_outdated=keep_outdated,
    )
    for line in left_out:
        console.say("note", line)
    if not as_json:
        _tell_outdated(made)
    if save_models:
        _note_no_models(made)
    _run(made, trackers, quiet or as_json)
    _tell(made, out, as_json)


def _left_out(plans: "list[Plan]", out: Path) -> list[str]:
    """Which experiments of the folder have runs that they will no longer have."""
    from pflbench.records import plan
    from pflbench.records.status import stem_of

    said = []
    with contextlib.suppress(UserError):  # of a plan that cannot be read, and is replaced
        before = {one.name: {stem_of(run.id) for run in one.runs} for one in plan.read(out)}
        for one in plans:
            gone = before.get(one.name, set()) - {stem_of(run.id) for run in one.runs}
            if gone:
                which = "1 run is" if len(gone) == 1 else f"{len(gone)} runs are"
                said.append(
                    f"{which} no longer part of experiment {one.name}; --only runs a part of an"
                    " experiment, --name makes a new one"
                )
    return said


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
            "note", f"{len(without)} runs finished without --save-models and have no models"
        )


def _run(made: "Sweep", trackers: "Live", quiet: bool) -> None:
    """Sweep, with its progress on the screen and in trackers; Ctrl-C and SIGTERM let every run save
    a checkpoint.
    """
    from pflbench.interface import many_runs

    with sigterm_as_ctrl_c():
        try:
            many_runs.work(made, trackers, quiet=quiet)
        except KeyboardInterrupt as stop:
            left = sum(made.ended.get(run, "stopped") == "stopped" for run in made.runs)
            print(
                f"stopped; {left} of {len(made.runs)} runs are left, the same command continues",
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
        print(f"{plural(len(made.runs), 'run')}: {words}; records in {out}")
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
