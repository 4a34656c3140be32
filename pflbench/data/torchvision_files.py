"""torchvision, imported (with torch) when it is first needed, and the reading of its data sets.

With a CPU build of torch, the published build of torchvision cannot load its C++ extension (linked
to CUDA), and its import then stops with "operator torchvision::nms does not exist": it registers a
fake kernel for an operator that only the extension declares. Declaring the operators' schemas first
is enough for data sets, transforms and models; calling the operators themselves still fails, and
nothing here does.
"""

import functools
import gzip
import importlib
import importlib.machinery
import importlib.util
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.errors import UserError

Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]

# torch forgets the schemas when the library object is collected
_declared: list[Any] = []


class NotFound(Exception):
    """The files of a data set are not in the folder, or not all of them, or one has a wrong
    checksum.
    """


def _extension_loads(folder: str) -> bool:
    """Whether torchvision's own extension, looked up as torchvision does, can be loaded into this
    process.
    """
    import torch

    details = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)
    spec = importlib.machinery.FileFinder(folder, details).find_spec("_C")
    if spec is None or spec.origin is None:
        return False
    try:
        torch.ops.load_library(spec.origin)
    except OSError:
        return False
    return True


@functools.cache
def torchvision() -> ModuleType:
    """The package torchvision (see the head of this file for why it is not simply imported)."""
    import torch

    if "torchvision" not in sys.modules:
        spec = importlib.util.find_spec("torchvision")
        if spec is None or not spec.submodule_search_locations:
            raise UserError(
                "torchvision is not installed, and this needs it; get it with: pip install torchvision"
            )
        declared = hasattr(torch.ops.torchvision, "nms")
        if not declared and not _extension_loads(spec.submodule_search_locations[0]):
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _declared.append(library)
    return importlib.import_module("torchvision")


def _unpack(folder: Path) -> None:
    """Unpack the `.gz` files that somebody put into the folder, where the plain file is not there
    yet.

    torchvision reads plain idx files only, while the publishers and Linux distributions ship them
    compressed.
    """
    for packed in sorted(folder.glob("*-ubyte.gz")):
        plain = packed.with_suffix("")
        if not plain.exists():
            part = plain.with_name(f"{plain.name}.{secrets.token_hex(4)}.part")
            try:
                with gzip.open(packed, "rb") as source, part.open("wb") as target:
                    shutil.copyfileobj(source, target)
                os.replace(part, plain)
            except (OSError, EOFError) as error:
                part.unlink(missing_ok=True)
                raise UserError(f"cannot unpack {packed}: {error}") from error


def pooled(kind: str, root: Path, **options: Any) -> Arrays:
    """Both parts of torchvision's data set `kind`, train first: x uint8 (n, channels, height,
    width), y int64 (n,).
    """
    make = getattr(torchvision().datasets, kind)
    _unpack(root / kind / "raw")
    try:
        parts = [
            make(root=str(root), train=train, download=False, **options) for train in (True, False)
        ]
    except (RuntimeError, AssertionError, ValueError, TypeError, KeyError, EOFError) as error:
        reason = " ".join(str(error).split())
        # "Dataset not found or corrupted", where a file is missing or has a wrong checksum
        if "not found" in reason:
            raise NotFound(reason) from error
        raise UserError(
            f"a file of {kind} in {root} is damaged; delete it and get it again ({reason})"
        ) from error
    x = np.concatenate([np.asarray(part.data, dtype=np.uint8) for part in parts])
    y = np.concatenate([np.asarray(part.targets, dtype=np.int64) for part in parts])
    x = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x), y


def pooled_from(folder: Path, kind: str) -> Arrays:
    """The same from idx files, plain or as `.gz`, in any folder; nothing is written there."""
    with tempfile.TemporaryDirectory() as root:
        raw = Path(root) / kind / "raw"
        raw.mkdir(parents=True)
        try:
            for file in folder.glob("*-ubyte*"):
                shutil.copyfile(file, raw / file.name)
            return pooled(kind, Path(root))
        except (OSError, NotFound, UserError) as error:
            raise UserError(
                f"{folder} is not a folder with all files of {kind}, or one of them is damaged"
            ) from error


def fetch(kind: str, root: Path, **options: Any) -> None:
    """Download torchvision's data set `kind` into the folder; torchvision compares the MD5 sums of
    what it gets.
    """
    make = getattr(torchvision().datasets, kind)
    for train in (True, False):
        make(root=str(root), train=train, download=True, **options)
