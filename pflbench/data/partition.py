"""Which samples every client has: Dirichlet, pathological, IID and natural partitions of a pooled
data set.

A partition depends on its spec, its own seed, the labels and, if natural, the owners only. Every
client's samples are split into a training and a test part at random, without stratification.
Scarcity and a validation part, if asked for, are then taken from the training part.
"""

import functools
import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pflbench.data import natural, partition_file, scarcity
from pflbench.data.label_skew import Ints, dirichlet, pathological, repair
from pflbench.errors import UserError, unknown
from pflbench.rng import numpy_stream

KINDS = {
    "dir": "dir:BETA",
    "path": "path:CLASSES",
    "iid": "iid",
    "natural": "natural",
    "domains": "domains:K",
    "file": "file:PATH",
}


@dataclass(frozen=True, eq=False)
class Partition:
    """Per client, the sorted indices of its training, test and validation samples in the pooled
    data set.
    """

    train: tuple[Ints, ...]
    test: tuple[Ints, ...]
    validation: tuple[Ints, ...] = ()  # not given: every client has none

    def __post_init__(self) -> None:
        if not self.validation:
            none = np.zeros(0, dtype=np.int64)
            object.__setattr__(self, "validation", (none,) * len(self.train))

    @functools.cached_property
    def parts(self) -> dict[str, tuple[Ints, ...]]:
        """train, test and, if any client has one, validation."""
        parts = {"train": self.train, "test": self.test}
        if any(map(len, self.validation)):
            parts["validation"] = self.validation
        return parts

    @functools.cached_property
    def digest(self) -> str:
        """16 hex digits of SHA-256 over all indices, with the boundaries between clients and parts."""
        sha = hashlib.sha256()
        for client in zip(*self.parts.values(), strict=True):
            sha.update(np.array([len(rows) for rows in client], dtype="<i8").tobytes())
            sha.update(np.concatenate(client).astype("<i8").tobytes())
        return sha.hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write an .npz file that `file:PATH` reads."""
        partition_file.write(path, self.parts)


@dataclass(frozen=True)
class Options:
    """How a partition is drawn. A file is taken as it is: seed, test_fraction and min_samples do
    not touch it.
    """

    clients: int | None = 20  # None: as many as the file, or a natural partition, has
    seed: int = 0
    test_fraction: float = 0.25  # of a client's samples, rounded
    min_samples: int = 10  # that every client has, training and test together
    samples_per_client: tuple[int, int] | None = None  # (lo, hi): a size is drawn for every client
    overlap: bool = False  # samples_per_client are drawn from all samples of the client's classes
    max_samples: int | None = None  # that a client may have, in its class proportions
    data_fraction: float = 1.0  # of the training samples that scarce clients have
    scarce_clients: int | None = None  # the last so many; None: all
    validation: float = 0.0  # of the training samples that are left, held out


def make(
    spec: str, y: Ints, classes: int, options: Options | None = None, owner: Ints | None = None
) -> Partition:
    """The partition `dir:BETA`, `path:CLASSES`, `iid`, `natural`, `domains:K` or `file:PATH` of
    samples with the labels y and, for the natural ones, these owners.

    The test part is never reduced, so that accuracies are comparable.
    """
    options = options or Options()
    kind, _, argument = spec.partition(":")
    if kind not in KINDS:
        raise unknown("partition", spec, KINDS.values())
    _check(kind, options)
    if kind == "file":
        whole = Partition(**partition_file.read(argument, len(y), options.clients))
    else:
        owned = _resized(_divided(spec, y, classes, options, owner), y, options)
        pairs = [_split(rows, options, client) for client, rows in enumerate(owned)]
        whole = Partition(tuple(train for train, _ in pairs), tuple(test for _, test in pairs))
    train = scarcity.reduced(
        whole.train, y, options.data_fraction, options.scarce_clients, options.seed
    )
    if options.validation == 0:
        return replace(whole, train=train)
    if "validation" in whole.parts:
        raise UserError("validation cannot be used with a file:PATH that has a validation part")
    left, held = scarcity.hold_out(train, y, options.validation, options.seed)
    return Partition(left, whole.test, held)


def _check(kind: str, options: Options) -> None:
    """Refuse options that make no sense, alone or together."""
    if not 0 < options.test_fraction < 1:
        raise UserError(f"test_fraction must be between 0 and 1, not {options.test_fraction}")
    if not 0 <= options.validation < 1:
        raise UserError(f"validation must be at least 0 and below 1, not {options.validation}")
    if options.min_samples < 1:
        raise UserError(f"min_samples must be at least 1, not {options.min_samples}")
    for name in ("samples_per_client", "max_samples"):
        if kind == "file" and getattr(options, name) is not None:
            raise UserError(f"{name} cannot be used with file:PATH, whose sizes are given")
    if options.overlap and kind in natural.KINDS:
        raise UserError(f"overlap cannot be used with {KINDS[kind]}: samples have owners")
    _check_sizes(options)


def _check_sizes(options: Options) -> None:
    """Refuse sizes of clients that contradict one another."""
    sizes, most, least = options.samples_per_client, options.max_samples, options.min_samples
    if options.overlap and sizes is None:
        raise UserError("overlap needs samples_per_client")
    if sizes is not None and most is not None:
        raise UserError(
            "max_samples cannot be used together with samples_per_client, which says how many there are"
        )
    if sizes is not None and not 1 <= sizes[0] <= sizes[1]:
        raise UserError(
            f"samples_per_client must be two numbers LO, HI with 1 <= LO <= HI, not {tuple(sizes)}"
        )
    if sizes is not None and sizes[0] < least:
        raise UserError(
            f"samples_per_client may be as low as {sizes[0]}, below min_samples = {least}"
        )
    if most is not None and most < least:
        raise UserError(f"max_samples = {most} is below min_samples = {least}")


def _number_of_clients(options: Options, samples: int) -> int:
    """The number of clients, if there are samples for so many."""
    clients, least = options.clients, options.min_samples
    if clients is None or clients < 1:
        raise UserError(f"the number of clients must be at least 1, not {clients}")
    if clients > samples:
        raise UserError(f"{clients} clients are more than the {samples} samples")
    if clients * least > samples:
        raise UserError(
            f"{clients} clients with min_samples = {least} need {clients * least} samples,"
            f" but there are {samples}"
        )
    return clients


def _divided(spec: str, y: Ints, classes: int, options: Options, owners: Ints | None) -> list[Ints]:
    """The samples, each given to one client: per client its sorted indices."""
    kind, _, argument = spec.partition(":")
    if kind == "natural":
        return natural.natural(spec, owners, options.clients, options.min_samples)
    if kind == "domains":
        return natural.domains(spec, owners, options.clients, options.min_samples, options.seed)
    clients = _number_of_clients(options, len(y))
    rng = numpy_stream("partition", options.seed, kind)
    if kind == "iid":
        if argument:
            raise UserError(f"partition 'iid' takes no argument; given: {spec!r}")
        owner = rng.permutation(np.arange(len(y)) % clients)
    else:
        draw = dirichlet if kind == "dir" else pathological
        counts = draw(argument, np.bincount(y, minlength=classes), clients, rng)
        repair(counts, options.min_samples, fixed=kind == "path")
        owner = np.empty(len(y), dtype=np.int64)
        for label in range(classes):
            rows = rng.permutation(np.flatnonzero(y == label))
            owner[rows] = np.repeat(np.arange(clients), counts[:, label])
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=clients))[:-1])


def _resized(owned: Sequence[Ints], y: Ints, options: Options) -> Sequence[Ints]:
    """The clients' samples, as many as `samples_per_client` or `max_samples` say."""
    if options.samples_per_client is not None:
        sizes = _drawn_sizes(owned, options.samples_per_client, options.overlap, options.seed)
    elif options.max_samples is not None:
        sizes = [min(len(rows), options.max_samples) for rows in owned]
    else:
        return owned
    return resize(owned, y, sizes, options.overlap, options.seed)


