"""Sets of methods by name: `all`, the methods that a paper compares, as `<paper>-paper`, and those
that have published numbers, as `<source>-leaderboard`.

Each is a list in one place: the files of the methods, or a table in the folder of the paper or the
leaderboard.
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
    """By name of the set, the tables of methods of papers and leaderboards."""
    found = {}
    for kind, file in (("paper", "methods.csv"), ("leaderboard", "leaderboard.csv")):
        for path in sorted(PAPERS.glob(f"*/{file}")):
            found[f"{path.parent.name}-{kind}"] = path
    return found
