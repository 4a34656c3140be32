"""Python files of a user's own: a method, a network, a data set. Each is executed once per process."""

import ast
import contextlib
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pflbench.errors import UserError

_executed: dict[str, tuple[int, int]] = {}
"""Modules of plugins in files: when the file that was executed was written, and its size."""


def execute(path: Path, *, kind: str = "plugin", anew: bool = False) -> ModuleType:
    """The module of a file, which is executed unless that was done and it has not changed since;
    `anew` executes it in any case. `kind` is what errors call it.
    """
    about = path.stat()
    state = about.st_mtime_ns, about.st_size
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:10]
    name = f"pflbench_plugins.{place}.{path.stem}"  # two files of one name are two modules
    if _executed.get(name) == state and not anew:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    _executed.pop(name, None)
    try:
        with naming_failures(str(path), kind):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _executed[name] = state
    return module


def near(path: str | Path) -> dict[str, str]:
    """The Python files that are where this one, or one of this name, would be: paths by file names
    without `.py`.
    """
    folder = Path(path).parent
    found = sorted(folder.glob("*.py")) if folder.is_dir() else []
    return {one.stem: str(one) for one in found}


def constants(path: Path, kind: str = "plugin") -> dict[str, Any]:
    """The plain values that names are set to on a file's top level; nothing is executed."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise _broken(str(path), kind, error) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # of null bytes
        raise UserError(f"{kind} {path} is not Python: {error}") from error
    found = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.expr):
            with contextlib.suppress(ValueError, TypeError):  # of what is no plain value
                found[target.id] = ast.literal_eval(value)
    return found


def content(path: Path, kind: str = "plugin") -> str:
    """A hash of a file, and of the files that it names in FILES, as seen from it."""
    named = constants(path, kind).get("FILES", [])
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
        raise UserError(f"{kind} {path}: FILES must be a list of paths")
    sha = hashlib.sha256()
    for one in [path, *(path.parent / name for name in named)]:
        try:
            about = one.stat()
            sha.update(_digest(one, about.st_mtime_ns, about.st_size))
        except OSError as error:
            raise UserError(f"cannot read {one}: {error.strerror}") from error
    return sha.hexdigest()


@lru_cache
def _digest(path: Path, changed: int, size: int) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


@contextmanager
def naming_failures(path: str, kind: str = "plugin") -> Iterator[None]:
    """Whatever a file raises while it is imported, also an exit, is a mistake in that file."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _broken(path, kind, error) from error


def _broken(path: str, kind: str, error: BaseException) -> UserError:
    if isinstance(error, SyntaxError):
        where = path if error.filename in (None, "<unknown>") else error.filename
        return UserError(f"{kind} {where}, line {error.lineno}: {error.msg}")
    last = traceback.extract_tb(error.__traceback__)[-1]
    cause = f"{type(error).__name__}: {error}"
    return UserError(
        f"{kind} {path} cannot be imported: {cause} ({last.filename}, line {last.lineno})"
    )
