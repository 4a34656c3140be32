"""What a method says about a round: numbers (`log`), that something is off (`note`), and how much
it worked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch import Tensor

_logged: ContextVar[dict[str, list[Any]] | None] = ContextVar("_logged", default=None)


def log(**values: float | Tensor) -> None:
    """Put numbers into the record of this round (of this client, when called by a client function).

    A name that is logged more than once in one call of a function is averaged.
    """
    sink = _logged.get()
    if sink is not None:
        for name, value in values.items():
            sink.setdefault(name, []).append(value)


_noted: ContextVar[dict[str, None] | None] = ContextVar("_noted", default=None)


def note(text: str) -> None:
    """Say that something about this run is off; the text is stored with the round and shown under its tables."""
    sink = _noted.get()
    if sink is not None:
        sink[text] = None


@contextmanager
def collect_notes() -> Iterator[list[str]]:
    """Collect what is noted inside, each text once; the list is filled at the end."""
    sink: dict[str, None] = {}
    result: list[str] = []
    token = _noted.set(sink)
    try:
        yield result
    finally:
        _noted.reset(token)
        result.extend(sink)


@contextmanager
def collect_logs() -> Iterator[dict[str, float]]:
    """Collect what is logged inside; the dict is filled at the end."""
    sink: dict[str, list[Any]] = {}
    result: dict[str, float] = {}
    token = _logged.set(sink)
    try:
        yield result
    finally:
        _logged.reset(token)
        result.update(
            {name: sum(float(v) for v in values) / len(values) for name, values in sink.items()}
        )


@dataclass
class Work:
    """Batches that a client function drew, and samples in them."""

    batches: int = 0
    samples: int = 0


_work: ContextVar[Work | None] = ContextVar("_work", default=None)


def count_batch(samples: int) -> None:
    """Count a batch of so many samples."""
    work = _work.get()
    if work is not None:
        work.batches += 1
        work.samples += samples


@contextmanager
def collect_work() -> Iterator[Work]:
    """Count the batches that are drawn inside."""
    work = Work()
    token = _work.set(work)
    try:
        yield work
    finally:
        _work.reset(token)
