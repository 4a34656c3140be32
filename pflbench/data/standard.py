"""Mean and standard deviation of features, by which they are standardized."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pflbench.data.arrays import Array
from pflbench.data.label_skew import Ints

Floats = npt.NDArray[np.float64]

CHUNK = 4096  # samples in memory at once
CONSTANT = 1e-6  # of its mean: a deviation of this size is rounding


@dataclass(frozen=True)
class Standard:
    """Of every entry of the first axis of a sample: a feature of a vector, a channel of a series."""

    mean: tuple[float, ...]
    std: tuple[float, ...]  # 1 where the training samples do not differ


def standard(x: Array, train: Sequence[Ints]) -> Standard:
    """Over all training samples of these clients; a sample of two clients counts twice."""
    rows = np.concatenate(train)
    mean = _mean(x, rows, lambda values: values)
    axes = (-1, *[1] * (x.ndim - 2))
    variance = _mean(x, rows, lambda values: (values - mean.reshape(axes)) ** 2)
    std = np.sqrt(variance)
    std = np.where(std > CONSTANT * np.abs(mean), std, 1.0)
    return Standard(tuple(mean.tolist()), tuple(std.tolist()))


def _mean(x: Array, rows: Ints, of: Callable[[Floats], Floats]) -> Floats:
    """Mean of a function of the values, in float64, chunk by chunk: (entries of the first axis,)."""
    axes = (0, *range(2, x.ndim))
    total = np.zeros(x.shape[1])
    for first in range(0, len(rows), CHUNK):
        total += of(x[rows[first : first + CHUNK]].astype(np.float64)).sum(axis=axes)
    return np.asarray(total / (len(rows) * np.prod(x.shape[2:])))
