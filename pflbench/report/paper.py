"""The FedCoSR paper's published numbers, as data."""

import csv
from pathlib import Path

from pflbench.errors import UserError


def paper_table(name: str) -> list[dict[str, str]]:
    """The rows of one of the paper's tables: `accuracy`, `efficiency` or `methods`."""
    here = Path(__file__).parents[1]
    for folder in (here / "paper", here.parent / "results" / "paper"):  # in the wheel, in a checkout
        path = folder / f"{name}.csv"
        if path.is_file():
            with path.open(newline="") as file:
                return list(csv.DictReader(file))
    raise UserError(f"the paper's table {name!r} is not installed")
