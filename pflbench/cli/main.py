"""The command line: thin commands. What they need is imported when they run, so that the help comes
up at once.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pflbench.cli import (
    algorithms,
    archive,
    bench,
    check,
    console,
    data,
    experiments,
    export,
    new,
    predict,
    report,
    run,
    status,
    sweep,
    tune,
    verify,
)
from pflbench.errors import RunFailed, UserError

app = typer.Typer(
    help="A benchmark suite for personalized federated learning.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(run.run)
app.command()(sweep.sweep)
app.command()(status.status)
app.command()(experiments.experiments)
app.command()(tune.tune)
app.command()(report.report)
app.command()(verify.verify)
app.command()(archive.archive)
app.command()(archive.unpack)
app.command()(export.export)
app.command()(predict.predict)
app.command()(bench.bench)
app.command()(new.new)
app.command()(check.check)
app.add_typer(algorithms.app, name="algorithms")
app.add_typer(data.app, name="data")


def main(arguments: Sequence[str] | None = None) -> None:
    """Do a command and leave with its exit code: 2 for the user's mistake, 1 for a failed run."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    quietly = console.only_json() if "--json" in words else contextlib.nullcontext()
    with console.warnings_in_one_line(), quietly:
        code = _exit_code(words)
    sys.exit(_with_output(code))


def _with_output(code: int) -> int:
    """The exit code, when all that was printed is written; nobody may be reading it any more."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            console.say("error", f"cannot write the output: {error.strerror}")
        return code or 1
    return code


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
    except BrokenPipeError:
        return 1
    except OSError as error:
        where = "write the output" if error.filename is None else f"use {error.filename}"
        console.say("error", f"cannot {where}: {error.strerror or error}")
        return 1
    except MemoryError as error:
        console.say("error", f"not enough memory: {error or 'none is left'}")
        return 1
    except Exception as error:
        # typer's own errors are known by this method: their base class moved between its versions
        if not hasattr(error, "format_message"):
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
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """A benchmark suite for personalized federated learning."""
