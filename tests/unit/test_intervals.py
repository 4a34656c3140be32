"""Intervals over seeds: values by hand, by all resamples, and refusals."""

import math
from itertools import product

import numpy as np
import pytest

from pflbench.report.stats import intervals
from pflbench.report.stats.frames import Refusal
from pflbench.report.stats.intervals import Interval
from tests.factories.accuracies import by_method


def test_interval_of_three_seeds_is_their_range():
    """All three draws are the smallest with probability 1/27 > 2.5 %."""
    found = intervals.interval([0.5, 0.8, 0.56])
    assert found == Interval(pytest.approx(0.62), pytest.approx(0.5), pytest.approx(0.8), 3)


def test_interval_agrees_with_all_resamples():
    """Of 5 values there are 5^5 equally likely resamples; the bootstrap draws from them."""
    values = np.array([0.50, 0.53, 0.54, 0.59, 0.61])
    means = np.array(list(product(values, repeat=5))).mean(axis=1)
    low, high = np.quantile(means, [0.05, 0.95])
    found = intervals.interval(values, level=0.9)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == (pytest.approx(low, abs=2e-3), pytest.approx(high, abs=2e-3))


def test_interval_is_the_same_every_time():
    values = np.linspace(0.3, 0.7, 8) ** 2
    first = intervals.interval(values)
    np.random.default_rng().random(3)
    assert intervals.interval(values) == first


def test_interval_of_equal_values_is_a_point():
    assert intervals.interval([0.7] * 4) == Interval(
        pytest.approx(0.7), pytest.approx(0.7), pytest.approx(0.7), 4
    )


def test_interval_is_refused_for_two_seeds_and_says_how_many_it_needs():
    assert intervals.interval([0.5, math.nan, 0.6]) == Refusal(
        "an interval over seeds needs 3 seeds, there are 2"
    )


def test_intervals_have_a_row_for_every_method_and_scenario():
    runs = by_method(
        {"A": [0.1, 0.2, 0.6, 0.4, 0.4, 0.4], "B": [0.1, 0.2, math.nan, 0.5, 0.6, 0.7]}, seeds=3
    )
    table = intervals.intervals(runs).set_index(["method", "scenario"])
    assert list(table["seeds"]) == [3, 3, 2, 3]
    assert table.loc[("A", "s0"), ["mean", "low", "high"]].tolist() == pytest.approx(
        [0.3, 0.1, 0.6]
    )
    assert table.loc[("B", "s0"), "mean"] == pytest.approx(0.15)
    assert math.isnan(table.loc[("B", "s0"), "low"])
    assert "needs 3 seeds, there are 2" in table.loc[("B", "s0"), "reason"]
    assert table.loc[("B", "s1"), "reason"] == ""


def test_the_level_of_intervals_is_that_asked_for():
    runs = by_method({"A": [0.1, 0.2, 0.3, 0.4, 0.9]}, seeds=5)
    wide, narrow = (intervals.intervals(runs, level).loc[0] for level in (0.95, 0.5))
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]
