"""Data sets: found by name, and prepared once in `<root>/prepared/<name>-<key>/`."""

import hashlib
import importlib
import os
import pkgutil
import secrets
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pflbench import datasets
from pflbench.data import arrays, loader_file, prepared
from pflbench.data.arrays import UNITS, Arrays
from pflbench.data.prepared import Data
from pflbench.data.torchvision_files import NotFound
from pflbench.errors import RunFailed, UserError, unknown

FORMAT = 1  # of the prepared folder; part of its key


@dataclass(frozen=True)
class _Source:
    """A data set's module in `pflbench.datasets` with what follows the colon in `name:argument`."""

    spec: str
    name: str
    argument: str
    module: Any

    @property
    def title(self) -> str:
        make = getattr(self.module, "title", None)
        return str(make(self.argument) if make else self.module.TITLE)

    def folder(self, root: Path) -> Path:
        """The prepared folder; its key has all that the arrays depend on."""
        fingerprint = getattr(self.module, "fingerprint", None)
        if fingerprint is None and self.argument:
            raise UserError(f"data set {self.name!r} takes no argument; given: {self.spec!r}")
        content = fingerprint(self.argument) if fingerprint else ""
        key = hashlib.sha256(repr((FORMAT, self.name, content)).encode()).hexdigest()[:12]
        return root / "prepared" / f"{self.name}-{key}"


def data_root(given: Path | None = None) -> Path:
    """The folder of all data: the given one, else PFLBENCH_DATA, else `pflbench` in the user's
    cache folder.
    """
    if given is None:
        named = os.environ.get("PFLBENCH_DATA")
        cache = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(cache) if os.path.isabs(cache) else Path("~/.cache")
        given = Path(named) if named else base / "pflbench"
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise UserError(
            f"cannot tell which folder {given} is ({error}); name one with --data-root"
        ) from error


def names() -> list[str]:
    """The known data sets: the files of the package `pflbench.datasets`."""
    return sorted(
        module.name for module in pkgutil.iter_modules(datasets.__path__) if module.name[0] != "_"
    )


def load(spec: str, root: Path | None = None) -> Data:
    """The data set `name` or `name:argument`, prepared first if that has not been done."""
    source, folder = _find(spec), data_root(root)
    try:
        data = _load(source, folder)
    except NotFound as error:
        option = "" if folder == data_root() else f" --data-root {shlex.quote(str(folder))}"
        command = f"pflbench data get {source.name}{option}"
        raise UserError(
            f"data set {source.name!r} is not in {folder}; get it with: {command}"
        ) from error
    remark = getattr(source.module, "remark", None)  # of a data set that may be odd
    if remark is not None and (text := remark(source.argument, data)):
        warnings.warn(text, stacklevel=2)
    return data


def prepared_already(spec: str, root: Path | None = None) -> Data | None:
    """The data set as it was prepared; None if it was not."""
    source = _find(spec)
    return prepared.open_folder(spec, source.title, source.folder(data_root(root)))


