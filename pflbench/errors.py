"""The two ways in which pflbench fails: the user's mistake (exit code 2) and a failed run (exit code 1)."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user asked for: one line that says what, where and what is allowed."""


class RunFailed(Exception):
    """A run that could not be finished: one line, with the traceback of its cause in `details`."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a list, with the nearest one that is."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return UserError(f"unknown {kind} {name!r};{hint} known: {', '.join(names) or 'none'}")
