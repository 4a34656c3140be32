"""Prepared data: arrays in a folder, memory-mapped, so that all worker processes share one copy.

A folder holds `x.npy`, `y.npy`, `client.npy` where samples have owners, and `meta.json` (names,
sizes, times and digest). It is written under a temporary name and renamed, so processes that
prepare the same data at once cannot see half of it.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pflbench.data.arrays import KINDS, UNITS, Array, Arrays
from pflbench.data.label_skew import Ints
from pflbench.errors import RunFailed, UserError

META = "meta.json"


@dataclass(frozen=True, eq=False)
class Data:
    """A pooled data set (train and test parts together); pickles as the path of its prepared
    folder.
    """

    name: str  # as the user gave it: "digits", "npz:cifar10-sample.npz"
    title: str  # for tables: "Digits", "cifar10-sample.npz"
    x: Array  # (n, channels, height, width) of images, memory-mapped, read-only; see `kind`
    y: Ints  # (n,)
    classes: int
    digest: (
        str  # 16 hex digits of SHA-256 over the shapes and bytes of x and y, and what else it has
    )
    folder: Path
    client: Ints | None = None  # (n,): whose a sample is, as a place in client_names
    class_names: tuple[str, ...] = ()
    client_names: tuple[str, ...] = ()
    vocabulary: int | None = None  # number of different tokens

    @property
    def kind(self) -> str:
        """images (uint8), features (float32) or tokens (int64)."""
        return KINDS[self.x.dtype.name]

    @property
    def size(self) -> str:
        """How much there is of it, in words."""
        return f"{len(self.y)} {UNITS[self.x.dtype.name]} of {self.classes} classes"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a sample: (channels, height, width) of an image."""
        return self.x.shape[1:]

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (self.name, self.title, self.folder)


def digest(found: Arrays | Data) -> str:
    """16 hex digits of all samples and labels and, where there are any, owners and names."""
    x, y = found.x, found.y
    sha = hashlib.sha256(repr((x.shape, y.shape)).encode())
    sha.update(np.ascontiguousarray(x).data)
    sha.update(np.ascontiguousarray(y, dtype="<i8").data)
    if x.dtype != np.uint8 or found.client is not None or found.class_names:
        names = found.class_names, found.client_names
        sha.update(repr((x.dtype.name, found.vocabulary, *names)).encode())
    if found.client is not None:
        sha.update(np.ascontiguousarray(found.client, dtype="<i8").data)
    return sha.hexdigest()[:16]


def write(name: str, title: str, folder: Path, found: Arrays) -> Data:
    """Write the folder under a temporary name and rename it.

    Where there is one already, another process was quicker, or it is damaged: its files are then
    replaced one by one, which several processes may do at once, because all of them write the same
    bytes.
    """
    part = folder.with_name(f".{folder.name}-{secrets.token_hex(8)}")
    part.mkdir(parents=True)
    try:
        arrays = {"x.npy": found.x, "y.npy": found.y, "client.npy": found.client}
        files = [file for file, array in arrays.items() if array is not None]
        for file in files:
            np.save(part / file, np.asarray(arrays[file]), allow_pickle=False)
        meta = {
            "digest": digest(found),
            "classes": found.classes,
            "shape": list(found.x.shape),
            "dtype": found.x.dtype.name,
            "class_names": found.class_names,
            "client_names": found.client_names,
            "vocabulary": found.vocabulary,
            "bytes": {file: (part / file).stat().st_size for file in files},
            "times": _times(part, files),
        }
        (part / META).write_text(json.dumps(meta), encoding="utf-8")
        try:
            os.rename(part, folder)
        except OSError:
            if not folder.is_dir():
                raise
            if open_folder(name, title, folder) is None:
                for file in (*files, META):
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
        arrays = {
            Path(file).stem: np.load(folder / file, mmap_mode="r", allow_pickle=False)
            for file in meta["bytes"]
        }
        x, y, client = arrays["x"], arrays["y"], arrays.get("client")
        right = (
            list(x.shape) == meta["shape"]
            and y.shape == x.shape[:1]
            and (x.dtype.name, y.dtype) == (meta.get("dtype", "uint8"), np.int64)
        )
        if not right:
            return None
        names = {key: tuple(meta.get(key, ())) for key in ("class_names", "client_names")}
        classes, found = int(meta["classes"]), str(meta["digest"])
        more: dict[str, Any] = {"client": client, "vocabulary": meta.get("vocabulary"), **names}
        return Data(name, title, x, y, classes, found, folder, **more)
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
    times = _times(data.folder, meta["bytes"])
    if meta.get("times") == times and not always:
        return
    found = digest(data)
    if found != data.digest:
        raise UserError(
            f"the prepared data in {data.folder} were changed: their digest is {found} and not"
            f" {data.digest}; delete that folder and get the data again"
        )
    with contextlib.suppress(OSError):  # a folder of somebody else: it is verified every time
        aside = data.folder / f".{META}-{secrets.token_hex(8)}"
        aside.write_text(json.dumps({**meta, "times": times}), encoding="utf-8")
        os.replace(aside, data.folder / META)


def _times(folder: Path, files: Iterable[str]) -> dict[str, int]:
    """When the arrays were written, in nanoseconds."""
    return {file: (folder / file).stat().st_mtime_ns for file in files}
