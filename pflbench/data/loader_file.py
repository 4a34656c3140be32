"""Data sets in Python files of a user's own: `load(root) -> {"x": ..., "y": ..., "client": ...}`.

What a file gives is prepared once, as every data set is. It is loaded again when its content
changes, or that of a file that it names in FILES. What is needed for that is read from the code,
without executing it.
"""

import ast
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pflbench import plugin_file
from pflbench.config import user_path
from pflbench.data.arrays import Arrays, gaps, tidy
from pflbench.data.prepared import Data
from pflbench.errors import UserError, hint

KIND = "data set"  # as errors call it
NAME = "own"  # in the names of prepared folders
TITLE = "a file of your own"
WANTED = 'load(root) -> {"x": samples, "y": labels}, optionally with "client"'


def is_loader(path: str) -> bool:
    """Whether a file's code has a function `load` on its top level; nothing is executed."""
    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        return False
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == "load" for node in tree.body)


def title(path: str) -> str:
    """TITLE in the file, or the file's name."""
    return str(plugin_file.constants(_file(path), KIND).get("TITLE", Path(path).stem))


def fingerprint(path: str) -> str:
    """A hash of the file, and of the files that it names in FILES, as seen from it."""
    return plugin_file.content(_file(path), KIND)


def read(root: Path, path: str, *, anew: bool = False) -> Arrays:
    """What the file's function returns, checked. `anew` executes the file again."""
    function: Any = getattr(plugin_file.execute(_file(path), kind=KIND, anew=anew), "load", None)
    if not callable(function):
        raise UserError(f"data set {path} must define {WANTED}")
    try:
        found = function(root)
    except (KeyboardInterrupt, UserError):
        raise
    except BaseException as error:  # also an exit
        raise _failed(path, error) from error
    if isinstance(found, tuple) and len(found) == 2:
        found = {"x": found[0], "y": found[1]}
    if not isinstance(found, Mapping):
        raise UserError(f"data set {path} must define {WANTED}; it returns {type(found).__name__}")
    return tidy(found, f"data set {path}")


def remark(path: str, data: Data) -> str | None:
    """What labels with gaps lead to; None if there are none."""
    return None if data.class_names else gaps(f"data set {path}", data.y, data.classes)


def _file(path: str) -> Path:
    file = user_path(path)
    if not file.is_file():
        raise UserError(f"no data set file {path!r}{hint(file.stem, [], plugin_file.near(file))}")
    return file


def _failed(path: str, error: BaseException) -> UserError:
    """What went wrong, and in which line of the file."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == Path(path).name
    ]
    line = f" (line {own[-1].lineno})" if own else ""
    said = f"{type(error).__name__}: {error}".partition("\n")[0]
    return UserError(f"data set {path}: load() failed: {said}{line}")
