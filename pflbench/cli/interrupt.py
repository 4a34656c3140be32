"""Ctrl-C, SIGTERM, a closed terminal: all let runs save a checkpoint."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer

_terminated = threading.Event()


class Terminated(KeyboardInterrupt):
    """SIGTERM or a closed terminal (SIGHUP), treated as Ctrl-C."""


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise as Ctrl-C does; a SIGHUP that is ignored, as by `nohup`,
    stays ignored.
    """

    def terminate(number: int, frame: object) -> None:
        _terminated.set()
        raise Terminated

    _terminated.clear()

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, terminate) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(stop: KeyboardInterrupt) -> typer.Exit:
    """What a command ends with that was stopped. Ray replaces what a handler raises by a plain
    KeyboardInterrupt, so that the handler's own note counts too.
    """
    terminated = isinstance(stop, Terminated) or _terminated.is_set()
    return typer.Exit(143 if terminated else 130)
