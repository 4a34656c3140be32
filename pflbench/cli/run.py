"""`pflbench run`: options to a run, its progress and its end."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pflbench.cli import console, options
from pflbench.cli.interrupt import exit_code, sigterm_as_ctrl_c
from pflbench.errors import RunFailed, UserError
from pflbench.sweep.launchers.machine import cores

if TYPE_CHECKING:
    from pflbench.simulation.client_worker import Setup


@options.added(options.RUN, before="hparams")
def run(
    ctx: typer.Context,
    algorithm: Annotated[
        str | None,
        typer.Argument(
            help="A method listed by 'pflbench algorithms', or the path of your own.",
            show_default=False,
        ),
    ] = None,
    hparams: options.Hyperparameters = None,
    config: options.ConfigFile = None,
    plugin: options.Plugin = None,
    workers: options.Workers = None,
    device: options.Device = "cpu",
    data_root: options.DataRoot = None,
    out: options.RunsFolder = Path("results/runs"),
    checkpoint_every: options.CheckpointEvery = 10,
    state_memory: options.StateMemory = 2.0,
    save_models: options.SaveModels = False,
    fresh: options.Fresh = False,
    strict: options.Strict = False,
    track: options.Track = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run one method once. The same command resumes it, or shows its result."""
    folder = None
    if workers != 1:
        from pflbench.simulation import fork_server

        fork_server.prepare()  # it loads torch while this process does
    try:
        with sigterm_as_ctrl_c():
            from pflbench.interface import one_run

            method = _method(algorithm, plugin, config)
            setup = _setup(ctx, method, config, hparams or [], data_root, device)
            folder = out / setup.run.id
            _note_other_versions(folder, setup.run.version)
            started = one_run.do(
                setup,
                out,
                track=track or [],
                quiet=quiet or as_json,
                workers=workers or min(cores(), setup.run.cohort_size),
                checkpoint_every=checkpoint_every,
                state_memory=state_memory,
                save_models=save_models,
                fresh=fresh,
                strict=strict,
            )
    except KeyboardInterrupt as stop:
        _tell_stopped(folder)
        raise exit_code(stop) from None
    except RunFailed as failure:
        raise _with_traceback(failure, folder) from failure
    _tell(folder, started, as_json)
    if save_models:
        _note_no_models(folder)


def _method(name: str | None, plugin: Path | None, file: Path | None) -> str:
    """What registry.load takes: the plugin's path, or the method's name from the command or the
    file.
    """
    from pflbench import config
    from pflbench.methods import registry
    from pflbench.methods.files import plain

    if name is None and file is not None:
        name = config.from_toml(file)[0].get("algorithm")
        if str(name).endswith(".py"):
            name = str(file.parent / str(name))  # relative to the file
    if plugin is not None:
        if plugin.suffix != ".py":
            raise UserError(f"--plugin {plugin}: must be a Python file, e.g. mine.py")
        found = registry.name_of(registry.load(str(plugin)))
        if name is not None and plain(str(name)) != plain(found):
            raise UserError(f"--plugin {plugin} is the method {found!r}, not {name!r}")
        return str(plugin)
    if name is None:
        raise UserError(f"name a method; known: {', '.join(registry.names())}")
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
    from pflbench.methods.hyperparameters import make_run
    from pflbench.simulation import runner

    settings, hparams = config.from_toml(file) if file else ({}, {})
    settings.pop("algorithm", None)
    for name in ("model", "dataset"):
        if file is not None and str(settings.get(name)).endswith(".py"):
            settings[name] = str(file.parent / settings[name])  # relative to the file
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--set {pair}: must be NAME=VALUE, as in --set lr=0.1")
        hparams[name.strip()] = value.strip()
    asked = {**settings, **options.settings_of(ctx)}
    chosen = make_run(method, asked, hparams, data_root=data_root)
    return runner.prepare(chosen, method, data_root, device)


def _note_other_versions(folder: Path, version: str) -> None:
    """Say where earlier versions of the method left the same run, before its first attempt."""
    from pflbench.methods import versions
    from pflbench.records.leases import Leases
    from pflbench.records.status import StatusReader

    if not folder.exists():
        reader = StatusReader(Leases(folder.parent), versions.current)
        for other in reader.other_versions(folder.name):
            console.say(
                "note", f"{other} is from another version of the method, which is now {version}"
            )


def _note_no_models(folder: Path) -> None:
    """Say that a run was finished before it was asked to keep its models."""
    from pflbench.records import models

    if not models.name_in(folder):
        console.say("note", f"{folder} finished without --save-models; --fresh runs it again")


def _tell_stopped(folder: Path | None) -> None:
    said = "stopped before the run started; the same command starts it"
    if folder is not None:  # else an import may have been interrupted, and cannot be repeated
        from pflbench.records import run_folder

        done = run_folder.read_json(folder / "status.json").get("round", 0)
        said = f"stopped after round {done}; the same command resumes"
        if not done:
            said = "stopped before the end of the first round; the same command starts again"
    print(said, file=sys.stderr)


def _with_traceback(failure: RunFailed, folder: Path | None) -> RunFailed:
    """A failure that says which file its traceback is in."""
    from pflbench.records import run_folder

    kept = folder is not None and "details" in run_folder.read_json(folder / "status.json")
    return RunFailed(f"{failure}; its traceback is in {folder}/status.json") if kept else failure


def _tell(folder: Path, started: bool, as_json: bool) -> None:
    """The result of a run on one line, or as JSON."""
    from pflbench.report import summary
    from pflbench.report.load import runs

    row = summary.row(runs.single_run(folder, runs.Choice()))
    if as_json:
        console.dump(row)
    elif row["status"] == "finished":
        print(summary.line(row) if started else f"already finished: {summary.line(row)}")
    if row["status"] == "diverged":
        console.say(
            "error", f"{row['method']} diverged: {row['reason']}; its records are in {folder}"
        )
        raise typer.Exit(1)
