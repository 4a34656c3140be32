"""Who has which samples: Dirichlet, pathological and IID partitions of a pooled data set, and scarcity on top.

A partition depends on its spec, its own seed and the labels only. Every client's samples are split into a training and
a test part at random, without stratification, the test part's size being `test_fraction` of them, rounded. A
validation part, if asked for, is then taken from what is left to train on.
"""

import contextlib
import functools
import hashlib
import os
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pflbench.data.label_skew import Ints, dirichlet, pathological, repair
from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError, unknown
from pflbench.rng import numpy_stream

KINDS = {"dir": "dir:BETA", "path": "path:CLASSES", "iid": "iid", "file": "file:PATH"}


@dataclass(frozen=True, eq=False)
class Partition:
    """Per client, the sorted indices of its training, test and validation samples in the pooled data set."""

    train: tuple[Ints, ...]
    test: tuple[Ints, ...]
    validation: tuple[Ints, ...] = ()  # not given: every client has none

    def __post_init__(self) -> None:
        if not self.validation:
            object.__setattr__(self, "validation", (np.zeros(0, dtype=np.int64),) * len(self.train))

    @functools.cached_property
    def parts(self) -> dict[str, tuple[Ints, ...]]:
        """train, test and, if any client has one, validation."""
        held_out = {"validation": self.validation} if any(map(len, self.validation)) else {}
        return {"train": self.train, "test": self.test, **held_out}

    @functools.cached_property
    def digest(self) -> str:
        """16 hex digits of SHA-256 over all indices, with the boundaries between clients and parts."""
        sha = hashlib.sha256()
        for client in zip(*self.parts.values(), strict=True):
            sha.update(np.array([len(rows) for rows in client], dtype="<i8").tobytes())
            sha.update(np.concatenate(client).astype("<i8").tobytes())
        return sha.hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write train_0, test_0, train_1, ... as .npz, which `file:PATH` reads; the file appears whole or not."""
        path = Path(path)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        arrays: Any = {
            f"{name}_{i}": rows
            for name, clients in self.parts.items()
            for i, rows in enumerate(clients)
        }
        try:
            with part.open("wb") as file:
                np.savez(file, **arrays)
            os.replace(part, path)
        except OSError as error:
            raise UserError(
                f"cannot write the partition to {path}: {error.strerror or error}"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()


def make(
    spec: str,
    y: Ints,
    classes: int,
    *,
    clients: int | None = 20,
    seed: int = 0,
    test_fraction: float = 0.25,
    min_samples: int = 10,
    samples_per_client: tuple[int, int] | None = None,
    overlap: bool = False,
    max_samples: int | None = None,
    data_fraction: float = 1.0,
    scarce_clients: int | None = None,
    validation: float = 0.0,
) -> Partition:
    """The partition `dir:BETA`, `path:CLASSES`, `iid` or `file:PATH` of samples with the labels y.

    `clients=None` means as many as the file has; a file is taken as it is, so that `seed`, `test_fraction` and
    `min_samples` do not touch its split. `samples_per_client=(lo, hi)` draws each client's size from lo..hi and keeps
    its class proportions, with `overlap` by drawing from all samples of a class. `max_samples` leaves a client at most
    that many, in its class proportions too. `data_fraction` is the fraction of the TRAINING samples that all clients, or the
    last `scarce_clients` ones, have, class proportions unchanged and smaller fractions within larger ones; the test part
    stays whole so that accuracies are comparable. `validation` is the fraction of what is kept for training that is
    held out, in the same way.
    """
    kind, _, argument = spec.partition(":")
    if kind not in KINDS:
        raise unknown("partition", spec, KINDS.values())
    _check_options(kind, test_fraction, min_samples, samples_per_client, overlap, max_samples)
    if kind == "file":
        partition = _read(argument, len(y), clients)
    else:
        owned = _divide(spec, y, classes, _clients(clients, len(y), min_samples), seed, min_samples)
        if samples_per_client is not None:
            owned = _resize(
                owned, y, _drawn_sizes(owned, samples_per_client, overlap, seed), overlap, seed
            )
        elif max_samples is not None:
            owned = _resize(
                owned, y, [min(len(indices), max_samples) for indices in owned], False, seed
            )
        pairs = [_split(indices, test_fraction, seed, i) for i, indices in enumerate(owned)]
        partition = Partition(tuple(train for train, _ in pairs), tuple(test for _, test in pairs))
    return _hold_out(
        _scarce(partition, y, data_fraction, scarce_clients, seed), y, validation, seed
    )


def _check_options(
    kind: str,
    test_fraction: float,
    min_samples: int,
    sizes: tuple[int, int] | None,
    overlap: bool,
    most: int | None,
) -> None:
    if not 0 < test_fraction < 1:
        raise UserError(f"test_fraction must be between 0 and 1, not {test_fraction}")
    if min_samples < 1:
        raise UserError(f"min_samples must be at least 1, not {min_samples}")
    if overlap and sizes is None:
        raise UserError("overlap has a meaning only together with samples_per_client")
    if sizes is not None and most is not None:
        raise UserError(
            "max_samples cannot be used together with samples_per_client, which says how many there are"
        )
    for name, value in (("samples_per_client", sizes), ("max_samples", most)):
        if kind == "file" and value is not None:
            raise UserError(f"{name} cannot be used with file:PATH, whose sizes are given")
    if sizes is not None and not 1 <= sizes[0] <= sizes[1]:
        raise UserError(
            f"samples_per_client must be two numbers LO, HI with 1 <= LO <= HI, not {tuple(sizes)}"
        )
    if sizes is not None and sizes[0] < min_samples:
        raise UserError(
            f"samples_per_client may be as low as {sizes[0]}, below min_samples = {min_samples}"
        )
    if most is not None and most < min_samples:
        raise UserError(f"max_samples = {most} is below min_samples = {min_samples}")


def _clients(clients: int | None, samples: int, min_samples: int) -> int:
    if clients is None or clients < 1:
        raise UserError(f"the number of clients must be at least 1, not {clients}")
    if clients > samples:
        raise UserError(f"{clients} clients are more than the {samples} samples")
    if clients * min_samples > samples:
        raise UserError(
            f"{clients} clients with min_samples = {min_samples} need {clients * min_samples} samples,"
            f" but there are {samples}"
        )
    return clients


def _divide(spec: str, y: Ints, classes: int, clients: int, seed: int, minimum: int) -> list[Ints]:
    """All samples, each given to one client: per client its sorted indices."""
    kind, _, argument = spec.partition(":")
    rng = numpy_stream("partition", seed, kind)
    sizes = np.bincount(y, minlength=classes)
    if kind == "iid":
        if argument:
            raise UserError(f"partition 'iid' takes no argument; given: {spec!r}")
        owner = rng.permutation(np.arange(len(y)) % clients)
    else:
        counts = (dirichlet if kind == "dir" else pathological)(argument, sizes, clients, rng)
        repair(counts, minimum, fixed=kind == "path")
        owner = np.empty(len(y), dtype=np.int64)
        for label in range(classes):
            owner[rng.permutation(np.flatnonzero(y == label))] = np.repeat(
                np.arange(clients), counts[:, label]
            )
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=clients))[:-1])


def _drawn_sizes(
    owned: Sequence[Ints], limits: tuple[int, int], overlap: bool, seed: int
) -> list[int]:
    """A size for every client from lo..hi, which it can have."""
    lo, hi = limits
    drawn = numpy_stream("partition", seed, "sizes").integers(
        lo, hi, size=len(owned), endpoint=True
    )
    if overlap:
        warnings.warn(
            "overlap: training and test samples of different clients overlap", stacklevel=3
        )
    for client, (indices, size) in enumerate(zip(owned, drawn, strict=True)):
        if size > len(indices) and not overlap:
            raise UserError(
                f"client {client} has {len(indices)} samples, fewer than the {size} drawn for it from {lo}..{hi};"
                " ask for fewer, use fewer clients, or set overlap to let clients share samples"
            )
    return [int(size) for size in drawn]


def _resize(
    owned: Sequence[Ints], y: Ints, sizes: Sequence[int], overlap: bool, seed: int
) -> list[Ints]:
    """Give every client so many samples, its class proportions kept (largest remainder)."""
    everywhere = [np.flatnonzero(y == label) for label in range(int(y.max()) + 1)]
    resized = []
    for client, (indices, size) in enumerate(zip(owned, sizes, strict=True)):
        rng = numpy_stream("partition", seed, "resize", client)
        labels, have = np.unique(y[indices], return_counts=True)
        parts = []
        for label, number in zip(labels, _largest_remainder(have, size), strict=True):
            pool = everywhere[label] if overlap else indices[y[indices] == label]
            if number > len(pool):
                raise UserError(
                    f"client {client} needs {number} samples of class {label} to have {size} samples"
                    f" in its class proportions, but the class has {len(pool)}"
                )
            parts.append(rng.choice(pool, number, replace=False))
        resized.append(np.sort(np.concatenate(parts)))
    return resized


def _largest_remainder(have: Ints, total: int) -> Ints:
    """`total` divided in the proportions of `have`: rounded down, the rest to the largest remainders."""
    shares, remainders = np.divmod(have * total, have.sum())
    shares[np.argsort(-remainders, kind="stable")[: total - shares.sum()]] += 1
    return shares


def _split(indices: Ints, fraction: float, seed: int, client: int) -> tuple[Ints, Ints]:
    """Training and test part; both have a sample where there are two or more."""
    shuffled = numpy_stream("partition", seed, "split", client).permutation(indices)
    test = min(max(round(fraction * len(indices)), 1), len(indices) - 1)
    return np.sort(shuffled[test:]), np.sort(shuffled[:test])


def _scarce(
    partition: Partition, y: Ints, data_fraction: float, scarce_clients: int | None, seed: int
) -> Partition:
    clients = len(partition.train)
    if not 0 < data_fraction <= 1:
        raise UserError(f"data_fraction must be above 0 and at most 1, not {data_fraction}")
    if scarce_clients is not None and not 1 <= scarce_clients <= clients:
        raise UserError(
            f"scarce_clients must be 1..{clients}, the number of clients, not {scarce_clients}"
        )
    if data_fraction == 1:
        return partition
    first = clients - (scarce_clients or clients)
    kept = [
        _chosen(
            rows,
            y,
            max(1, round(data_fraction * len(rows))),
            numpy_stream("partition", seed, "keep", i),
        )
        for i, rows in enumerate(partition.train[first:], first)
    ]
    return replace(partition, train=(*partition.train[:first], *kept))


def _hold_out(partition: Partition, y: Ints, fraction: float, seed: int) -> Partition:
    """Move training samples to the validation part; rounding leaves rare classes, and one sample, to training."""
    if not 0 <= fraction < 1:
        raise UserError(f"validation must be at least 0 and below 1, not {fraction}")
    if fraction == 0:
        return partition
    if "validation" in partition.parts:
        raise UserError("validation cannot be used with a file:PATH that has a validation part")
    held = []
    for i, rows in enumerate(partition.train):
        number = min(round(fraction * len(rows)), len(rows) - 1)
        held.append(_chosen(rows, y, number, numpy_stream("partition", seed, "validation", i)))
    if not any(map(len, held)):
        raise UserError(
            f"validation = {fraction} holds out no sample: no client has enough training samples"
        )
    left = [
        np.setdiff1d(rows, out, assume_unique=True)
        for rows, out in zip(partition.train, held, strict=True)
    ]
    return Partition(tuple(left), partition.test, tuple(held))


def _chosen(rows: Ints, y: Ints, number: int, rng: np.random.Generator) -> Ints:
    """So many samples in class proportions, the first of every class in an order that does not depend on the number."""
    shuffled = rng.permutation(rows)
    labels, kind = np.unique(y[shuffled], return_inverse=True)
    kind = rng.permutation(len(labels))[kind]  # ties between classes are settled at random
    numbers = _quota(np.bincount(kind), number)
    return np.sort(np.concatenate([shuffled[kind == k][:n] for k, n in enumerate(numbers)]))


def _quota(have: Ints, total: int) -> Ints:
    """`total` divided in the proportions of `have` by Balinski and Young's quota method (1975).

    Like the largest remainder it gives a class its exact share rounded down or up; unlike it, a larger total never
    gives a class less (the Alabama paradox), which nested subsets need.
    """
    numbers = np.zeros_like(have)
    for size in range(1, total + 1):
        below_upper_quota = numbers * have.sum() < size * have
        numbers[np.argmax(np.where(below_upper_quota, have / (numbers + 1), -1.0))] += 1
    return numbers


def _read(path: str, samples: int, clients: int | None) -> Partition:
    """A partition that `Partition.save` or somebody else wrote."""
    if not path:
        raise UserError("partition 'file' needs a file: file:PATH")
    arrays = plain_arrays(path)
    found = sum(name.startswith("train_") for name in arrays)
    parts = ("train", "test", "validation") if "validation_0" in arrays else ("train", "test")
    if not found or {f"{part}_{i}" for i in range(found) for part in parts} != set(arrays):
        raise UserError(
            f"{path}: the arrays must be train_0, test_0, train_1, ... without a gap, two for each client,"
            " or three, with validation_0, ..."
        )
    if clients is not None and clients != found:
        raise UserError(f"{path} has {found} clients, and {clients} are asked for")
    for name, indices in arrays.items():
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise UserError(
                f"{path}: {name} must be integers in one axis, not {indices.dtype} {indices.shape}"
            )
        if indices.size and not 0 <= indices.min() <= indices.max() < samples:
            raise UserError(
                f"{path}: {name} has an index outside 0..{samples - 1}, the samples of the data set"
            )
    read = [
        tuple(np.sort(arrays[f"{part}_{i}"]).astype(np.int64) for i in range(found))
        for part in parts
    ]
    for i, client in enumerate(zip(*read, strict=True)):
        if not client[0].size:
            raise UserError(f"{path}: client {i} has no training sample")
        if len(np.unique(np.concatenate(client))) < sum(map(len, client)):
            raise UserError(
                f"{path}: client {i} has a sample twice in {' and '.join(f'{part}_{i}' for part in parts)}"
            )
    return Partition(*read)
