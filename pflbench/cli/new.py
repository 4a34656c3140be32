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
    """Write the file of a new method, complete but for three lines."""
    from pflbench.methods import template

    path = template.new(name, out)
    print(f"{path}: fill in the three lines marked in it, then: pflbench check {path}")
