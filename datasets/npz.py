"""Anyone's arrays: `npz:PATH`, an archive of numpy with the images `x` and the labels `y`.

x is uint8, N x H x W, N x H x W x C or N x C x H x W with C in 1..4. A last axis of 1..4 is taken as the channels, and
only otherwise the second: an image of N x C x H x W must therefore be more than four pixels wide.
y holds integers 0..C-1; a label that no sample has is a class nevertheless. The file is read without pickle, so it
cannot run code.
"""

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pflbench.config import user_path
from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError

TITLE = "npz"
CHANNELS = range(1, 5)
SHOWN = 3  # labels that a remark names
LAYOUTS = "N x H x W, N x H x W x C or N x C x H x W, with C in 1..4"


def title(argument: str) -> str:
    return Path(argument).name


def fingerprint(argument: str) -> str:
    """The hash of the file's content: a changed file is another data set."""
    if not argument:
        raise UserError("data set 'npz' needs a file: npz:PATH")
    try:
        with user_path(argument).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {argument}: {error.strerror}") from error


def read(root: Path, argument: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """x (n, channels, height, width), y (n,)."""
    arrays = plain_arrays(argument)
    missing = [name for name in ("x", "y") if name not in arrays]
    if missing:
        found = ", ".join(sorted(arrays)) or "none"
        raise UserError(
            f"{argument} has no array {' and no array '.join(missing)}; its arrays: {found}"
        )
    x, y = _images(arrays["x"], argument), arrays["y"]
    if y.dtype.kind not in "iu":
        raise UserError(f"{argument}: y must be integers, not {y.dtype}")
    if y.ndim != 1:
        raise UserError(f"{argument}: y must have one axis, not the shape {y.shape}")
    if len(x) != len(y):
        raise UserError(f"{argument}: x has {len(x)} images and y has {len(y)} labels")
    if y.min() < 0:
        raise UserError(f"{argument}: y has the label {y.min()}; labels are 0..C-1")
    if y.max() >= len(y):
        raise UserError(
            f"{argument}: y has the label {y.max()} and only {len(y)} samples; labels are 0..C-1"
        )
    return x, y.astype(np.int64)


def remark(argument: str, y: npt.NDArray[np.int64]) -> str | None:
    """What labels with gaps lead to; None if there are none."""
    counts = np.bincount(y)
    unused = np.flatnonzero(counts == 0).tolist()
    if not unused:
        return None
    classes = len(counts)
    shown = ", ".join(map(str, unused[:SHOWN])) + (", ..." if len(unused) > SHOWN else "")
    return (
        f"{argument}: no sample has the label {shown}; every label of 0..{classes - 1} counts as a"
        f" class, so networks have {classes} outputs and path:CLASSES divides {classes} classes;"
        f" number the {classes - len(unused)} labels from 0 to avoid that"
    )


def _images(x: npt.NDArray[np.generic], path: str) -> npt.NDArray[np.uint8]:
    """The images as (n, channels, height, width)."""
    if x.dtype != np.uint8:
        raise UserError(f"{path}: x must be uint8 (0..255), not {x.dtype}")
    if x.ndim not in (3, 4):
        raise UserError(f"{path}: x has the shape {x.shape}; it must be {LAYOUTS}")
    if x.size == 0:
        raise UserError(f"{path}: x is empty, its shape is {x.shape}")
    if x.ndim == 3:
        x = x[:, None]
    elif x.shape[3] in CHANNELS:
        x = x.transpose(0, 3, 1, 2)
    elif x.shape[1] not in CHANNELS:
        raise UserError(
            f"{path}: x has the shape {x.shape}, without an axis of 1..4 channels; it must be {LAYOUTS}"
        )
    return np.ascontiguousarray(x, dtype=np.uint8)
