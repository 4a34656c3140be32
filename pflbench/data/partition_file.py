"""Partitions in .npz files: index arrays train_0, test_0, train_1, ... into the pooled data set.

With a validation part there are three arrays for each client: validation_0, ... too.
"""

import contextlib
import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.data.label_skew import Ints
from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError


def write(path: Path, parts: Mapping[str, Sequence[Ints]]) -> None:
    """Write the parts (train, test, validation) of all clients; the file appears whole or not at
    all.
    """
    path = Path(path)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    arrays: Any = {
        f"{part}_{client}": rows
        for part, clients in parts.items()
        for client, rows in enumerate(clients)
    }
    try:
        with aside.open("wb") as file:
            np.savez(file, **arrays)
        os.replace(aside, path)
    except OSError as error:
        raise UserError(
            f"cannot write the partition to {path}: {error.strerror or error}"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


def read(path: str, samples: int, clients: int | None) -> dict[str, tuple[Ints, ...]]:
    """The parts of all clients, sorted: train, test and, if the file has it, validation.

    `samples` is the size of the data set; `clients`, if given, how many there must be.
    """
    if not path:
        raise UserError("partition 'file' needs a file: file:PATH")
    arrays = plain_arrays(path)
    found = sum(name.startswith("train_") for name in arrays)
    names = ("train", "test", "validation") if "validation_0" in arrays else ("train", "test")
    if not found or {f"{name}_{i}" for name in names for i in range(found)} != set(arrays):
        raise UserError(
            f"{path}: the arrays must be train_0, test_0, train_1, ... without a gap, two for each"
            " client, or three, with validation_0, ..."
        )
    if clients is not None and clients != found:
        raise UserError(f"{path} has {found} clients, but clients = {clients}")
    for name, indices in arrays.items():
        _check_indices(path, name, indices, samples)
    parts = {
        name: tuple(np.sort(arrays[f"{name}_{i}"]).astype(np.int64) for i in range(found))
        for name in names
    }
    for client in range(found):
        _check_client(path, client, {name: part[client] for name, part in parts.items()})
    if len(np.intersect1d(np.concatenate(parts["train"]), np.concatenate(parts["test"]))):
        warnings.warn(
            f"{path}: training and test samples of different clients overlap", stacklevel=4
        )
    return parts


def _check_indices(path: str, name: str, indices: npt.NDArray[Any], samples: int) -> None:
    """Refuse an array that is no list of samples of the data set."""
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise UserError(
            f"{path}: {name} must be integers in one axis, not {indices.dtype} {indices.shape}"
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < samples:
        raise UserError(
            f"{path}: {name} has an index outside 0..{samples - 1}, the samples of the data set"
        )


def _check_client(path: str, client: int, parts: Mapping[str, Ints]) -> None:
    """Refuse a client that cannot train, or that has a sample twice."""
    if not parts["train"].size:
        raise UserError(f"{path}: client {client} has no training sample")
    rows = np.concatenate(list(parts.values()))
    if len(np.unique(rows)) < len(rows):
        names = " and ".join(f"{name}_{client}" for name in parts)
        raise UserError(f"{path}: client {client} has a sample twice in {names}")
