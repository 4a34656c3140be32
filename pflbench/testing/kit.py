"""The list of checks, and how one of them is run on a method."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import getdoc

from pflbench.errors import RunFailed, unknown
from pflbench.methods import failures
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
    cause: str = ""  # of an error in the method: failures of one cause have the same
    because_of: str | None = None  # the check that failed before, for what is probably one reason


COMPARISONS = (
    *("deterministic", "client-order-irrelevant", "evaluation-is-pure", "partial-participation"),
    *("resume-in-the-middle", "engines-agree"),
)
EXPLAINS = {
    "no-state-on-self": COMPARISONS,
    "no-global-random-generator": COMPARISONS,
    "deterministic": COMPARISONS,
}
"""Checks by what fails with them: a method that does not do the same twice passes no comparison."""

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
        earlier: list[CheckResult] = []
        for name in CHECKS:
            result = _result(subject, name)
            earlier.append(replace(result, because_of=_explanation(result, earlier)))
            yield earlier[-1]
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


def _explanation(result: CheckResult, earlier: Sequence[CheckResult]) -> str | None:
    """The check before it that failed for the same cause, or that a difference comes from."""
    for one in earlier:
        same = (
            one.cause == result.cause if result.cause else result.name in EXPLAINS.get(one.name, ())
        )
        if same and not one.passed and not result.passed and one.because_of is None:
            return one.name
    return None


def _result(subject: Subject, name: str) -> CheckResult:
    start = time.perf_counter()
    message, cause = _failure(subject, CHECKS[name])
    seconds = time.perf_counter() - start
    reason = {key.replace("_", "-"): why for key, why in subject.cls.exceptions.items()}.get(name)
    if reason is None:
        return CheckResult(name, message is None, None, message or "", seconds, cause)
    if message is None:
        surprise = f"passes unexpectedly; remove the exception ({reason})"
        return CheckResult(name, False, None, surprise, seconds)
    return CheckResult(name, True, reason, message, seconds, cause)


def _failure(subject: Subject, function: Check) -> tuple[str | None, str]:
    """Why a check fails, or None, and the cause if it is an error; with one thread, as in a
    worker.
    """
    try:
        with one_thread():
            function(subject)
    except Failed as failure:
        error = failure.__cause__
        return str(failure), failures.cause_of(subject.cls, error) if error else ""
    except Exception as error:
        return _in_one_line(subject, error), failures.cause_of(subject.cls, error)
    return None, ""


def _in_one_line(subject: Subject, error: Exception) -> str:
    """An error with its place in the method's file, which a failed run has named already."""
    if isinstance(error, RunFailed):
        return str(error).partition("\n")[0]
    if type(error).__module__.startswith("pflbench"):
        place = failures.place_of(subject.cls, error)
        return str(error).partition("\n")[0] + (f" ({place})" if place else "")
    return failures.described(subject.cls, error)
