"""`pflbench new`: the file of a new method, network or data set."""

from pathlib import Path
from typing import Annotated

import typer

from pflbench.errors import UserError


def new(
    name: Annotated[str, typer.Argument(help="Its name, as in fedala or FedALA.")],
    model: Annotated[bool, typer.Option("--model", help="A network.")] = False,
    dataset: Annotated[bool, typer.Option("--dataset", help="A data set.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where. [algorithms/ for a method in a checkout, else this folder]",
        ),
    ] = None,
) -> None:
    """Write the file of a new method, network or data set, which works and says what to change."""
    from pflbench.methods import template

    if model and dataset:
        raise UserError("--model or --dataset: a file is one of them")
    if model:
        from pflbench import models

        path = template.new(name, out, "network", models.MODELS)
        print(
            f"{path}: two hidden layers for now; make it your network, then: pflbench check {path}"
        )
    elif dataset:
        from pflbench.data import datasets

        path = template.new(name, out, "data set", datasets.names())
        print(f"{path}: made-up data for now; make it read yours, then: pflbench check {path}")
    else:
        path = template.new(name, out)
        print(f"{path}: FedAvg for now; make it your method, then: pflbench check {path}")
