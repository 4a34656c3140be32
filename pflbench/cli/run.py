"""`pflbench run`: options to a run, its progress and its end."""

import dataclasses
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pflbench.cli import console, options
from pflbench.errors import RunFailed, UserError

if TYPE_CHECKING:
    from pflbench.simulation.client_worker import Setup


class Terminated(KeyboardInterrupt):
    """SIGTERM, treated as Ctrl-C: a checkpoint is written."""


def run(
    ctx: typer.Context,
    algorithm: Annotated[
        str | None,
        typer.Argument(
            help="A name of 'pflbench algorithms', or a plugin's path.", show_default=False
        ),
    ] = None,
    dataset: options.Dataset = None,
    partition: options.Partition = None,
    clients: options.Clients = None,
    rounds: options.Rounds = None,
    seed: options.Seed = None,
    participation: options.Participation = None,
    eval_every: options.EvalEvery = None,
    evaluate_clients: options.EvaluateClients = None,
    model: options.Network = None,
    width: options.Width = None,
    head_layers: options.HeadLayers = None,
    hparams: options.Hyperparameters = None,
    config: options.ConfigFile = None,
    plugin: options.Plugin = None,
    partition_seed: options.PartitionSeed = None,
    samples_per_client: options.SamplesPerClient = None,
    overlap: options.Overlap = None,
    max_samples: options.MaxSamples = None,
    data_fraction: options.DataFraction = None,
    scarce_clients: options.ScarceClients = None,
    min_samples: options.MinSamples = None,
    test_fraction: options.TestFraction = None,
    validation: options.Validation = None,
    representations: options.Representations = None,
    workers: options.Workers = None,
    device: options.Device = "cpu",
    data_root: options.DataRoot = None,
    out: options.RunsFolder = Path("results/runs"),
    checkpoint_every: options.CheckpointEvery = 10,
    state_memory: options.StateMemory = 2.0,
    fresh: options.Fresh = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """One run of a method. The same command again resumes it, or shows its result if it is finished."""
    folder = None
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        setup = _setup(
            ctx, _method(algorithm, plugin, config), config, hparams or [], data_root, device
        )
        folder = out / setup.run.id
        how = {
            "workers": workers or min(cores(), setup.run.cohort_size),
            "checkpoint_every": checkpoint_every,
        }
        begun = _execute(
            setup, out, quiet=quiet or as_json, fresh=fresh, state_memory=state_memory, **how
        )
    except KeyboardInterrupt as stop:
        _stopped(folder)
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
    except RunFailed as failure:
        raise _failed(failure, folder) from failure
    finally:
        signal.signal(signal.SIGTERM, before)
    _tell(folder, begun, as_json)


def settings_of(ctx: typer.Context) -> dict[str, Any]:
    """The settings of a run among a command's options, those that were given."""
    from pflbench.config import Run

    names = {field.name for field in dataclasses.fields(Run)} - {"algorithm", "hparams"}
    return {
        name: value for name, value in ctx.params.items() if name in names and value is not None
    }


def terminate(number: int, frame: object) -> None:
    raise Terminated


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _method(name: str | None, plugin: Path | None, file: Path | None) -> str:
    """What registry.load takes: the plugin's path, or the method's name from the command or the file."""
    from pflbench import config
    from pflbench.methods import registry

    if name is None and file is not None:
        name = config.from_toml(file)[0].get("algorithm")
    if plugin is not None:
        if plugin.suffix != ".py":
            raise UserError(f"--plugin {plugin}: must be a Python file, PATH.py")
        found = registry.name_of(registry.load(str(plugin)))
        if name is not None and registry.plain(str(name)) != registry.plain(found):
            raise UserError(f"plugin {plugin} is the method {found!r}, not {name!r}")
        return str(plugin)
    if name is None:
        raise UserError(f"no algorithm is named; known: {', '.join(registry.names())}")
    return str(name)


def _setup(
    ctx: typer.Context,
    method: str,
    file: Path | None,
    pairs: list[str],
    data_root: Path | None,
    device: str,
) -> "Setup":
    from pflbench import config
    from pflbench.simulation import runner as rounds

    settings, hparams = config.from_toml(file) if file else ({}, {})
    settings.pop("algorithm", None)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--set {pair}: must be NAME=VALUE, as in --set lr=0.1")
        hparams[name.strip()] = value.strip()
    return rounds.prepare(
        config.make(method, {**settings, **settings_of(ctx)}, hparams), method, data_root, device
    )


def _execute(setup: "Setup", out: Path, *, quiet: bool, **how: Any) -> bool:
    """Do the run; False if it was finished already."""
    from pflbench.records import run_folder
    from pflbench.simulation import runner as rounds

    folder = out / setup.run.id
    with console.progress(setup.run.rounds, setup.algorithm().evaluation_point, quiet) as progress:

        def started(done: int) -> None:
            progress.start(done, run_folder.rounds(folder))

        rounds.execute(setup, out, started=started, watch=progress.watch, **how)
    return progress.begun


def _stopped(folder: Path | None) -> None:
    said = "stopped before it began; the same command goes on"
    if folder is not None:  # else an import may have been broken off, and cannot be repeated
        from pflbench.records import run_folder

        done = run_folder.read_json(folder / "status.json").get("round", 0)
        said = f"stopped after round {done}; the same command resumes"
        if not done:
            said = "stopped before the end of the first round; the same command starts again"
    print(said, file=sys.stderr)


def _failed(failure: RunFailed, folder: Path | None) -> RunFailed:
    """The failure with the file that its traceback is in."""
    from pflbench.records import run_folder

    kept = folder is not None and "details" in run_folder.read_json(folder / "status.json")
    return RunFailed(f"{failure}; its traceback is in {folder}/status.json") if kept else failure


def _tell(folder: Path, begun: bool, as_json: bool) -> None:
    """The result of a run on one line, or as JSON."""
    from pflbench.report import summary
    from pflbench.report.load import runs

    row = summary.row(runs.stray(folder, runs.Choice()))
    if as_json:
        console.dump(row)
    elif row["status"] == "finished":
        print(summary.line(row) if begun else f"already finished: {summary.line(row)}")
    if row["status"] == "diverged":
        console.say(
            "error", f"{row['method']} diverged: {row['reason']}; its records are in {folder}"
        )
        raise typer.Exit(1)
