"""Signed-rank tests: p-values by hand and by scipy, Holm, ties, missing runs, refusals."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pflbench.errors import UserError
from pflbench.report.stats import significance
from pflbench.report.stats.frames import Refusal
from tests.factories.accuracies import by_method


def test_signed_rank_by_hand():
    """Ranks 1..6, the second one negative: W- = 2, reached or passed below by {}, {1}, {2}: 2 * 3 /
    64.
    """
    assert significance.signed_rank([1, -2, 3, 4, 5, 6]) == 2 * 3 / 64


def test_signed_rank_is_scipys_exact_test_where_there_are_no_ties():
    draws = np.random.default_rng(0)
    for n in (5, 9, 20, 45):
        d = draws.normal(0.2, 1, n)
        assert significance.signed_rank(d) == pytest.approx(
            stats.wilcoxon(d, method="exact").pvalue, rel=1e-12
        )


def test_signed_rank_is_scipys_test_over_all_signs_where_there_are_ties_and_zeros():
    draws = np.random.default_rng(1)
    every = stats.PermutationMethod(n_resamples=math.inf)
    for n in (6, 8, 10):
        d = draws.integers(-3, 6, n) / 100
        d[0] = 0
        expected = stats.wilcoxon(d, zero_method="pratt", method=every).pvalue
        assert significance.signed_rank(d) == pytest.approx(expected, rel=1e-12)


def test_ties_have_average_ranks_of_which_two_make_a_whole_one():
    """Ranks 1.5, 1.5 (negative), 3, 4: of the 16 signs W- <= 3 for {}, {1.5} twice, {1.5, 1.5} and
    {3}.
    """
    assert significance.signed_rank([-0.1, -0.1, 0.2, 0.3]) == 2 * 5 / 16


def test_zeros_are_ranked_and_then_carry_no_sign():
    """Ranks 1.5, 1.5 (zeros), 3, 4, 5: of the 8 signs of 3, 4, 5 only {} and {3} have W- <= 3."""
    assert significance.signed_rank([0, 0, -0.1, 0.2, 0.3]) == 2 * 2 / 8
    assert significance.signed_rank([0.0] * 7) == 1


def test_the_sign_of_all_differences_does_not_matter():
    for d in ([0, 0, -0.1, 0.2, 0.3], [0, 0.1, -0.2, -0.3, -0.4, -0.5], [0.1, 0.2, -0.3]):
        assert significance.signed_rank(d) == significance.signed_rank([-x for x in d])


def test_differences_that_are_only_rounding_are_ties():
    """0.2 - 0.3 is nearer to zero than 0.1 in its last bit; as a tie it has rank 1.5, W- <= 1.5 for
    {} and two.
    """
    assert 0.3 - 0.2 < 0.1
    assert significance.signed_rank([0.2 - 0.3, 0.1, 0.3, 0.4, 0.5, 0.6]) == 2 * 3 / 64


def test_holm_by_hand():
    """Sorted 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1 -> not below the one before."""
    assert significance.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert significance.holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    "alpha, tests, needed", [(0.05, 1, 6), (0.0625, 1, 5), (0.01, 1, 8), (0.05, 231, 14)]
)
def test_blocks_needed(alpha: float, tests: int, needed: int):
    assert significance.blocks_needed(alpha, tests) == needed


# Paired tests

EIGHT = {
    "A": [0.91, 0.82, 0.73, 0.64, 0.55, 0.96, 0.87, 0.78],
    "B": [0.90, 0.80, 0.70, 0.60, 0.50, 0.90, 0.80, 0.70],
    "C": [0.90, 0.83, 0.70, 0.60, 0.50, 0.90, 0.80, 0.70],
}


def test_every_pair_is_tested_and_adjusted():
    table = significance.paired_tests(by_method(EIGHT))
    assert isinstance(table, pd.DataFrame)
    assert list(zip(table["method"], table["other"], strict=True)) == [
        ("A", "B"),
        ("A", "C"),
        ("B", "C"),
    ]
    # A - B: 0.01..0.08, all positive. A - C: 0.01, -0.01, 0.03..0.08; ranks 1.5, 1.5, 3..8; W- = 1.5: {}, {1.5}, {1.5}.
    assert list(table["p"]) == pytest.approx([2 / 256, 2 * 3 / 256, 1.0])
    assert list(table["p_holm"]) == pytest.approx([3 * 2 / 256, 2 * 6 / 256, 1.0])
    assert list(table["different"]) == [True, True, False]
    assert list(table["wins"]) == [8, 7, 0]
    assert list(table["losses"]) == [0, 1, 1]
    assert table["difference"][0] == pytest.approx(0.045)
    assert set(table["needed"]) == {7}  # 3 * 2 / 2^7 = 0.047


def test_methods_differ_by_the_adjusted_p_up_to_alpha_itself():
    """Six blocks all won: p = 2 / 64; two tests: 4 / 64."""
    six = {name: values[:6] for name, values in EIGHT.items() if name != "C"}
    six["D"] = [0.1] * 6
    alone = significance.paired_tests(by_method({"A": six["A"], "B": six["B"]}))
    both = significance.paired_tests(by_method(six), reference="A")
    exactly = significance.paired_tests(by_method(six), reference="A", alpha=4 / 64)
    below = significance.paired_tests(by_method(six), reference="A", alpha=4 / 64 - 1e-9)
    found = [table["different"].tolist() for table in (alone, both, exactly, below)]
    assert found == [[True], [False, False], [True, True], [False, False]]


def test_the_difference_is_the_mean_over_blocks():
    """Differences 0.01, 0.01, 0.01, 0.01, 0.01, 0.31."""
    runs = by_method({"A": [0.51] * 5 + [0.81], "B": [0.5] * 6})
    table = significance.paired_tests(runs)
    assert isinstance(table, pd.DataFrame)
    assert table["difference"][0] == pytest.approx(0.06)


def test_a_reference_is_compared_with_every_other_method():
    table = significance.paired_tests(by_method(EIGHT), reference="B")
    assert isinstance(table, pd.DataFrame)
    assert list(table["method"]) == ["B", "B"]
    assert list(table["other"]) == ["A", "C"]
    assert list(table["p_holm"]) == pytest.approx([2 * 2 / 256, 1.0])


def test_seeds_are_averaged_before_scenarios_are_compared():
    """A wins one seed of every scenario, and loses more in the other."""
    gaps = [gap for i in range(6) for gap in (0.01 + 0.001 * i, -0.04 + 0.001 * i)]
    runs = by_method({"A": [0.5 + gap for gap in gaps], "B": [0.5] * 12}, seeds=2)
    scenarios, each = (
        significance.paired_tests(runs),
        significance.paired_tests(runs, blocks="runs"),
    )
    assert isinstance(scenarios, pd.DataFrame) and isinstance(each, pd.DataFrame)
    assert (scenarios["blocks"][0], scenarios["losses"][0], scenarios["p"][0]) == (6, 6, 2 / 64)
    assert scenarios["difference"][0] == pytest.approx(-0.0125)
    assert (each["blocks"][0], each["wins"][0], each["losses"][0]) == (12, 6, 6)
    assert each["p"][0] == pytest.approx(stats.wilcoxon(gaps, method="exact").pvalue)


def test_pairs_are_over_the_seeds_that_both_methods_have():
    """A's other seed of every scenario, which B lacks, would turn the result round."""
    ours = [value for i in range(6) for value in (0.6 + 0.01 * i, 0.0)]
    runs = by_method({"A": ours, "B": [0.5, math.nan] * 6}, seeds=2)
    table = significance.paired_tests(runs)
    assert isinstance(table, pd.DataFrame)
    assert (table["wins"][0], table["p"][0], table["difference"][0]) == (
        6,
        2 / 64,
        pytest.approx(0.125),
    )


