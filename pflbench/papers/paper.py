"""What a report knows of a paper: plain data, and a few functions."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Config = Mapping[str, Any]  # of a run, as in run.json
Pair = tuple[float | None, float | None]


@dataclass(frozen=True)
class Column:
    """A scenario in a paper's table of accuracies."""

    key: str
    title: str
    group: str  # the heading above neighbours that share it
    base: str = ""  # key of the column with which the paper compares it


@dataclass(frozen=True)
class Costs:
    """What a paper says that a method costs."""

    rounds: float  # to convergence
    seconds: float  # per round
    communication: str  # per round, down and up together
    note: str = ""  # why the method's formula differs


@dataclass(frozen=True)
class Paper:
    """A paper with published results. Methods are named by their titles, scenarios by keys of
    `columns`.
    """

    key: str  # its folder; also of its style
    name: str  # captions say "the NAME paper"
    proposed: str  # its own method
    seeds: int  # behind its numbers
    groups: Mapping[str, tuple[str, ...]]  # methods in the order of its tables, by group of rows
    columns: Mapping[str, Column]
    datasets: Mapping[str, str]  # name of a data set -> as the paper prints it
    column_of: Callable[[Config], str]  # the scenario of a run; "" if the paper does not have it
    heading: Callable[[Config, str, str], tuple[str, str]]  # see `scenarios.heading`
    accuracy: Mapping[tuple[str, str], Pair]  # (method, scenario) -> accuracy and std in percent
    conditions: str  # what is not known of them, for captions
    costs: Mapping[str, Costs]
    cost_conditions: str  # what the costs are means over, for captions
    classification: tuple[dict[str, str], ...]  # its table of methods: one row per method
    style: Any  # of its table of accuracies: pflbench.report.render.notation.Style
    looks: Mapping[str, tuple[str, Any, str]]  # colour, dash and marker of methods in its figures
    figures: Callable[[Any], Iterator[Any]]  # its own figures of a report's Overview

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods, in the order of its tables."""
        return tuple(title for titles in self.groups.values() for title in titles)

    def group_of(self, method: str) -> str:
        """The group of rows of a method; "" if the paper does not have it."""
        return next((group for group, titles in self.groups.items() if method in titles), "")


def dataset_of(spec: str, known: Collection[str]) -> str:
    """Which of the known data sets it is, by name or by the beginning of a file's name; empty if
    none.
    """
    kind, _, path = spec.partition(":")
    if kind != "npz":
        return spec if spec in known else ""
    stem = Path(path).stem
    return max((name for name in known if stem.startswith(name)), key=len, default="")
