"""Sets of methods by name: `all`, and the methods that a paper compares, as `<paper>-paper`.

Each is a list in one place: the files of the methods, or the table of methods in a paper's folder.
"""

import csv
from pathlib import Path

from pflbench.errors import unknown
from pflbench.methods import registry
from pflbench.methods.files import plain

ALL = "all"
PAPERS = Path(__file__).parents[1] / "papers"


def names() -> list[str]:
    """The names of all sets."""
    return [ALL, *_tables()]


def members(name: str) -> list[str]:
    """The names of the methods in a set, sorted."""
    if name == ALL:
        return registry.names()
    if name not in _tables():
        raise unknown("set of methods", name, names())
    with _tables()[name].open(newline="", encoding="utf-8") as file:
        titles = {plain(row["method"]) for row in csv.DictReader(file)}
    return [method for method in registry.names() if plain(method) in titles]


def methods(asked: list[str]) -> list[str]:
    """A list of methods in which sets may stand by their names."""
    known = names()
    return [method for one in asked for method in (members(one) if one in known else [one])]


def _tables() -> dict[str, Path]:
    """By name of the set, the tables of methods of the papers."""
    return {f"{path.parent.name}-paper": path for path in sorted(PAPERS.glob("*/methods.csv"))}
