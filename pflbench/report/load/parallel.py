"""The same work for many things, on all cores."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from pflbench.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

PARTS = 8  # per core: so many that the last is short, so few that forking costs nothing


_alone: ContextVar[bool] = ContextVar("_alone", default=False)


@contextmanager
def in_this_process() -> Iterator[None]:
    """Inside, nothing is forked."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def each(function: Callable[[Item], Result], items: Sequence[Item], few: int) -> list[Result]:
    """function(item) for every item, in their order; of more than a `few` in processes, one for
    every part of them.

    The processes are forked: they see function and items as they are here (figures cannot be sent),
    and only results are sent back. Where nothing can be forked, or safely (macOS), all is done
    here.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    unwanted = _alone.get() or multiprocessing.current_process().daemon
    if len(items) <= few or cores == 1 or unwanted:
        return [function(item) for item in items]
    context = multiprocessing.get_context("fork")
    parts = min(len(items), PARTS * cores)
    waiting = list(reversed(range(parts)))
    at_work: dict[Connection, tuple[int, BaseProcess]] = {}
    results: list[Any] = [None] * len(items)
    process: BaseProcess
    try:
        while waiting or at_work:
            while waiting and len(at_work) < cores:
                part = waiting.pop()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(
                    target=_do, args=(theirs, function, items[part::parts]), daemon=True
                )
                process.start()
                theirs.close()
                at_work[ours] = part, process
            for ready in wait(list(at_work)):
                assert isinstance(ready, Connection)
                part, process = at_work[ready]
                results[part::parts] = _received(ready)
                process.join()
                del at_work[ready]
    finally:
        for _, process in at_work.values():
            process.kill()  # not terminate(): our handler of SIGTERM, which it has too, may refuse
            process.join()
    return results


def _do(pipe: Connection, function: Callable[[Any], Any], items: Sequence[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    answer: list[Any] | Exception
    try:
        answer = [function(item) for item in items]
    except Exception as error:
        error.add_note(traceback.format_exc())
        answer = error
    pipe.send(answer)


def _received(pipe: Connection) -> list[Any]:
    try:
        answer = pipe.recv()
    except EOFError:
        raise UserError(
            "a process that worked on the report died (out of memory?); nothing is lost"
        ) from None
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, list)
    return answer
