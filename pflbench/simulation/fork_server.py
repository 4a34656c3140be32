"""How worker processes start: as forks of a server process that has torch loaded and does nothing
else.

A fork of the main process would copy locks that other threads hold, and CUDA forbids it. This
module imports no torch, so that the server can load it while the main process does.
"""

import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from types import ModuleType

PRELOADED = "pflbench.simulation.engine"


def context() -> ForkServerContext | SpawnContext:
    """Where processes come from; without a fork server, each loads torch by itself."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([PRELOADED])
    return found


def prepare() -> None:
    """Start the server now, if there can be one: it is ready when the first worker is asked for."""
    if isinstance(context(), ForkServerContext):
        with deaf_to_ctrl_c():
            forkserver.ensure_running()


def start(process: BaseProcess) -> None:
    """Start a worker process. It ignores Ctrl-C, and does not execute the user's script again: what
    it needs is sent to it, so that scripts work without `if __name__ == "__main__"`.
    """
    script = sys.modules["__main__"]
    with deaf_to_ctrl_c():
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            process.start()
        finally:
            sys.modules["__main__"] = script


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """A process that is started inside ignores Ctrl-C: it is for the parent, which saves and closes
    the pipes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals cannot be set here, and do not arrive
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
