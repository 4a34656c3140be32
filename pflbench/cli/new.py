"""`pflbench new`: the file of a new method."""

from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(help="The method's name, as in fedala or FedALA.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where. [algorithms/ in a checkout, else this folder]"),
    ] = None,
) -> None:
    """Write the file of a new method: FedAvg, with what to change."""
    from pflbench.methods import template

    path = template.new(name, out)
    print(f"{path}: FedAvg for now; make it your method, then: pflbench check {path}")
