"""The arrays of a data set, wherever they come from: kinds of samples, labels, owners; one line for
every mistake.

The type of x says what the samples are: uint8 images, float32 features, int64 tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.data.label_skew import Ints
from pflbench.errors import UserError

Array = npt.NDArray[Any]

KINDS = {"uint8": "images", "float32": "features", "int64": "tokens"}
"""What samples are, by the type of x."""
UNITS = {"uint8": "images", "float32": "samples", "int64": "texts"}
"""What people call them."""
CHANNELS = range(1, 5)
LAYOUTS = "N x H x W, N x H x W x C or N x C x H x W, with C in 1..4"
LARGEST = 10_000_000  # tokens of a vocabulary
SHOWN = 3  # labels that a remark names


@dataclass(frozen=True, eq=False)
class Arrays:
    """A pooled data set as it is read: samples, labels and, where it is known, whose they are."""

    x: Array  # (n, channels, height, width) uint8, (n, ...) float32 or (n, length) int64
    y: Ints  # (n,)
    client: Ints | None = None  # (n,): whose sample it is, as a place in client_names
    class_names: tuple[str, ...] = ()
    client_names: tuple[str, ...] = ()
    vocabulary: int | None = None  # number of different tokens; None: other samples

    @property
    def classes(self) -> int:
        return len(self.class_names) or int(self.y.max()) + 1


def of(found: Arrays | tuple[Array, Ints]) -> Arrays:
    """What a data set's module reads; a pair is (x, y)."""
    return found if isinstance(found, Arrays) else Arrays(*found)


def tidy(given: Mapping[str, Any], where: str) -> Arrays:
    """A user's arrays by name, checked: x, y and optionally client, class_names, vocabulary."""
    missing = [name for name in ("x", "y") if given.get(name) is None]
    if missing:
        found = ", ".join(sorted(given)) or "none"
        raise UserError(
            f"{where} has no array {' and no array '.join(missing)}; its arrays: {found}"
        )
    x = _samples(np.asarray(given["x"]), where)
    y, names = _labels(np.asarray(given["y"]), given.get("class_names"), where)
    if len(x) != len(y):
        raise UserError(f"{where}: x has {len(x)} samples and y has {len(y)} labels")
    owner: Ints | None = None
    owners: tuple[str, ...] = ()
    if given.get("client") is not None:
        owner, owners = _owners(np.asarray(given["client"]), len(x), where)
    return Arrays(x, y, owner, names, owners, _vocabulary(x, given.get("vocabulary"), where))


def gaps(where: str, y: Ints, classes: int) -> str | None:
    """What labels with gaps lead to; None if there are none."""
    unused = np.flatnonzero(np.bincount(y, minlength=classes) == 0).tolist()
    if not unused:
        return None
    shown = ", ".join(map(str, unused[:SHOWN])) + (", ..." if len(unused) > SHOWN else "")
    return (
        f"{where}: no sample has the label {shown}; every label of 0..{classes - 1} counts as a"
        f" class, so networks have {classes} outputs and path:CLASSES divides {classes} classes;"
        f" number the {classes - len(unused)} labels from 0 to avoid that"
    )


def _samples(x: Array, where: str) -> Array:
    """Samples as uint8 (n, channels, height, width), float32 (n, ...) or int64 (n, length)."""
    if x.size == 0:
        raise UserError(f"{where}: x is empty, its shape is {x.shape}")
    if x.dtype == np.uint8:
        return _images(x, where)
    if x.dtype.kind == "f":
        return _features(x, where)
    if x.dtype.kind in "iu":
        return _tokens(x, where)
    raise UserError(
        f"{where}: x is {x.dtype}; it must be uint8 (images), float32 (features) or int64 (tokens)"
    )


def _images(x: Array, where: str) -> Array:
    if x.ndim not in (3, 4):
        raise UserError(
            f"{where}: x has the shape {x.shape}; images (uint8) are {LAYOUTS}; features are"
            " float32, tokens int64"
        )
    if x.ndim == 3:
        x = x[:, None]
    elif x.shape[3] in CHANNELS:
        x = x.transpose(0, 3, 1, 2)
    elif x.shape[1] not in CHANNELS:
        raise UserError(
            f"{where}: x has the shape {x.shape}, without an axis of 1..4 channels; images (uint8)"
            f" are {LAYOUTS}"
        )
    return np.ascontiguousarray(x)


