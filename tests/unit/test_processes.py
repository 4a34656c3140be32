"""Work on all cores: in order, without sending the items, and failures come back."""

import os
import signal
import time

import pytest

from pflbench.errors import UserError
from pflbench.report.load.parallel import each

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
in_processes = pytest.mark.skipif(CORES == 1, reason="with one core all is done in this process")


def test_results_are_in_the_order_of_the_items_and_of_many_from_other_processes():
    # a lambda cannot be sent
    items = [lambda place=place: (place, os.getpid()) for place in range(9)]
    here = each(lambda item: item(), items, few=9)
    assert here == [(place, os.getpid()) for place in range(9)]
    there = each(lambda item: item(), items, few=8)
    assert [place for place, _ in there] == list(range(9))
    assert (os.getpid() in {process for _, process in there}) == (CORES == 1)


def test_many_items_are_in_order():
    assert each(lambda item: 2 * item, range(100), few=3) == list(range(0, 200, 2))


def test_nothing_to_do():
    assert each(str, [], few=0) == []


@pytest.mark.parametrize("few", [0, 9])
def test_a_mistake_there_is_raised_here(few: int):
    def refuse(item: int) -> int:
        if item == 2:
            raise UserError(f"not {item}")
        return item

    with pytest.raises(UserError, match="not 2"):
        each(refuse, [1, 2, 3], few=few)
    assert each(refuse, [1, 3], few=few) == [1, 3]  # and nothing is left of it


@in_processes
def test_a_process_that_dies_is_an_error_and_the_others_end():
    began = time.monotonic()
    with pytest.raises(UserError, match="died"):
        each(
            lambda wait: time.sleep(wait) if wait else os.kill(os.getpid(), signal.SIGKILL),
            [0, 60],
            few=0,
        )
    assert time.monotonic() - began < 30


@in_processes
def test_processes_end_that_do_not_hear_sigterm():
    def refuse(wait: int) -> None:
        time.sleep(wait)
        raise UserError("refused")

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        began = time.monotonic()
        with pytest.raises(UserError, match="refused"):
            each(refuse, [0, 60], few=0)
        assert time.monotonic() - began < 30
    finally:
        signal.signal(signal.SIGTERM, before)


@in_processes
def test_a_bug_comes_with_where_it_was():
    with pytest.raises(ZeroDivisionError) as caught:
        each(lambda item: 1 // item, [1, 0], few=0)
    assert "1 // item" in "".join(getattr(caught.value, "__notes__", []))
