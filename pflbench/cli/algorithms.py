"""`pflbench algorithms`: the methods, as a list or one in full."""

from typing import Annotated

import typer

from pflbench.cli import console, options

app = typer.Typer(invoke_without_command=True)


@app.callback()
def algorithms(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Option("--set", metavar="NAME", help="A set of methods."),
    ] = "all",
    as_json: options.Json = False,
) -> None:
    """List the methods by family, or show one in full."""
    if ctx.invoked_subcommand is not None:
        return
    from pflbench.methods import describe, sets

    rows = describe.rows(sets.members(name))
    if as_json:
        console.dump(rows)
    else:
        console.table(describe.COLUMNS, describe.by_family(rows))


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(help="A method listed by 'pflbench algorithms', or the path of your own."),
    ],
    as_json: options.Json = False,
) -> None:
    """Show a method: paper, messages, evaluation point, deviations, hyperparameters."""
    from pflbench.methods import describe, registry

    details = describe.details(registry.load(name))
    if as_json:
        console.dump(details)
    else:
        print("\n".join(describe.lines(details)))
        console.table(*describe.hyperparameter_table(details))
        print(f"\nand the options of training: {', '.join(details['options'])}")
