"""The same work for many things, on all cores."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_work: tuple[Callable[[Any], Any], Sequence[Any]] | None = None


def each(function: Callable[[Item], Result], items: Sequence[Item], few: int) -> list[Result]:
    """function(item) for every item, in their order; of more than a `few` in processes.

    The processes are forked: they see function and items as they are here (figures cannot be sent), and only results
    are sent back. Where nothing can be forked, or safely (macOS), all is done here.
    """
    global _work  # noqa: PLW0603, how a forked process finds its work
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(items) <= few or cores == 1 or multiprocessing.current_process().daemon:
        return [function(item) for item in items]
    _work = function, items
    try:
        with multiprocessing.get_context("fork").Pool(min(cores, len(items))) as pool:
            return pool.map(_one, range(len(items)), chunksize=1)
    finally:
        _work = None


def _one(place: int) -> Any:
    assert _work is not None
    function, items = _work
    return function(items[place])
