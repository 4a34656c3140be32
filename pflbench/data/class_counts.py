"""How many samples of each class every client has, as `run.json` carries it; reports need no data
to read it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pflbench.data.label_skew import Ints

Sparse = list[dict[str, int]]
"""Per client, label (as text, for JSON) -> samples; a class that the client does not have is not
there.
"""


def sparse(rows: Sequence[Ints], y: Ints, classes: int) -> Sparse:
    """The samples of every client by class; `rows` are its indices into the labels y."""
    counts: Sparse = [{} for _ in rows]
    owner = np.repeat(np.arange(len(rows)), [len(indices) for indices in rows])
    labels = y[np.concatenate([np.zeros(0, dtype=np.int64), *rows])]
    cells, numbers = np.unique(owner * classes + labels, return_counts=True)
    for cell, number in zip(cells.tolist(), numbers.tolist(), strict=True):
        counts[cell // classes][str(cell % classes)] = number
    return counts


def dense(counts: Sequence[Mapping[str, int]], classes: int) -> Ints:
    """The same as a table: clients (rows) and classes (columns)."""
    table = np.zeros((len(counts), classes), dtype=np.int64)
    for client, row in enumerate(counts):
        table[client, [int(label) for label in row]] = list(row.values())
    return table


def majority(
    train: Sequence[Mapping[str, int]], test: Sequence[Mapping[str, int]]
) -> list[float | None]:
    """Accuracy of every client if it always says its most frequent training class (of equal ones
    the lowest label).

    What a method must beat to have learnt anything. None for a client without test samples.
    """
    guesses = [min(row, key=lambda label: (-row[label], int(label)), default="") for row in train]
    return [
        row.get(guess, 0) / sum(row.values()) if row else None
        for guess, row in zip(guesses, test, strict=True)
    ]
