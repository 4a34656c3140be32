"""How many samples of each class a client has: tables (clients, classes) of Dirichlet and
pathological partitions.
"""

import math

import numpy as np
import numpy.typing as npt

from pflbench.errors import UserError

Ints = npt.NDArray[np.int64]


def dirichlet(argument: str, sizes: Ints, clients: int, rng: np.random.Generator) -> Ints:
    """Samples per client and class (clients, classes): class c is divided by p_c ~ Dir(beta, ...,
    beta).

    The classes come in random order, and p_c is cut to the clients that have fewer than n / N
    samples so far; where nothing of it is left (small beta: the rest underflows to zero), those
    clients share the class evenly.
    """
    try:
        beta = float(argument)
    except ValueError:
        beta = math.nan
    if not 0 < beta < math.inf:
        raise UserError(
            f"partition 'dir' needs a finite number above 0, dir:BETA; given: {argument!r}"
        )
    counts = np.zeros((clients, len(sizes)), dtype=np.int64)
    for label in rng.permutation(len(sizes)):
        below_mean = counts.sum(axis=1) * clients < sizes.sum()
        share = rng.dirichlet(np.full(clients, beta)) * below_mean
        if not share.sum() > 0:
            share = below_mean.astype(np.float64)
        cuts = np.rint(np.cumsum(share) / share.sum() * sizes[label]).astype(np.int64)
        cuts[-1] = sizes[label]
        counts[:, label] = np.diff(cuts, prepend=0)
    return counts


def pathological(argument: str, sizes: Ints, clients: int, rng: np.random.Generator) -> Ints:
    """Samples per client and class (clients, classes): a fixed number of classes per client, shared
    evenly by holders.
    """
    classes = len(sizes)
    if not argument.isdecimal() or not 1 <= int(argument) <= classes:
        raise UserError(
            f"partition 'path' needs a whole number of 1..{classes}, path:CLASSES; given: {argument!r}"
        )
    holds = _label_sets(int(argument), sizes, clients, rng)
    counts = np.zeros((clients, classes), dtype=np.int64)
    for label in range(classes):
        holders = rng.permutation(np.flatnonzero(holds[:, label]))
        if sizes[label] < len(holders):
            raise UserError(
                f"class {label} has {sizes[label]} samples for the {len(holders)} clients that hold it in"
                f" path:{argument} with {clients} clients; use fewer clients or fewer classes per client"
            )
        counts[holders, label] = sizes[label] // len(holders)
        counts[holders[: sizes[label] % len(holders)], label] += 1
    return counts


def _label_sets(
    per_client: int, sizes: Ints, clients: int, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Which client holds which class (clients, classes): rows sum to per_client, columns are equal
    to within one.

    A client draws its classes with weights = holders still to be found. A class that all remaining
    clients must hold comes first; then no class ever lacks more holders than clients remain, and
    nothing has to be drawn again.
    """
    classes = len(sizes)
    if clients * per_client < classes:
        raise UserError(
            f"path:{per_client} with {clients} clients has room for {clients * per_client} of the {classes} classes;"
            " clients x classes per client must be at least the number of classes"
        )
    left = np.full(classes, clients * per_client // classes)
    largest_first = np.lexsort((rng.random(classes), -sizes))
    left[largest_first[: clients * per_client % classes]] += 1
    holds = np.zeros((clients, classes), dtype=np.bool_)
    for remaining, client in zip(range(clients, 0, -1), rng.permutation(clients), strict=True):
        wait = rng.exponential(size=classes) / np.maximum(left, 1)
        wait[left == 0] = np.inf
        wait[left == remaining] = -1.0
        chosen = np.argsort(wait)[:per_client]
        holds[client, chosen] = True
        left[chosen] -= 1
    return holds


def repair(counts: Ints, minimum: int, *, fixed: bool) -> None:
    """Raise, in place, every client to the minimum with samples of the largest clients' largest
    classes.

    One pass over the clients below it; each step moves a sample or more, and no giver falls below
    the minimum. With `fixed`, only classes that the client holds move, and the giver keeps one
    sample of each.
    """
    sizes = counts.sum(axis=1)
    for poor in np.flatnonzero(sizes < minimum):
        held = np.flatnonzero(counts[poor]) if fixed else np.arange(counts.shape[1])
        while (need := minimum - sizes[poor]) > 0:
            gives = sizes if not fixed else np.where((counts[:, held] > 1).any(axis=1), sizes, 0)
            rich = np.argmax(gives)
            if gives[rich] <= minimum:
                raise UserError(
                    f"client {poor} has {sizes[poor]} samples of its classes {', '.join(map(str, held))}, below"
                    f" min_samples = {minimum}, and no other holder can spare one; use fewer clients or lower it"
                )
            label = held[np.argmax(counts[rich, held])]
            moved = min(need, counts[rich, label] - fixed, max(1, (sizes[rich] - minimum) // 2))
            counts[[poor, rich], label] += (moved, -moved)
            sizes[[poor, rich]] += (moved, -moved)
