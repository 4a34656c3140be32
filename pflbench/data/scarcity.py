"""Scarcity: fewer training samples for all clients or the last ones, and a validation part taken
from them.

Both choose samples in class proportions, and a smaller choice lies within every larger one.
"""

from collections.abc import Sequence

import numpy as np

from pflbench.data.label_skew import Ints
from pflbench.errors import UserError
from pflbench.rng import numpy_stream


def reduced(
    train: Sequence[Ints], y: Ints, data_fraction: float, scarce_clients: int | None, seed: int
) -> tuple[Ints, ...]:
    """The training parts with `data_fraction` of the samples of all clients, or of the last
    `scarce_clients`.
    """
    if not 0 < data_fraction <= 1:
        raise UserError(f"data_fraction must be above 0 and at most 1, not {data_fraction}")
    clients = len(train)
    if scarce_clients is not None and not 1 <= scarce_clients <= clients:
        raise UserError(
            f"scarce_clients must be 1..{clients}, the number of clients, not {scarce_clients}"
        )
    if data_fraction == 1:
        return tuple(train)
    first = clients - (scarce_clients or clients)
    parts = list(train)
    for client in range(first, clients):
        number = max(1, round(data_fraction * len(train[client])))
        rng = numpy_stream("partition", seed, "keep", client)
        parts[client] = choose(train[client], y, number, rng)
    return tuple(parts)


def hold_out(
    train: Sequence[Ints], y: Ints, fraction: float, seed: int
) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """The training parts that are left, and the validation parts: `fraction` of every client's
    training samples.

    Rounding leaves rare classes, and at least one sample, for training.
    """
    held = []
    for client, rows in enumerate(train):
        number = min(round(fraction * len(rows)), len(rows) - 1)
        rng = numpy_stream("partition", seed, "validation", client)
        held.append(choose(rows, y, number, rng))
    if not any(map(len, held)):
        raise UserError(
            f"validation = {fraction} holds out no sample: no client has enough training samples"
        )
    left = [
        np.setdiff1d(rows, out, assume_unique=True) for rows, out in zip(train, held, strict=True)
    ]
    return tuple(left), tuple(held)


def choose(rows: Ints, y: Ints, number: int, rng: np.random.Generator) -> Ints:
    """So many of a client's samples, sorted: of every class the first ones, in an order that is
    always the same.
    """
    shuffled = rng.permutation(rows)
    labels, group = np.unique(y[shuffled], return_inverse=True)
    group = rng.permutation(len(labels))[group]  # ties between classes are broken at random
    quotas = quota(np.bincount(group), number)
    chosen = [shuffled[group == g][:share] for g, share in enumerate(quotas)]
    return np.sort(np.concatenate(chosen))


def quota(counts: Ints, total: int) -> Ints:
    """`total` divided in the proportions of `counts` by the quota method of Balinski and Young
    (1975).

    As with the largest remainder, a class gets its exact share rounded down or up. Unlike there, a
    larger total never gives a class less (the Alabama paradox), which nested subsets need.
    """
    shares = np.zeros_like(counts)
    for size in range(1, total + 1):
        below_upper_quota = shares * counts.sum() < size * counts
        priority = np.where(below_upper_quota, counts / (shares + 1), -1.0)
        shares[np.argmax(priority)] += 1
    return shares
