"""The FedCoSR paper's published numbers, as data."""

import csv
from pathlib import Path


def paper_table(name: str) -> list[dict[str, str]]:
    """The rows of one of the paper's tables: `accuracy`, `efficiency` or `methods`."""
    path = Path(__file__).parent / f"{name}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
