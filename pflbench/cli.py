"""The command line: thin commands. What they need is imported when they run, so that the help comes up at once."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pflbench import console, options
from pflbench.errors import RunFailed, UserError

if TYPE_CHECKING:
    from pflbench.data import Data
    from pflbench.partition import Partition
    from pflbench.report.result import Result

app = typer.Typer(
    help="A benchmark suite for personalized federated learning.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
algorithms_app = typer.Typer(help="The methods: list them, or show one.", invoke_without_command=True)
data_app = typer.Typer(help="The data sets: list, get, show how one is divided, export a division.")
app.add_typer(algorithms_app, name="algorithms")
app.add_typer(data_app, name="data")


class Terminated(KeyboardInterrupt):
    """SIGTERM: as Ctrl-C, so that a checkpoint is written."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 2 for the user's mistake, 1 for a failed run."""
    with console.warnings_in_one_line():
        sys.exit(_exit_code(list(sys.argv[1:] if arguments is None else arguments) or ["--help"]))


def _exit_code(arguments: list[str]) -> int:
    try:
        return int(app(arguments, prog_name="pflbench", standalone_mode=False) or 0)
    except UserError as error:
        console.say("error", error)
        return 2
    except RunFailed as error:
        console.say("error", error)
        return 1
    except typer.Abort:
        return 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors, whose base class moved between its versions
            raise
        path = getattr(getattr(error, "ctx", None), "command_path", "pflbench")
        console.say("error", f"{error.format_message().rstrip('.')}; see {path} --help")
        return 2