def _features(x: Array, where: str) -> Array:
    if x.ndim < 2:
        raise UserError(f"{where}: x has the shape {x.shape}; features are N x D, or of more axes")
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(x, dtype=np.float32)
    broken = int(np.count_nonzero(~np.isfinite(found).reshape(len(found), -1).all(1)))
    if broken:
        raise UserError(
            f"{where}: {broken} samples of x have numbers that are not finite; fill them in, or"
            " leave those samples out"
        )
    return found


def _tokens(x: Array, where: str) -> Array:
    if x.ndim != 2:
        raise UserError(
            f"{where}: x has the shape {x.shape}; tokens (integers) are N x L; features are float32"
        )
    if x.min() < 0 or x.max() >= LARGEST:
        wrong = x.min() if x.min() < 0 else x.max()
        raise UserError(
            f"{where}: x has the token {wrong}; tokens number the words, 0..{LARGEST - 1}; numbers"
            " that are measured are float32"
        )
    return np.ascontiguousarray(x, dtype=np.int64)


def _vocabulary(x: Array, given: Any, where: str) -> int | None:
    """The number of different tokens: as given, or one more than the largest."""
    if KINDS[x.dtype.name] != "tokens":
        return None
    least = int(x.max()) + 1
    if given is None:
        return least
    found = np.asarray(given)
    if found.size != 1 or found.dtype.kind not in "iu" or not least <= int(found.item()) <= LARGEST:
        raise UserError(
            f"{where}: vocabulary must be a whole number of {least}..{LARGEST}, since x has the"
            f" token {least - 1}"
        )
    return int(found.item())


def _labels(y: Array, names: Any, where: str) -> tuple[Ints, tuple[str, ...]]:
    """Labels 0..C-1, and the names of the classes, if there are any."""
    if y.ndim != 1:
        raise UserError(f"{where}: y must have one axis, not the shape {y.shape}")
    texts = _texts(y)
    if texts is not None:
        if names is not None:
            raise UserError(f"{where}: y has names already; leave class_names out")
        found, label = np.unique(texts, return_inverse=True)
        return label.astype(np.int64), tuple(map(str, found))
    if y.dtype.kind not in "iu":
        raise UserError(f"{where}: y must be integers or texts, not {y.dtype}")
    classes = () if names is None else _class_names(np.asarray(names), where)
    if y.size and y.min() < 0:
        raise UserError(f"{where}: y has the label {y.min()}; labels are 0..C-1")
    if classes and y.max() >= len(classes):
        raise UserError(f"{where}: y has the label {y.max()} and class_names {len(classes)} names")
    if y.size and not classes and y.max() >= len(y):
        raise UserError(
            f"{where}: y has the label {y.max()} and only {len(y)} samples; labels are 0..C-1"
        )
    return y.astype(np.int64), classes


def _class_names(names: Array, where: str) -> tuple[str, ...]:
    texts = _texts(names)
    if texts is None or names.ndim != 1 or len(set(texts.tolist())) < len(texts):
        raise UserError(f"{where}: class_names must be different texts, one for each label 0..C-1")
    return tuple(map(str, texts))


def _owners(client: Array, samples: int, where: str) -> tuple[Ints, tuple[str, ...]]:
    """Whose every sample is, as a place in the names, which are sorted (numbers as numbers)."""
    if client.shape != (samples,):
        raise UserError(
            f"{where}: client has the shape {client.shape}; it must say for each of the {samples}"
            " samples of x whose it is"
        )
    texts = _texts(client)
    if texts is None and client.dtype.kind not in "iu":
        raise UserError(f"{where}: client must be integers or texts, not {client.dtype}")
    names, owner = np.unique(client if texts is None else texts, return_inverse=True)
    return owner.astype(np.int64), tuple(map(str, names))


def _texts(values: Array) -> Array | None:
    """An array of texts; None if it is something else."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "O" and all(isinstance(one, str) for one in values.ravel()):
        return values.astype(np.str_)
    return values if values.dtype.kind == "U" else None
