"""The conformance kit: named checks that every method must pass, for plugins of others too."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pflbench import config, rounds
from pflbench.engine import Serial
from pflbench.federation import Federation
from pflbench.partition import Partition

TOY = {
    "dataset": "synthetic:classes=4,side=8,samples=160",
    "partition": "dir:0.5",
    "clients": 4,
    "rounds": 3,
    "model": "mlp",
    "width": 8,
    "min_samples": 8,
}
"""The settings of a small problem: a round takes milliseconds."""


def toy(
    plugin: str, hparams: Mapping[str, Any] | None = None, split: Partition | None = None, **settings: Any
) -> Federation:
    """A small federation in memory, in this process: `toy("fedavg", {"lr": 0.1}, clients=2).step()`.

    `split` replaces the partition (and then says how many clients there are).
    """
    chosen = {**TOY, **settings}
    if split is not None:
        chosen["clients"] = len(split.train)
    setup = rounds.prepare(config.make(plugin, chosen, hparams or {}), plugin)
    if split is not None:
        setup = replace(setup, partition=split)
    return Federation(setup, Serial(setup))
