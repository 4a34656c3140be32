"""Small problems on which methods are tested: a federation in memory, and splits of its data made to
order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pflbench.api import Algorithm, Params
from pflbench.data import datasets
from pflbench.data.label_skew import Ints
from pflbench.data.partition import Partition
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation import runner
from pflbench.simulation.client_worker import Setup
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation

TOY: dict[str, Any] = {
    "dataset": "synthetic:classes=4,side=8,samples=160",
    "partition": "dir:0.5",
    "clients": 4,
    "rounds": 3,
    "model": "mlp",
    "width": 8,
    "min_samples": 8,
}
"""The settings of a small problem: a round takes milliseconds."""

TOY_CNN: dict[str, Any] = {
    **TOY,
    "dataset": "synthetic:classes=4,side=16,samples=96",
    "model": "cnn",
    "width": 16,
}
"""The same with the paper's network, on the smallest images that it takes."""


def network_of(method: type[Algorithm]) -> dict[str, str]:
    """The setting by which a method is tested on the network that it needs, if it says so."""
    return {"model": method.check_model} if method.check_model else {}


def toy(
    plugin: str,
    hparams: Mapping[str, Any] | None = None,
    split: Partition | None = None,
    **settings: Any,
) -> Federation:
    """A small federation in memory, in this process: `toy("fedavg", {"lr": 0.1},
    clients=2).step()`.

    `split` replaces the partition (and then says how many clients there are).
    """
    setup = toy_setup(plugin, hparams, split, **settings)
    return Federation(setup, Serial(setup))


def toy_setup(
    plugin: str,
    hparams: Mapping[str, Any] | None = None,
    split: Partition | None = None,
    **settings: Any,
) -> Setup:
    """What `toy` builds its federation from."""
    chosen = {**TOY, **settings}
    if split is not None:
        chosen.update(clients=len(split.train), partition="iid", min_samples=1)
    setup = runner.prepare(make_run(plugin, chosen, hparams or {}), plugin)
    return setup if split is None else replace(setup, partition=split)


def played(federation: Federation, rounds: int = 3) -> Federation:
    """The federation, some rounds later."""
    for _ in range(rounds):
        federation.step()
    return federation


def personal(federation: Federation, id: int = 0) -> Any:
    """The personal model with which a client would be evaluated now."""
    message = federation.algorithm.download(federation.server, (id,))[id]
    return federation.algorithm.personal_model(federation.client(id), message)


def equal(first: Params, second: Params) -> bool:
    """Whether two sets of parameters have the same names and the same bits."""
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def bare(theta: Params) -> Params:
    """Names without the part that they belong to, so that networks split at different places can be
    compared.
    """
    return {name.partition(".")[2]: p for name, p in theta.items()}


def split_by_class(
    dataset: str, train: Sequence[Sequence[int]], test: Sequence[Sequence[int]]
) -> Partition:
    """A partition to order: for each client, the classes of its training and of its test samples,
    one by one.

    `[[0, 0, 1], [2]]`: the first client has two samples of class 0 and one of class 1, the second
    one of class 2.
    """
    labels = datasets.load(dataset).y
    unused = {int(label): iter(np.flatnonzero(labels == label)) for label in np.unique(labels)}

    def taken(classes: Iterable[int]) -> Ints:
        return np.sort(np.array([next(unused[label]) for label in classes], dtype=np.int64))

    return Partition(tuple(map(taken, train)), tuple(map(taken, test)))
