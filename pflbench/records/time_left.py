"""How long the runs of a sweep will take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pflbench.records.plan import Planned
    from pflbench.records.status import RunStatus


def time_left(runs: Iterable[RunStatus], at_once: int) -> float | None:
    """Seconds until all runs have ended, `at_once` at a time; None where no round of any has been
    timed.

    A round costs what rounds of the same method cost so far, else what those of other methods cost
    on average.
    """
    known: dict[Any, list[float]] = {}
    everything = list(runs)
    for run in everything:
        if run.seconds is not None:
            for group in _of_similar_cost(run.planned):
                known.setdefault(group, []).append(run.seconds)
    if not known:
        return None
    total = 0.0
    for run in everything:
        if run.label in ("running", "missing"):
            costs = next(known[group] for group in _of_similar_cost(run.planned) if group in known)
            total += (run.rounds - run.round) * sum(costs) / len(costs)
    return total / max(at_once, 1)


def duration(seconds: float) -> str:
    """4 s, 2 min 3 s or 1 h 2 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _of_similar_cost(planned: Planned) -> tuple[Any, ...]:
    """Groups of runs whose rounds cost about the same, the closest first."""
    method = planned.run.algorithm
    return ((method, planned.scenario), (method,), ())
