"""Contenders take turns, so that noise of the machine hits all alike; only ratios within one run mean something."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Turn = Callable[[], float]
"""Does a piece of work and says how much it was, in units of work (samples, rounds)."""


@dataclass(frozen=True)
class Spread:
    """A quantity in every turn: its median, and the quartiles around it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 0 if self.median >= 100 else 2
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"


@dataclass(frozen=True)
class Finding:
    """A measured quantity, and the goal it is held against, if there is one."""

    what: str
    value: Spread | float
    goal: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def text(self) -> str:
        return str(self.value) if isinstance(self.value, Spread) else f"{self.value:.4g}"


def speeds(
    contenders: Mapping[str, Turn], turns: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Units of work per second of every contender in every turn; a turn before the first one warms up.

    Work of one thread of this process may be timed by `time.process_time`, which does not count what others take away.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, work in contenders.items():
            start = clock()
            units = work()
            if turn:
                found[name].append(units / (clock() - start))
    return found


def spread(values: Sequence[float]) -> Spread:
    """The median and the quartiles."""
    low, median, high = (
        statistics.quantiles(values, n=4, method="inclusive")
        if len(values) > 1
        else (values[0],) * 3
    )
    return Spread(median, low, high)


def ratio(first: Sequence[float], second: Sequence[float]) -> Spread:
    """first / second, turn by turn."""
    return spread([a / b for a, b in zip(first, second, strict=True)])


def at_least(what: str, value: Spread | float, goal: float, note: str = "") -> Finding:
    """A finding that should be no smaller than the goal."""
    number = value.median if isinstance(value, Spread) else value
    return Finding(what, value, f">= {goal:g}", number >= goal, note)


def at_most(what: str, value: Spread | float, goal: float, note: str = "") -> Finding:
    """A finding that should be no larger than the goal."""
    number = value.median if isinstance(value, Spread) else value
    return Finding(what, value, f"<= {goal:g}", number <= goal, note)
