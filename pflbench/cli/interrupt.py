"""Ctrl-C and SIGTERM: both let runs save a checkpoint, and each has its exit code."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class Terminated(KeyboardInterrupt):
    """SIGTERM, treated as Ctrl-C."""


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Inside, SIGTERM raises as Ctrl-C does."""

    def terminate(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_code(stop: KeyboardInterrupt) -> typer.Exit:
    """What a command ends with that was stopped."""
    return typer.Exit(143 if isinstance(stop, Terminated) else 130)
