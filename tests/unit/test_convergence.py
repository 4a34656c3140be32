"""Rounds to convergence by hand."""

import math

import numpy as np
import pytest

from pflbench.report.stats.convergence import DID_NOT_IMPROVE, convergence_round


def test_the_first_round_from_which_the_smoothed_curve_stays_within_the_margin():
    """Windows of 2 end at rounds 2..8: 0.2, 0.5, 0.7, 0.79, 0.795, 0.795, 0.8."""
    rounds = range(1, 9)
    accuracy = [0.0, 0.4, 0.6, 0.8, 0.78, 0.81, 0.78, 0.82]
    assert convergence_round(rounds, accuracy, length=2, margin=0.01) == 5
    assert convergence_round(rounds, accuracy, length=2, margin=0.009) == 6
    assert convergence_round(rounds, accuracy, length=2, margin=0.7) == 2  # the first whole window


def test_the_last_time_that_the_margin_is_left_counts():
    """0.5 is the level from round 2 on, but for a dip whose last window ends at round 10."""
    accuracy = [0.3] + [0.5] * 6 + [0.2] + [0.5] * 6
    assert convergence_round(range(1, 15), accuracy, length=3) == 11


def test_a_curve_that_falls_to_its_final_level_has_not_converged_at_its_peak():
    """Windows of 2 end at rounds 2..6: 0.45, 0.9, 0.7, 0.5, 0.5."""
    accuracy = [0.0, 0.9, 0.9, 0.5, 0.5, 0.5]
    assert convergence_round(range(1, 7), accuracy, length=2) == 5


def test_rounds_without_an_accuracy_are_skipped_and_the_others_sorted():
    rounds = [30, 10, 20, 25, 40, 50]
    accuracy = [0.5, 0.1, 0.5, math.nan, 0.5, 0.5]
    assert convergence_round(rounds, accuracy, length=2) == 30


def test_a_curve_that_still_rises_converges_near_the_end():
    """A percentage point per round: the windows of rounds 99 and 100 are within one."""
    assert convergence_round(range(1, 101), np.linspace(0, 0.99, 100)) == 99


def test_two_windows_are_needed():
    rising = [0.1] + [0.5] * 19
    assert math.isnan(convergence_round(range(1, 20), rising[:19]))
    assert convergence_round(range(1, 21), rising) == 11  # the first window without round 1
    assert math.isnan(convergence_round([], []))


def test_round_0_does_not_count_so_that_pre_and_post_start_alike():
    rounds, accuracy = [0, 1, 2, 3, 4], [0.0, 0.4, 0.5, 0.5, 0.5]
    assert convergence_round(rounds, accuracy, length=2) == convergence_round(
        rounds[1:], accuracy[1:], length=2
    )
    assert math.isnan(convergence_round(range(20), [0.1] + [0.5] * 19))  # 19 from round 1 on
    stuck_after_round_0 = [0.0, 0.5, 0.5, 0.5, 0.5]
    assert convergence_round(rounds, stuck_after_round_0, length=2) == DID_NOT_IMPROVE


@pytest.mark.parametrize(
    "accuracy",
    [
        [0.5] * 8,
        [0.5, 0.51, 0.51, 0.51, 0.51, 0.51, 0.51, 0.51],  # a point better, as much as the margin
        [0.5, 0.45, 0.55, 0.45, 0.55, 0.45, 0.55, 0.45],  # single evaluations are not enough
        [0.5, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1],
    ],
)
def test_a_run_that_never_rises_above_its_first_evaluation_did_not_improve(accuracy: list[float]):
    assert convergence_round(range(1, 9), accuracy, length=2) == DID_NOT_IMPROVE


def test_a_run_that_improved_once_has_not_stood_still():
    """It rises above its start by more than the margin and falls back."""
    accuracy = [0.5, 0.6, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5]
    assert convergence_round(range(1, 9), accuracy, length=2) == 6
    barely = [0.5, 0.511, 0.511, 0.511]
    assert convergence_round(range(1, 5), barely, length=2) == 2
