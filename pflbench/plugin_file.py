"""Python files of a user's own: a method, a network, a data set. Each is executed once per process."""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

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
        return UserError(f"{kind} {error.filename or path}, line {error.lineno}: {error.msg}")
    last = traceback.extract_tb(error.__traceback__)[-1]
    cause = f"{type(error).__name__}: {error}"
    return UserError(
        f"{kind} {path} cannot be imported: {cause} ({last.filename}, line {last.lineno})"
    )