def download(spec: str, root: Path | None = None, progress: Callable[[str], None] = print) -> Data:
    """Get the data set, compare checksums and counts, and prepare it; nothing is fetched when it is
    there already.
    """
    source, folder = _find(spec), data_root(root)
    try:
        return _load(source, folder)
    except NotFound:
        progress(f"getting {source.title} into {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (probe := folder / f".{secrets.token_hex(4)}").touch()
        probe.unlink()
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        source.module.download(folder)
        data = _load(source, folder)
    except (RuntimeError, OSError, NotFound) as error:  # URLError is an OSError
        reason = " ".join(str(error).split())
        raise RunFailed(
            f"could not get data set {source.name!r} into {folder}: {reason}{_or_import(source)}"
        ) from error
    progress(f"{source.title}: {data.size}, digest {data.digest}")
    return data


def import_files(name: str, files: Path | None, root: Path | None = None) -> tuple[Data, bool]:
    """Prepare the data set from files that somebody has, and whether that was needed: nothing is
    read when it is there already. Without files, or with a wrong path, the error says which files.
    """
    source, folder = _find(name), data_root(root)
    if not hasattr(source.module, "convert"):
        able = [known for known in names() if hasattr(_find(known).module, "convert")]
        raise UserError(f"data set {name!r} cannot be imported; those that can: {', '.join(able)}")
    try:
        return _load(source, folder), False
    except NotFound:
        if files is None or not files.exists():
            problem = f"{files} does not exist" if files else "no PATH is given"
            raise UserError(f"{problem}; {name} is imported from {source.module.IMPORT}") from None
        found = arrays.of(source.module.convert(files))
    _verify(source, files, found)
    _verify_content(source, files, found)
    try:
        return prepared.write(name, source.title, source.folder(folder), found), True
    except OSError as error:
        raise _unwritable(folder, error) from error


def describe(name: str, root: Path | None = None) -> tuple[str, str]:
    """The title of a data set and whether it is there: "embedded", "yes", "no", or "name:PATH" for
    a file of yours.
    """
    source, folder = _find(name), data_root(root)
    if hasattr(source.module, "title"):  # the title of an argument: nothing to look for without one
        return "a file of your own", f"{name}:PATH"
    if not hasattr(source.module, "download"):
        return source.title, "embedded"
    if prepared.open_folder(name, source.title, source.folder(folder)) is None:
        try:
            source.module.read(folder, "")
        except (NotFound, UserError):
            return source.title, "no"
    return source.title, "yes"


def _find(spec: str) -> _Source:
    if spec.endswith(".py"):
        return _Source(spec, loader_file.NAME, spec, loader_file)
    name, _, argument = spec.partition(":")
    if name not in (known := names()):
        raise unknown("data set", name, known)
    return _Source(spec, name, argument, importlib.import_module(f"{datasets.__name__}.{name}"))


def _load(source: _Source, root: Path) -> Data:
    if root.is_file():
        raise UserError(f"the data folder {root} is a file; name a folder with --data-root")
    folder = source.folder(root)
    data = prepared.open_folder(source.spec, source.title, folder)
    if data is None:
        found = arrays.of(source.module.read(root, source.argument))
        _verify(source, root, found)
        try:
            data = prepared.write(source.spec, source.title, folder, found)
        except OSError as error:
            raise _unwritable(root, error) from error
    else:
        prepared.verify(data)
    return data


def _verify(source: _Source, root: Path, found: Arrays) -> None:
    """Labels are not negative; a published data set has its published numbers of images and
    classes.
    """
    x, y = found.x, found.y
    if len(y) == 0 or y.min() < 0:
        raise UserError(f"data set {source.spec!r} in {root} is empty or has a negative label")
    samples, classes = len(y), found.classes
    wanted = getattr(source.module, "SAMPLES", samples), getattr(source.module, "CLASSES", classes)
    if (samples, classes) != wanted or len(x) != samples:
        unit = UNITS[x.dtype.name]
        raise UserError(
            f"data set {source.spec!r} in {root} has {len(x)} {unit}, {samples} labels and {classes} classes"
            f" where {source.title} has {wanted[0]} {unit} and {wanted[1]} classes; delete its files and get it again"
        )
    users = getattr(source.module, "CLIENTS", None)
    if users is not None and len(found.client_names) != users:
        raise UserError(
            f"data set {source.spec!r} in {root} has {len(found.client_names)} users where"
            f" {source.title} has {users}; delete its files and get it again"
        )


def _verify_content(source: _Source, files: Path, found: Arrays) -> None:
    """All bytes are those of the published data set, and every class has the same number of samples
    where that is so in it.
    """
    counts = np.bincount(found.y)
    wanted = len(found.y) // len(counts)
    if getattr(source.module, "BALANCED", True) and (counts != wanted).any():
        raise UserError(
            f"{files} has from {counts.min()} to {counts.max()} {UNITS[found.x.dtype.name]} of a class"
            f" where {source.title} has {wanted} of each"
        )
    digest, right = prepared.digest(found), getattr(source.module, "DIGEST", None)
    if right is not None and digest != right:
        raise UserError(
            f"the images or labels of {files} are not those of {source.title}:"
            f" their digest is {digest} and not {right}"
        )


def _or_import(source: _Source) -> str:
    """What to do where a data set cannot be downloaded."""
    if not hasattr(source.module, "convert"):
        return ""
    return f"; 'pflbench data import {source.name} PATH' takes {source.module.IMPORT}"


def _unwritable(root: Path, error: OSError) -> UserError:
    reason = error.strerror or str(error)
    return UserError(
        f"cannot write to the data folder {root} ({reason}); name another one with --data-root"
    )
