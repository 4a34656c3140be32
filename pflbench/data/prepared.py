"""Prepared data: arrays in a folder, memory-mapped, so that all worker processes share one copy.

A folder holds `x.npy`, `y.npy` and `meta.json` (sizes, times and digest). It is written under a
temporary name and renamed, so processes that prepare the same data at once cannot see half of it.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.errors import RunFailed, UserError

ARRAYS = ("x.npy", "y.npy")
META = "meta.json"


@dataclass(frozen=True, eq=False)
class Data:
    """A pooled data set (train and test parts together); pickles as the path of its prepared
    folder.
    """

    name: str  # as the user gave it: "digits", "npz:cifar10-sample.npz"
    title: str  # for tables: "Digits", "cifar10-sample.npz"
    x: npt.NDArray[np.uint8]  # (n, channels, height, width), memory-mapped, read-only
    y: npt.NDArray[np.int64]  # (n,)
    classes: int
    digest: str  # 16 hex digits of SHA-256 over the shapes and bytes of x and y
    folder: Path

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        channels, height, width = self.x.shape[1:]
        return channels, height, width

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (self.name, self.title, self.folder)


def digest(x: npt.NDArray[np.uint8], y: npt.NDArray[np.int64]) -> str:
    """16 hex digits of all images and labels."""
    sha = hashlib.sha256(repr((x.shape, y.shape)).encode())
    sha.update(np.ascontiguousarray(x).data)
    sha.update(np.ascontiguousarray(y, dtype="<i8").data)
    return sha.hexdigest()[:16]


def write(
    name: str, title: str, folder: Path, x: npt.NDArray[np.uint8], y: npt.NDArray[np.int64]
) -> Data:
    """Write the folder under a temporary name and rename it.

    Where there is one already, another process was quicker, or it is damaged: its files are then
    replaced one by one, which several processes may do at once, because all of them write the same
    bytes.
    """
    part = folder.with_name(f".{folder.name}-{secrets.token_hex(8)}")
    part.mkdir(parents=True)
    try:
        np.save(part / "x.npy", x, allow_pickle=False)
        np.save(part / "y.npy", y, allow_pickle=False)
        sizes = {file: (part / file).stat().st_size for file in ARRAYS}
        meta = {
            "digest": digest(x, y),
            "classes": int(y.max()) + 1,
            "shape": list(x.shape),
            "bytes": sizes,
            "times": _times(part),
        }
        (part / META).write_text(json.dumps(meta), encoding="utf-8")
        try:
            os.rename(part, folder)
        except OSError:
            if not folder.is_dir():
                raise
            if open_folder(name, title, folder) is None:
                for file in (*ARRAYS, META):
                    os.replace(part / file, folder / file)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return reopen(name, title, folder)


def open_folder(name: str, title: str, folder: Path) -> Data | None:
    """The data in a prepared folder; None where the folder is missing, cut short or not what its
    meta.json says.
    """
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        if any((folder / file).stat().st_size != size for file, size in meta["bytes"].items()):
            return None
        x = np.load(folder / "x.npy", mmap_mode="r", allow_pickle=False)
        y = np.load(folder / "y.npy", mmap_mode="r", allow_pickle=False)
        right = (
            list(x.shape) == meta["shape"]
            and y.shape == x.shape[:1]
            and (x.dtype, y.dtype) == (np.uint8, np.int64)
        )
        return (
            Data(name, title, x, y, int(meta["classes"]), str(meta["digest"]), folder)
            if right
            else None
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None


def reopen(name: str, title: str, folder: Path) -> Data:
    data = open_folder(name, title, folder)
    if data is None:
        raise RunFailed(f"the prepared data of {name!r} is no longer in {folder}")
    return data


def verify(data: Data, always: bool = False) -> None:
    """See that the arrays are those that were prepared: by their digest, if a file was written since
    then or if asked to.
    """
    meta = json.loads((data.folder / META).read_text(encoding="utf-8"))
    times = _times(data.folder)
    if meta.get("times") == times and not always:
        return
    found = digest(data.x, data.y)
    if found != data.digest:
        raise UserError(
            f"the prepared data in {data.folder} were changed: their digest is {found} and not"
            f" {data.digest}; delete that folder and get the data again"
        )
    with contextlib.suppress(OSError):  # a folder of somebody else: it is verified every time
        aside = data.folder / f".{META}-{secrets.token_hex(8)}"
        aside.write_text(json.dumps({**meta, "times": times}), encoding="utf-8")
        os.replace(aside, data.folder / META)


def _times(folder: Path) -> dict[str, int]:
    """When the arrays were written, in nanoseconds."""
    return {file: (folder / file).stat().st_mtime_ns for file in ARRAYS}
