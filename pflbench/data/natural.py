"""Partitions by who owns a sample in the data: one client per owner, or clients of a few domains."""

import warnings

import numpy as np

from pflbench.data.label_skew import Ints
from pflbench.errors import UserError
from pflbench.rng import numpy_stream

KINDS = ("natural", "domains")


def owned(owner: Ints, least: int) -> list[Ints]:
    """The samples of every owner that has at least so many, in the order of their names."""
    sizes = np.bincount(owner)
    rows = np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])
    return [own for own in rows if len(own) >= least]


def number(owner: Ints | None, least: int) -> int:
    """How many clients a natural partition has."""
    return max(1, len(owned(_known("natural", owner), least)))


def natural(spec: str, owner: Ints | None, clients: int | None, least: int) -> list[Ints]:
    """One client for every owner, or the first so many. Owners with fewer than `least` samples are
    left out.
    """
    if spec != "natural":
        raise UserError(f"partition 'natural' takes no argument; given: {spec!r}")
    known = _known(spec, owner)
    found = owned(known, least)
    few = len(np.unique(known)) - len(found)
    if not found:
        raise UserError(f"partition 'natural': no client has min_samples = {least} samples")
    if clients is not None and clients > len(found):
        raise UserError(
            f"partition 'natural': {clients} clients are asked for, and the data set has"
            f" {len(found)} with at least min_samples = {least} samples"
        )
    if few:
        warnings.warn(
            f"partition 'natural': {few} of {few + len(found)} clients have fewer than"
            f" min_samples = {least} samples and are left out",
            stacklevel=4,
        )
    return found[:clients]


def domains(
    spec: str, owner: Ints | None, clients: int | None, least: int, seed: int
) -> list[Ints]:
    """Client i has samples of domain i mod K, which its clients share evenly, at random."""
    known = _known(spec, owner)
    there = len(np.unique(known))
    argument = spec.partition(":")[2]
    number = int(argument) if argument.isdecimal() and len(argument) < 10 else 0
    if not 1 <= number <= there:
        raise UserError(
            f"partition 'domains' needs a whole number of 1..{there}, the domains of the data set,"
            f" domains:K; given: {argument!r}"
        )
    if clients is None or clients < number:
        raise UserError(f"{spec} needs at least {number} clients, one for each domain")
    rng = numpy_stream("partition", seed, "domains")
    parts: list[Ints] = [np.zeros(0, dtype=np.int64)] * clients
    for domain, rows in enumerate(owned(known, 1)[:number]):
        own = range(domain, clients, number)
        if len(rows) < len(own) * least:
            raise UserError(
                f"{spec}: a domain has {len(rows)} samples for {len(own)} clients with"
                f" min_samples = {least}; use fewer clients or lower it"
            )
        for client, part in zip(own, np.array_split(rng.permutation(rows), len(own)), strict=True):
            parts[client] = np.sort(part)
    return parts


def _known(spec: str, owner: Ints | None) -> Ints:
    if owner is None:
        raise UserError(
            f"partition {spec!r} needs a data set that says whose its samples are (an array"
            " `client`); this one does not"
        )
    return owner
