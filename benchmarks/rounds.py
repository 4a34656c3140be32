"""Whole rounds with evaluation: one worker, two workers, and FedAvg as it is usually written."""

import torch

from pflbench.simulation.engine import Processes, Serial
from pflbench.simulation.federation import Federation

from .interleave import Finding, at_least, ratio, speeds, spread
from .problem import THREADS, setup, step
from .sequential import SequentialFedAvg


def measure(turns: int) -> list[Finding]:
    """20 clients with 150 training and 50 test samples of CIFAR-10's size; FedAvg, every round evaluated."""
    run = setup()
    rival = SequentialFedAvg(run)

    def usual() -> float:
        torch.set_num_threads(THREADS)
        return rival.round()

    pool = Processes(run, 2)
    try:
        one, two = Federation(run, Serial(run)), Federation(run, pool)
        for federation in (one, two):
            federation.start()
        seen = speeds({"one": step(one), "two": step(two), "usual": usual}, turns)
    finally:
        pool.close()
    best = max(seen["two"]) / max(seen["usual"])
    return [
        Finding("seconds of a round, two workers", spread([1 / speed for speed in seen["two"]])),
        at_least("two workers / one", ratio(seen["two"], seen["one"]), 1.8),
        at_least(
            "two workers / sequential FedAvg with default threads",
            ratio(seen["two"], seen["usual"]),
            3.0,
            f"{best:.2f} of the quickest turns; {THREADS} threads",
        ),
    ]
