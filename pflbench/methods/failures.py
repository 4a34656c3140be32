"""Errors inside a method, in one line, with the line of its file that they come from."""

import sys
import traceback
from pathlib import Path

from pflbench.api import Algorithm
from pflbench.errors import RunFailed


def failure(method: type[Algorithm], where: str, error: BaseException) -> RunFailed:
    """The failure of a run in which a method raised an error; `where` is the round, client and
    function.
    """
    said = f"{method.title} failed in {where}: {described(method, error)}"
    return RunFailed(said, traceback.format_exc(), cause_of(method, error))


def described(method: type[Algorithm], error: BaseException) -> str:
    """An error in one line: "KeyError: 'model' (mine.py, line 7)"."""
    said = f"{type(error).__name__}: {error}".partition("\n")[0]
    place = place_of(method, error)
    return f"{said} ({place})" if place else said


def cause_of(method: type[Algorithm], error: BaseException) -> str:
    """What errors of one cause have in common: their type and place, whatever the numbers in their
    messages.
    """
    if isinstance(error, RunFailed) and error.cause:
        return error.cause
    place = place_of(method, error)
    return f"{type(error).__name__}, {place}" if place else described(method, error)


def place_of(method: type[Algorithm], error: BaseException) -> str:
    """The innermost line of the method's file that an error, or what caused it, came through:
    "mine.py, line 7"; "" where there is none.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    file = getattr(sys.modules.get(method.__module__), "__file__", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f"{_seen_from_here(Path(str(file)))}, line {lines[-1]}" if lines else ""


def _seen_from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