def _drawn_sizes(
    owned: Sequence[Ints], limits: tuple[int, int], overlap: bool, seed: int
) -> list[int]:
    """A size for every client from lo..hi, which it can have."""
    lo, hi = limits
    rng = numpy_stream("partition", seed, "sizes")
    drawn = rng.integers(lo, hi, size=len(owned), endpoint=True)
    if overlap:
        warnings.warn(
            "overlap: training and test samples of different clients overlap", stacklevel=4
        )
    for client, (rows, size) in enumerate(zip(owned, drawn, strict=True)):
        if size > len(rows) and not overlap:
            raise UserError(
                f"client {client} has {len(rows)} samples, fewer than the {size} drawn for it from {lo}..{hi};"
                " ask for fewer, use fewer clients, or set overlap to let clients share samples"
            )
    return [int(size) for size in drawn]


def resize(
    owned: Sequence[Ints], y: Ints, sizes: Sequence[int], overlap: bool, seed: int
) -> list[Ints]:
    """Give every client so many samples, its class proportions kept (largest remainder)."""
    of_class = [np.flatnonzero(y == label) for label in range(int(y.max()) + 1)]
    resized = []
    for client, (rows, size) in enumerate(zip(owned, sizes, strict=True)):
        rng = numpy_stream("partition", seed, "resize", client)
        labels, counts = np.unique(y[rows], return_counts=True)
        parts = []
        for label, number in zip(labels, largest_remainder(counts, size), strict=True):
            pool = of_class[label] if overlap else rows[y[rows] == label]
            if number > len(pool):
                raise UserError(
                    f"client {client} needs {number} samples of class {label} to have {size} samples"
                    f" in its class proportions, but the class has {len(pool)}"
                )
            parts.append(rng.choice(pool, number, replace=False))
        resized.append(np.sort(np.concatenate(parts)))
    return resized


def largest_remainder(counts: Ints, total: int) -> Ints:
    """`total` divided in the proportions of `counts`: rounded down, the rest to the largest
    remainders.
    """
    shares, remainders = np.divmod(counts * total, counts.sum())
    shares[np.argsort(-remainders, kind="stable")[: total - shares.sum()]] += 1
    return shares


def _split(rows: Ints, options: Options, client: int) -> tuple[Ints, Ints]:
    """Training and test part; both have a sample where there are two or more."""
    shuffled = numpy_stream("partition", options.seed, "split", client).permutation(rows)
    test = min(max(round(options.test_fraction * len(rows)), 1), len(rows) - 1)
    return np.sort(shuffled[test:]), np.sort(shuffled[:test])
