"""Representations z = body(x) of test samples after the last round, for pictures: how they are
taken and stored.

`representations.npz` has one row per sample, clients in ascending order: `z` (m, k) float32, `y` (m,)
labels, `client` (m,) ids, `sample` (m,) rows in the pooled data set, and `x` (m, ...),
the samples themselves as the data set has them.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pflbench.api import LARGE, Model, Params, Samples, Task
from pflbench.data.partition import Partition
from pflbench.data.prepared import Data
from pflbench.ops import phi
from pflbench.records import run_folder

Vectors = npt.NDArray[np.float32]
"""(samples, k)."""

FILE = "representations.npz"


@torch.no_grad()
def taken(model: Model, task: Task, x: Samples, number: int, size: int = LARGE) -> Vectors | None:
    """z of the first samples of x; None if the model has no body."""
    body = body_of(model, task)
    if body is None:
        return None
    net = task.net({**task.initial, **body})
    parts = [
        net.body(task.inputs(x[rows])).flatten(1).cpu() for rows in torch.arange(number).split(size)
    ]
    found: Vectors = torch.cat([torch.zeros(0, task.width), *parts]).numpy()
    return found


def body_of(model: Model, task: Task) -> Params | None:
    """phi of an evaluated model: of the model itself or, level by level, of the first dict in it that
    has all of phi.

    That is theta of a method that evaluates {"theta": ..., "omega": ...}, and phi of one that has no
    head.
    """
    wanted = {name: p.shape for name, p in phi(task.initial).items()}
    level = [model]
    while level := [tree for tree in level if isinstance(tree, dict)]:
        for tree in level:
            if all(
                getattr(tree.get(name), "shape", None) == shape for name, shape in wanted.items()
            ):
                return {name: tree[name] for name in wanted}
        level = [branch for tree in level for branch in tree.values()]
    return None


def save(folder: Path, found: Mapping[int, Vectors], data: Data, partition: Partition) -> None:
    """Write the representations of clients' first test samples, if there are any, to the folder of
    a run.

    To be called before the record of the last round is written: after it, that round is not played
    again.
    """
    if not found:
        return
    ids = sorted(found)
    sample = np.concatenate([partition.test[id][: len(found[id])] for id in ids])
    arrays: Any = {
        "z": np.concatenate([found[id] for id in ids]),
        "y": np.asarray(data.y[sample]),
        "client": np.repeat(ids, [len(found[id]) for id in ids]),
        "sample": sample,
        "x": np.asarray(data.x[sample]),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    run_folder.write(folder / FILE, buffer.getvalue())
