"""The command line: thin commands. What they need is imported when they run, so that the help comes up at once."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pflbench.cli import bench, console, data, options, report, run, sweep, tune
from pflbench.errors import RunFailed, UserError

app = typer.Typer(
    help="A benchmark suite for personalized federated learning.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
algorithms_app = typer.Typer(invoke_without_command=True)
app.command()(run.run)
app.command()(sweep.sweep)
app.command()(sweep.status)
app.command()(sweep.experiments)
app.command()(tune.tune)
app.command()(report.report)
app.command()(bench.bench)
app.add_typer(algorithms_app, name="algorithms")
app.add_typer(data.app, name="data")


def main(arguments: Sequence[str] | None = None) -> None:
    """Do a command and leave with its exit code: 2 for the user's mistake, 1 for a failed run."""
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
        if not hasattr(
            error, "format_message"
        ):  # typer's own errors; their base class moved between its versions
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """A benchmark suite for personalized federated learning."""


@algorithms_app.callback()
def algorithms(ctx: typer.Context, as_json: options.Json = False) -> None:
    """The methods: a list of all, or one in full."""
    if ctx.invoked_subcommand is None:
        from pflbench.methods import describe

        rows = describe.rows()
        if as_json:
            console.dump(rows)
        else:
            console.table(
                [name.replace("_", " ") for name in describe.COLUMNS],
                [list(row.values()) for row in rows],
            )


@algorithms_app.command("show")
def show_algorithm(
    name: Annotated[
        str, typer.Argument(help="A name of 'pflbench algorithms', or a plugin's path.")
    ],
    as_json: options.Json = False,
) -> None:
    """One method: citation, messages, scored point, deviations, hyperparameters."""
    from pflbench.methods import describe, registry

    details = describe.details(registry.load(name))
    if as_json:
        console.dump(details)
    else:
        print("\n".join(describe.lines(details)))
        headers, rows = describe.hyperparameter_table(details)
        console.table(headers, rows)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The method's name, as in fedala or FedALA.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where. [algorithms/ in a checkout, else this folder]"),
    ] = None,
) -> None:
    """Write the file of a new method, complete but for three lines."""
    from pflbench.methods import template

    path = template.new(name, out)
    print(f"{path}: fill in the three lines marked in it, then: pflbench check {path}")


@app.command()
def check(
    plugin: Annotated[str, typer.Argument(help="A method's name or a plugin's path.")],
    as_json: options.Json = False,
) -> None:
    """See whether a method keeps to the contract."""
    from pflbench import testing

    found = []
    for result in testing.checks(plugin):
        outcome = "FAIL" if not result.passed else "expected" if result.expected_failure else "ok"
        found.append(
            {
                "check": result.name,
                "outcome": outcome,
                "message": result.message,
                "seconds": result.seconds,
            }
        )
        reason = {
            "FAIL": result.message,
            "expected": result.expected_failure,
            "ok": testing.describe(result.name),
        }
        if not as_json:
            print(f"{outcome:<9}{result.name:<28} {reason[outcome]}", flush=True)
    numbers = {
        outcome: sum(row["outcome"] == outcome for row in found)
        for outcome in ("ok", "expected", "FAIL")
    }
    if as_json:
        console.dump(found)
    else:
        print(", ".join(f"{number} {outcome}" for outcome, number in numbers.items() if number))
    if numbers["FAIL"]:
        raise typer.Exit(1)
