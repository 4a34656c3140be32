"""A table of accuracies and its marks: places, and comparisons with the mean and with a base
scenario.

All is computed from the numbers as they are displayed, the means too (exactly, and rounded only to
be shown): a reader can check every mark with the table in hand, and a difference that it does not
show earns none. Higher accuracy is better, and lower std. Equal numbers share a rank (1, 2, 2, 4)
and are neither better nor worse than each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

Measure = Literal["accuracy", "std"]
Against = Literal["", "better", "worse", "equal"]
Kind = Literal["method", "proposed", "baseline"]
State = Literal["ok", "partial", "missing", "failed", "diverged", "damaged"]

MEASURES: tuple[Measure, ...] = ("accuracy", "std")
COUNTED = ("ok", "partial")  # the states with a number


@dataclass(frozen=True)
class Column:
    """A scenario; it takes an accuracy and a std of each method."""

    key: str
    title: str  # as shown
    group: str = ""  # the heading above neighbours that share it
    base: str = ""  # key of the column in the base table with which its numbers are compared


@dataclass(frozen=True)
class Row:
    """A method, or a variant of it; or a baseline that is none: never ranked and in no mean, as the
    majority class.
    """

    method: str
    group: str = ""  # a rule is drawn where it changes
    kind: Kind = "method"
    variant: str = ""

    @property
    def title(self) -> str:
        """As shown."""
        return f"{self.method}: {self.variant}" if self.variant else self.method


@dataclass(frozen=True)
class Cell:
    """Percent, over `seeds` seeds (0: not a matter of seeds). Partial: not all of its runs are
    finished.
    """

    accuracy: float | None = None
    std: float | None = None
    state: State = "missing"
    seeds: int = 0
    outdated: bool = False  # of an earlier version of the method
    notes: tuple[str, ...] = ()  # what the records say is off

    def __post_init__(self) -> None:
        if self.state in COUNTED and self.value("accuracy") is None:
            raise ValueError(f"a cell that is {self.state} needs an accuracy, not {self.accuracy}")

    def value(self, measure: Measure) -> float | None:
        """The number to show; what a failed or diverged run reached is none."""
        number = self.accuracy if measure == "accuracy" else self.std
        if self.state not in COUNTED or number is None or not math.isfinite(number):
            return None
        return number


@dataclass(frozen=True)
class Table:
    """Cells by title of the row and key of the column; one that is not there is missing."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    cells: Mapping[tuple[str, str], Cell]

    def __post_init__(self) -> None:
        keys, titles = [c.key for c in self.columns], [r.title for r in self.rows]
        for what, names in (("columns", keys), ("rows", titles)):
            if not names or len(set(names)) < len(names):
                raise ValueError(f"the {what} of a table need names that differ: {names}")

    def cell(self, row: str, column: str) -> Cell:
        return self.cells.get((row, column), Cell())

    @property
    def methods(self) -> tuple[Row, ...]:
        """The rows that are ranked and in the mean, the proposed one among them."""
        return tuple(row for row in self.rows if row.kind != "baseline")

    @property
    def baselines(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.kind == "baseline")

    @cached_property
    def seeds(self) -> int:
        """The largest number of seeds behind a method's cell."""
        cells = (
            self.cell(row.title, column.key) for row in self.methods for column in self.columns
        )
        return max((cell.seeds for cell in cells), default=0)

    def fewer(self, row: str, column: str) -> bool:
        """Whether a cell's number is of fewer seeds than others are."""
        cell = self.cell(row, column)
        return cell.state == "partial" or (cell.state == "ok" and 0 < cell.seeds < self.seeds)


@dataclass(frozen=True)
class Mark:
    """What is said about one number; nothing, about one that is not there."""

    rank: int | None = None
    mean: Against = ""
    base: Against = ""


@dataclass(frozen=True)
class Marked:
    """A table with its marks by row, column and measure, and its means by column and measure."""

    table: Table
    decimals: int
    marks: Mapping[tuple[str, str, Measure], Mark]
    means: Mapping[tuple[str, Measure], float | None]

    def mark(self, row: str, column: str, measure: Measure) -> Mark:
        return self.marks.get((row, column, measure), Mark())

    def text(self, value: float) -> str:
        """A number as displayed."""
        return f"{value:.{self.decimals}f}"


def mark(table: Table, decimals: int = 2, base: Table | None = None) -> Marked:
    """All marks of a table. A column is compared with that of its `base`, as far as `base` has
    numbers there.
    """
    marks: dict[tuple[str, str, Measure], Mark] = {}
    means: dict[tuple[str, Measure], float | None] = {}
    for column in table.columns:
        for measure in MEASURES:
            values = _displayed(table, column.key, measure, decimals)
            mean = sum(values.values(), Fraction()) / len(values) if values else None
            means[column.key, measure] = None if mean is None else float(mean)
            before = _displayed(base, column.base, measure, decimals) if base else {}
            for title, value in values.items():
                better = [_against(value, other, measure) == "worse" for other in values.values()]
                marks[title, column.key, measure] = Mark(
                    rank=1 + sum(better),
                    mean=_against(value, mean, measure),
                    base=_against(value, before.get(title), measure),
                )
    return Marked(table, decimals, marks, means)


def _displayed(table: Table, column: str, measure: Measure, decimals: int) -> dict[str, Fraction]:
    """The numbers of the methods that have one, exactly as the table shows them."""
    values = {row.title: table.cell(row.title, column).value(measure) for row in table.methods}
    return {
        title: Fraction(f"{value:.{decimals}f}")
        for title, value in values.items()
        if value is not None
    }


def _against(value: Fraction, other: Fraction | None, measure: Measure) -> Against:
    if other is None:
        return ""
    if value == other:
        return "equal"
    return "better" if (value > other) == (measure == "accuracy") else "worse"
