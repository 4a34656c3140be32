"""The list of checks, and how one of them is run on a method."""

import contextlib
import functools
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import getdoc

from pflbench.errors import unknown
from pflbench.simulation.threads import one_thread
from pflbench.testing.subject import Subject


class Failed(Exception):
    """A check that a method does not pass: what, where, and what to do, in a line or two."""


@dataclass(frozen=True)
class CheckResult:
    """How a method did in a check. `passed` counts a failure that the method declares as an
    exception.
    """

    name: str
    passed: bool
    expected_failure: str | None  # the declared reason
    message: str
    seconds: float


Check = Callable[[Subject], None]
CHECKS: dict[str, Check] = {}
"""All checks by name, in the order in which they are shown."""


def check(function: Check) -> Check:
    """Add a check; its name is the function's, with hyphens."""
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


def names() -> list[str]:
    """The names of all checks."""
    return list(CHECKS)


def describe(name: str) -> str:
    """What a check is about, in one line."""
    return " ".join((getdoc(CHECKS[name]) or "").partition("\n\n")[0].split())


def checks(plugin: str) -> Iterator[CheckResult]:
    """All checks on a method, by its name or the path of its file; each result when it is there."""
    subject = Subject(plugin)
    try:
        with contextlib.suppress(Exception):  # the checks say why
            subject.start_workers()  # they get ready while the other checks run
        for name in CHECKS:
            yield _result(subject, name)
    finally:
        subject.close()


def run_check(plugin: str, name: str) -> CheckResult:
    """One check on a method. The runs that checks share are kept for the next check of the same
    method.
    """
    if name not in CHECKS:
        raise unknown("check", name, CHECKS)
    subject = _subject(plugin)
    try:
        return _result(subject, name)
    finally:
        subject.close()


@functools.lru_cache(maxsize=1)
def _subject(plugin: str) -> Subject:
    return Subject(plugin)


def _result(subject: Subject, name: str) -> CheckResult:
    start = time.perf_counter()
    message = _failure(subject, CHECKS[name])
    seconds = time.perf_counter() - start
    reason = {key.replace("_", "-"): why for key, why in subject.cls.exceptions.items()}.get(name)
    if reason is None:
        return CheckResult(name, message is None, None, message or "", seconds)
    if message is None:
        surprise = f"passes unexpectedly; remove the exception ({reason})"
        return CheckResult(name, False, None, surprise, seconds)
    return CheckResult(name, True, reason, message, seconds)


def _failure(subject: Subject, function: Check) -> str | None:
    """Why a check fails, or None; with one thread, as in a worker."""
    try:
        with one_thread():
            function(subject)
    except Failed as failure:
        return str(failure)
    except Exception as error:
        return _cause(error, subject)
    return None


def _cause(error: Exception, subject: Subject) -> str:
    """An error inside a plugin in one line, with its place in the plugin's file."""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    own = _file(subject)
    lines = [
        frame.lineno for frame in traceback.extract_tb(root.__traceback__) if frame.filename == own
    ]
    text = (
        str(error)
        if type(error).__module__.startswith("pflbench")
        else f"{type(error).__name__}: {error}"
    )
    place = f" ({own.rpartition('/')[2]}, line {lines[-1]})" if own and lines else ""
    return text.partition("\n")[0] + place


def _file(subject: Subject) -> str:
    """The file that the method's class is written in."""
    module = sys.modules.get(subject.cls.__module__)
    return getattr(module, "__file__", None) or ""