def _version(wanted: bool) -> None:
    if wanted:
        from pflbench import __version__

        print(f"pflbench {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    pass


@app.command()
def run(
    ctx: typer.Context,
    algorithm: Annotated[str | None, typer.Argument(help="A name of 'pflbench algorithms', or a plugin's path.")] = None,
    dataset: options.Dataset = None,
    partition: options.Partition = None,
    clients: options.Clients = None,
    rounds: options.Rounds = None,
    seed: options.Seed = None,
    participation: options.Participation = None,
    eval_every: options.EvalEvery = None,
    model: options.Network = None,
    width: options.Width = None,
    head_layers: options.HeadLayers = None,
    hparams: options.Hyperparameters = None,
    config: options.ConfigFile = None,
    plugin: options.Plugin = None,
    partition_seed: options.PartitionSeed = None,
    samples_per_client: options.SamplesPerClient = None,
    overlap: options.Overlap = None,
    keep: options.Keep = None,
    keep_last: options.KeepLast = None,
    min_samples: options.MinSamples = None,
    test_fraction: options.TestFraction = None,
    workers: options.Workers = None,
    device: options.Device = "cpu",
    data_root: options.DataRoot = None,
    out: options.RunsFolder = Path("results/runs"),
    checkpoint_every: options.CheckpointEvery = 10,
    fresh: options.Fresh = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """One run of a method. The same command again resumes it, or shows its result if it is finished."""
    folder = None
    signal.signal(signal.SIGTERM, _terminate)
    try:
        setup = _setup(ctx, _method(algorithm, plugin, config), config, hparams or [], data_root, device)
        folder = out / setup.run.id
        limits = {"workers": workers or min(_cores(), setup.run.cohort_size), "checkpoint_every": checkpoint_every}
        begun = _execute(setup, out, quiet=quiet or as_json, fresh=fresh, **limits)
    except KeyboardInterrupt as stop:
        _stopped(folder)
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
    except RunFailed as failure:
        kept = folder and (folder / "status.json").exists()
        console.say("error", f"{failure}; its traceback is in {folder}/status.json" if kept else failure)
        raise typer.Exit(1) from None
    _tell(folder, begun, as_json)


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _settings(ctx: typer.Context) -> dict[str, Any]:
    """The settings of a run among a command's options, those that were given."""
    from pflbench.config import Run

    names = {field.name for field in dataclasses.fields(Run)} - {"algorithm", "hparams"}
    return {name: value for name, value in ctx.params.items() if name in names and value is not None}


def _method(name: str | None, plugin: Path | None, file: Path | None) -> str:
    """What registry.load takes: the plugin's path, or the method's name from the command or the file."""
    from pflbench import config, registry

    if name is None and file is not None:
        name = config.from_toml(file)[0].get("algorithm")
    if plugin is not None:
        if plugin.suffix != ".py":
            raise UserError(f"--plugin {plugin}: must be a Python file, PATH.py")
        found = registry.name_of(registry.load(str(plugin)))
        if name is not None and registry.plain(name) != registry.plain(found):
            raise UserError(f"plugin {plugin} is the method {found!r}, not {name!r}")
        return str(plugin)
    if name is None:
        raise UserError(f"no algorithm is named; known: {', '.join(registry.names())}")
    return str(name)


def _setup(
    ctx: typer.Context, method: str, file: Path | None, pairs: list[str], data_root: Path | None, device: str
) -> "Setup":
    from pflbench import config, rounds

    settings, hparams = config.from_toml(file) if file else ({}, {})
    settings.pop("algorithm", None)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--set {pair}: must be NAME=VALUE, as in --set lr=0.1")
        hparams[name.strip()] = value.strip()
    return rounds.prepare(config.make(method, {**settings, **_settings(ctx)}, hparams), method, data_root, device)


def _execute(setup: "Setup", out: Path, *, quiet: bool, **how: Any) -> bool:
    """Do the run; False if it was finished already."""
    from pflbench import records, rounds

    folder = out / setup.run.id
    with console.progress(setup.run.rounds, setup.algorithm().scored, quiet) as progress:

        def started(done: int) -> None:
            progress.start(done, records.rounds(folder))

        rounds.execute(setup, out, started=started, watch=progress.watch, **how)
    return progress.begun


def _stopped(folder: Path | None) -> None:
    from pflbench import records

    done = records.read_json(folder / "status.json").get("round", 0) if folder else 0
    when = f"stopped after round {done}" if done else "stopped before the end of the first round"
    print(f"{when}; the same command {'resumes' if done else 'starts again'}", file=sys.stderr)


def _tell(folder: Path, begun: bool, as_json: bool) -> None:
    """The result of a run on one line, or as JSON."""
    from pflbench.report import summary
    from pflbench.report.result import Result

    row = summary.row(Result(folder))
    if as_json:
        console.dump(row)
    elif row["status"] == "done":
        print(summary.line(row) if begun else f"already finished: {summary.line(row)}")
    if row["status"] == "diverged":
        console.say("error", f"{row['method']} diverged: {row['reason']}; its records are in {folder}")
        raise typer.Exit(1)


@algorithms_app.callback()
def algorithms(ctx: typer.Context, as_json: options.Json = False) -> None:
    """The methods: list them, or show one."""
    if ctx.invoked_subcommand is None:
        from pflbench import catalog

        rows = catalog.rows()
        if as_json:
            console.dump(rows)
        else:
            headers = ("name", "title", "type", "technique", "label skew", "data scarcity", "scored")
            console.table(headers, [list(row.values()) for row in rows])


@algorithms_app.command("show")
def show_algorithm(
    name: Annotated[str, typer.Argument(help="A name of 'pflbench algorithms', or a plugin's path.")],
    as_json: options.Json = False,
) -> None:
    """One method: citation, messages, scored point, deviations, hyperparameters."""
    from pflbench import catalog, registry

    details = catalog.details(registry.load(name))
    if as_json:
        console.dump(details)
    else:
        catalog.show(details)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The method's name, as in fedala or FedALA.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where.", show_default="algorithms/ in a checkout, else this folder"),
    ] = None,
) -> None:
    """Write the file of a new method, complete but for three lines."""
    from pflbench import scaffold

    path = scaffold.new(name, out)
    print(f"{path}: fill in its three lines, then: pflbench check {path}")


@app.command()
def check(
    plugin: Annotated[str, typer.Argument(help="A method's name or a plugin's path.")], as_json: options.Json = False
) -> None:
    """Whether a method keeps to the contract: the conformance kit, check by check."""
    from pflbench import testing

    outcomes = []
    for found in testing.checks(plugin):
        as_declared = found.passed == (found.expected_failure is None)
        outcomes.append("expected" if as_declared and not found.passed else "ok" if as_declared else "FAIL")
        if not as_json:
            reason = found.expected_failure if outcomes[-1] == "expected" else found.message
            print(f"{outcomes[-1]:<9} {found.name}{f': {reason}' if reason else ''}", flush=True)
        ...
    if "FAIL" in outcomes:
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder with runs, as results/runs.")], as_json: options.Json = False
) -> None:
    """Tables and figures of all runs in a folder, into FOLDER/report/."""
