"""The chart of all methods at the head of an experiment: a row per method, a panel per scenario.

Places are percent of a panel's width, so that the page draws it at any width, without a script.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pflbench.report.grouping.overview import Group, Overview, overview
from pflbench.report.load.runs import Choice, Experiment

TICKS = 4  # of a panel's axis, about
MARGIN = 0.06  # of the range of a panel's numbers, on either side
ALL = "Mean of all scenarios"


@dataclass(frozen=True)
class Axis:
    """Of a panel: the values at its ends."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Percent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Place and text of round numbers."""
        wanted = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(wanted))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted)
        numbers = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        return [(self.place(number * step), f"{number * step:g}") for number in numbers]


@dataclass(frozen=True)
class Cell:
    """A method in a scenario, in percent: mean over seeds, the interval of it, the seeds."""

    mean: float
    interval: tuple[float, float] | None = None
    seeds: tuple[float, ...] = ()

    @property
    def values(self) -> list[float]:
        """All that its panel has room for."""
        return [self.mean, *(self.interval or ()), *self.seeds]


Rows = dict[str, dict[str, Cell]]
"""Cells by label of the method and title of the panel."""


def chart(experiment: Experiment, choice: Choice) -> dict[str, Any] | None:
    """As the template takes it: panels, rows and a caption; None where no run has an accuracy.

    The best method of the first panel is on top.
    """
    seen = overview(experiment, choice)
    rows = _rows(seen)
    panels = {title: _axis(rows.values(), title) for title in _titles(seen, rows)}
    if not panels:
        return None
    first = next(iter(panels))
    best_first = sorted(rows, key=lambda label: _rank(rows[label].get(first)))
    proposed = {group.label for group in seen.groups if group.proposed}
    lines = [
        {
            "label": label,
            "proposed": label in proposed,
            "cells": [
                _drawn(rows[label].get(title), axis, seen.options.decimals)
                for title, axis in panels.items()
            ],
        }
        for label in best_first
    ]
    heads = [{"title": title, "ticks": axis.ticks} for title, axis in panels.items()]
    return {"panels": heads, "rows": lines, "caption": _caption(seen, rows)}


def _rows(seen: Overview) -> Rows:
    """The methods that have a number, with their mean over scenarios where they have all of them."""
    rows: Rows = {}
    for group in seen.groups:
        if group.finished:
            rows.setdefault(group.label, {})[group.scenario.line] = _cell(group)
    number = len(seen.scenarios)
    for cells in rows.values():
        if len(cells) == number > 1:
            cells[ALL] = Cell(sum(cell.mean for cell in cells.values()) / number)
    return rows


def _cell(group: Group) -> Cell:
    from pflbench.report.stats.intervals import Interval, interval

    seeds = tuple(float(accuracy) for accuracy in group.accuracies)
    found = interval(seeds)
    bounds = (found.low, found.high) if isinstance(found, Interval) else None
    return Cell(group.accuracy, bounds, seeds if len(seeds) > 1 else ())


def _titles(seen: Overview, rows: Rows) -> list[str]:
    """Of the panels in which some method has a number."""
    titles = [ALL, *(scenario.line for scenario in seen.scenarios)]
    return [title for title in titles if any(title in cells for cells in rows.values())]


def _axis(rows: Iterable[dict[str, Cell]], title: str) -> Axis:
    values = [value for cells in rows if title in cells for value in cells[title].values]
    room = MARGIN * (max(values) - min(values)) or 1.0
    return Axis(min(values) - room, max(values) + room)


def _rank(cell: Cell | None) -> float:
    return 1.0 if cell is None else -cell.mean


def _drawn(cell: Cell | None, axis: Axis, decimals: int) -> dict[str, Any] | None:
    """Texts and places of a cell."""
    if cell is None:
        return None
    said = [f"{cell.mean:.{decimals}f} %"]
    if cell.interval:
        said.append("interval {:.{d}f} to {:.{d}f}".format(*cell.interval, d=decimals))
    if cell.seeds:
        said.append("seeds " + ", ".join(f"{seed:.{decimals}f}" for seed in cell.seeds))
    return {
        "number": cell.mean,
        "text": f"{cell.mean:.{decimals}f}",
        "said": "; ".join(said),
        "mean": axis.place(cell.mean),
        "interval": [axis.place(value) for value in cell.interval or ()],
        "seeds": [axis.place(seed) for seed in cell.seeds],
    }


def _caption(seen: Overview, rows: Rows) -> str:
    cells = [cell for found in rows.values() for cell in found.values()]
    text = f"Accuracy (%): {seen.measure}. Large points are means over seeds"
    if any(cell.seeds for cell in cells):
        text += ", small ones the seeds"
    if any(cell.interval for cell in cells):
        text += ", lines 95 % bootstrap intervals of the mean (of 3 seeds or more)"
    return seen.caption(f"{text}. Every panel has its own axis.", seen.groups)
