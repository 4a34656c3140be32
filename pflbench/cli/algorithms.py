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
        typer.Option(
            "--set", metavar="NAME", help="A set of methods, as an experiment may name it."
        ),
    ] = "all",
    as_json: options.Json = False,
) -> None:
    """The methods: a list by family, or one in full."""
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
        str, typer.Argument(help="A name of 'pflbench algorithms', or a plugin's path.")
    ],
    as_json: options.Json = False,
) -> None:
    """One method: citation, messages, evaluation point, deviations, hyperparameters."""
    from pflbench.methods import describe, registry

    details = describe.details(registry.load(name))
    if as_json:
        console.dump(details)
    else:
        print("\n".join(describe.lines(details)))
        console.table(*describe.hyperparameter_table(details))
        print(f"\nand the options of training: {', '.join(details['options'])}")
