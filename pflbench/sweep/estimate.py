"""The time that runs will take, from a probe of one round."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from pflbench import config
from pflbench.records.plan import Planned
from pflbench.simulation import runner
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation

Place = tuple[str, str]
"""A setting and a variant: all that changes the cost of a round of a method."""


def seconds_per_round(
    runs: Iterable[Planned], data_root: Path | None = None
) -> Mapping[str, float]:
    """Seconds of a round of every run, by its id. One round of every method is played at the first place it has, and
    one of the first method at every place; the rest follows by proportion.
    """
    everything = list(runs)
    probes: dict[tuple[str, Place], float] = {}

    def probed(run: Planned) -> float:
        key = run.plugin, _place(run)
        if key not in probes:
            probes[key] = probe(run, data_root)
        return probes[key]

    first: dict[str, Planned] = {}  # a method's run at its first place
    reference: dict[Place, Planned] = {}  # a place's run of its first method
    for run in everything:
        first.setdefault(run.plugin, run)
        reference.setdefault(_place(run), run)
    ratio = {place: probed(run) for place, run in reference.items()}
    return {
        run.id: probed(first[run.plugin]) * ratio[_place(run)] / ratio[_place(first[run.plugin])]
        for run in everything
    }


def probe(run: Planned, data_root: Path | None = None) -> float:
    """Seconds of a run's first round, in this process, with one thread; nothing is kept."""
    setup = runner.prepare(config.read(run.config), run.plugin, data_root)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        federation = Federation(setup, Serial(setup))
        federation.start()
        _, timing = federation.step()
    finally:
        torch.set_num_threads(threads)
    return float(timing["wall"])


def _place(run: Planned) -> Place:
    return run.setting, run.variant
