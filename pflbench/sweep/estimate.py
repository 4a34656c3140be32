"""The time that runs will take, from a probe of one round."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pflbench.records.plan import Planned
from pflbench.simulation import runner
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation
from pflbench.simulation.threads import one_thread

Cell = tuple[str, str]
"""A scenario and a variant: all that changes the cost of a round of a method."""


def seconds_per_round(
    runs: Iterable[Planned],
    data_root: Path | None = None,
    probed: Callable[[int, int], None] = lambda done, all: None,
) -> Mapping[str, float]:
    """Seconds of a round of every run, by its id. One round of every method is played in the first
    cell it has, and one of the first method in every cell; the rest follows by proportion. `probed`
    is told after every round how many have been played, and of how many.
    """
    everything = list(runs)
    first: dict[str, Planned] = {}  # a method's run in its first cell
    reference: dict[Cell, Planned] = {}  # a cell's run of its first method
    for run in everything:
        first.setdefault(run.plugin, run)
        reference.setdefault(_cell(run), run)
    needed = {_key(run): run for run in [*reference.values(), *first.values()]}
    seconds = {}
    for key, run in needed.items():
        seconds[key] = probe(run, data_root)
        probed(len(seconds), len(needed))
    ratio = {cell: seconds[_key(run)] for cell, run in reference.items()}
    return {
        run.id: seconds[_key(first[run.plugin])]
        * ratio[_cell(run)]
        / ratio[_cell(first[run.plugin])]
        for run in everything
    }


def probe(planned: Planned, data_root: Path | None = None) -> float:
    """Seconds of a run's first round, in this process, with one thread; nothing is kept."""
    setup = runner.prepare(planned.run, planned.plugin, data_root)
    with one_thread():
        federation = Federation(setup, Serial(setup))
        federation.start()
        _, timing = federation.step()
    return float(timing["wall"])


def _key(run: Planned) -> tuple[str, Cell]:
    return run.plugin, _cell(run)


def _cell(run: Planned) -> Cell:
    return run.scenario, run.variant
