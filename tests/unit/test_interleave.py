"""Turns, ratios and goals of `pflbench bench`."""

import importlib

import pytest

interleave = importlib.import_module("pflbench.benchmarks.interleave")


def test_contenders_take_turns_and_the_first_turn_only_warms_up():
    order: list[str] = []
    now = [0.0]

    def contender(name: str, seconds: float):
        def turn() -> float:
            order.append(name)
            now[0] += seconds
            return 6.0

        return turn

    seen = interleave.speeds(
        {"a": contender("a", 2.0), "b": contender("b", 3.0)}, 2, lambda: now[0]
    )
    assert order == ["a", "b"] * 3
    assert seen == {"a": [3.0, 3.0], "b": [2.0, 2.0]}


def test_a_ratio_is_taken_turn_by_turn():
    # a slow turn of the machine hits both
    found = interleave.ratio([2.0, 30.0, 8.0], [1.0, 10.0, 2.0])
    assert (found.low, found.median, found.high) == (2.5, 3.0, 3.5)
    assert str(found) == "3.00 (2.50-3.50)"
    assert interleave.ratio([3.0], [2.0]).median == 1.5


@pytest.mark.parametrize(
    "value, least, most", [(0.9, False, True), (1.0, True, True), (1.1, True, False)]
)
def test_a_goal_is_met_from_the_right_side(value, least, most):
    assert interleave.at_least("x", value, 1.0).met is least
    assert interleave.at_most("x", value, 1.0).met is most
