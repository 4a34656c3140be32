"""What is measured on: images of the size of CIFAR-10 or EMNIST, the same number at every client."""

from collections.abc import Callable

import numpy as np
import torch

from pflbench.data import datasets
from pflbench.data.partition import Partition
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation.client_worker import Setup
from pflbench.simulation.federation import Federation

CIFAR = "synthetic:classes=10,side=32,channels=3,samples=8000"
EMNIST = "synthetic:classes=47,side=28,channels=1,samples=8000"
NEVER = 10**6  # rounds
THREADS = torch.get_num_threads()  # what torch takes by itself


def setup(
    dataset: str = CIFAR,
    algorithm: str = "fedavg",
    *,
    clients: int = 20,
    train: int = 150,
    test: int = 50,
    cohort: int | None = None,
    **settings: object,
) -> Setup:
    """A run in which every client has so many samples; where data is short, clients share some."""
    given = {"dataset": dataset, "clients": clients, "rounds": NEVER, **settings}
    share = 1.0 if cohort is None else cohort / clients
    run = make_run(algorithm, {**given, "participation": share}, {})
    loaded = datasets.load(dataset)
    order = np.random.default_rng(0).permutation(len(loaded.y))
    size = train + test
    owned = [np.take(order, range(i * size, (i + 1) * size), mode="wrap") for i in range(clients)]
    split = Partition(
        tuple(np.sort(o[:train]) for o in owned), tuple(np.sort(o[train:]) for o in owned)
    )
    return Setup(run, algorithm, loaded, split)


def step(federation: Federation, units: float = 1.0) -> Callable[[], float]:
    """A turn of one round, which counts as so many units of work."""

    def turn() -> float:
        torch.set_num_threads(1)
        federation.step()
        return units

    return turn
