"""Clients that fail in a round, and clients that are slow: by the seed only, so that every method
meets the same failures.
"""

from collections.abc import Iterable

import torch

from pflbench.config import Run
from pflbench.rng import stream


def failing(run: Run, round: int) -> frozenset[int]:
    """The clients that fail after the download if they are selected in this round, each with the
    probability `dropout_rate`.
    """
    if not run.dropout_rate:
        return frozenset()
    draws = torch.rand(run.clients, generator=stream(run.seed, "failures", round))
    return frozenset((draws < run.dropout_rate).nonzero().flatten().tolist())


def slow(run: Run, clients: Iterable[int]) -> frozenset[int]:
    """The share `slow_clients` of these clients, the same in all rounds."""
    ids = sorted(clients)
    number = int(run.slow_clients * len(ids) + 1e-9)
    order = torch.randperm(len(ids), generator=stream(run.seed, "slow clients")).tolist()
    return frozenset(ids[place] for place in order[:number])