def test_a_pair_with_too_few_common_blocks_is_refused_and_does_not_count_for_holm():
    runs = by_method({**EIGHT, "D": [0.1] * 5 + [math.nan] * 3})
    table = significance.paired_tests(runs, reference="A")
    assert isinstance(table, pd.DataFrame)
    last = table.iloc[-1]
    assert (last["other"], last["blocks"], last["different"]) == ("D", 5, False)
    assert math.isnan(last["p"]) and math.isnan(last["p_holm"])
    assert (
        last["reason"]
        == "a signed-rank test at 0.05 needs 6 blocks that both methods have, there are 5"
    )
    assert table["p_holm"][0] == pytest.approx(2 * 2 / 256)
    one = by_method({"A": EIGHT["A"], "B": EIGHT["B"], "D": [0.1] * 5 + [math.nan] * 3})
    alone = significance.paired_tests(one, reference="A")
    assert isinstance(alone, pd.DataFrame)
    assert set(alone["needed"]) == {6}  # of one test; two would need 7


def test_tests_are_refused_if_no_pair_has_enough_blocks():
    short = by_method({name: values[:5] for name, values in EIGHT.items()})
    found = significance.paired_tests(short)
    assert found == Refusal(
        "a signed-rank test at 0.05 needs 6 blocks that both methods have, there are 5"
    )
    # 2 / 2^5 = 0.0625
    assert isinstance(significance.paired_tests(short, alpha=0.07), pd.DataFrame)


def test_a_refusal_is_that_of_the_pair_with_the_most_blocks():
    runs = by_method({"A": [0.5] * 5, "B": [0.4] * 5, "C": [0.3] * 3 + [math.nan] * 2})
    found = significance.paired_tests(runs)
    assert isinstance(found, Refusal) and found.reason.endswith("there are 5")


def test_one_method_has_no_pair():
    found = significance.paired_tests(by_method({"A": EIGHT["A"]}))
    assert found == Refusal("a paired test needs 2 methods, there are 1")


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda runs: significance.paired_tests(runs, reference="Z"),
            "unknown method 'Z'; known: A, B, C",
        ),
        (
            lambda runs: significance.paired_tests(runs, blocks="seeds"),
            "unknown kind of blocks 'seeds'",
        ),
        (
            lambda runs: significance.paired_tests(runs.drop(columns="seed")),
            "no column 'seed'; it needs method, scenario",
        ),
        (
            lambda runs: significance.paired_tests(pd.concat([runs, runs])),
            "two accuracies for method A, scenario s0, seed 0",
        ),
    ],
)
def test_mistakes_are_one_line(change, message: str):
    with pytest.raises(UserError, match=message):
        change(by_method(EIGHT))
