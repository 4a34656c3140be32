"""The two ways in which pflbench fails: the user's mistake (exit code 2) and a failed run (exit code 1)."""

import difflib
from collections.abc import Iterable, Mapping

NEAR = 0.6  # the least similarity of a name that is suggested: 1 is the same


class UserError(Exception):
    """A mistake in what the user asked for: one line that says what, where and what is allowed."""


class RunFailed(Exception):
    """A run that could not be finished: one line, with the traceback of its cause in `details`.
    Failures of one `cause` have the same.
    """

    def __init__(self, message: str, details: str = "", cause: str = "") -> None:
        super().__init__(message)
        self.details = details
        self.cause = cause


def unknown(
    kind: str, name: str, known: Iterable[str], files: Mapping[str, str] | None = None
) -> UserError:
    """The error for a name that is not in a list, with the nearest one that is, or the nearest of
    these files.
    """
    names = sorted(known)
    near = hint(name, names, files or {})
    return UserError(f"unknown {kind} {name!r}{near or ';'} known: {', '.join(names) or 'none'}")


def hint(name: str, known: Iterable[str], files: Mapping[str, str]) -> str:
    """What a mistyped name may have been meant to be: "; did you mean 'fedavg'?". A file, by its
    name without what follows the point, comes before a name that is no nearer.
    """
    shown = {**{one: one for one in known}, **files}
    typed = name.rpartition("/")[2].lower()
    alike = {one: difflib.SequenceMatcher(None, one.lower(), typed).ratio() for one in shown}
    best = max(shown, key=lambda one: (alike[one], one in files), default="")
    return f"; did you mean {shown[best]!r}?" if best and alike[best] >= NEAR else ""
