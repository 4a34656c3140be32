"""Work on all cores: in order, without sending the items, and failures come back."""

import os

import pytest

from pflbench.errors import UserError
from pflbench.report.processes import each


def test_results_are_in_the_order_of_the_items_and_of_many_from_other_processes():
    items = [lambda place=place: (place, os.getpid()) for place in range(9)]  # a lambda cannot be sent
    here = each(lambda item: item(), items, few=9)
    assert here == [(place, os.getpid()) for place in range(9)]
    there = each(lambda item: item(), items, few=8)
    assert [place for place, _ in there] == list(range(9))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    assert (os.getpid() in {process for _, process in there}) == (cores == 1)


def test_nothing_to_do():
    assert each(str, [], few=0) == []


@pytest.mark.parametrize("few", [0, 9])
def test_a_mistake_that_is_found_there_is_told_here(few: int):
    def refuse(item: int) -> int:
        if item == 2:
            raise UserError(f"not {item}")
        return item

    with pytest.raises(UserError, match="not 2"):
        each(refuse, [1, 2, 3], few=few)
    assert each(refuse, [1, 3], few=few) == [1, 3]  # and nothing is left of it
