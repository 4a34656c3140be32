"""Mean ranks, Friedman and Nemenyi, and the agreement of two orders of methods."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pflbench.errors import UserError
from pflbench.report.stats import ranks
from pflbench.report.stats.frames import Refusal
from pflbench.report.stats.ranks import Agreement, Ranking
from tests.factories.accuracies import by_scenario

# AUC of four variants of C4.5 on 14 data sets: Demsar, JMLR 7 (2006), table 6. One value has a fourth
# digit (0.9751), as the table ranks it before the other 0.975 in its row.
DEMSAR = pd.DataFrame(
    {
        "C4.5": [
            0.763,
            0.599,
            0.954,
            0.628,
            0.882,
            0.936,
            0.661,
            0.583,
            0.775,
            1.0,
            0.940,
            0.619,
            0.972,
            0.957,
        ],
        "C4.5+m": [
            0.768,
            0.591,
            0.971,
            0.661,
            0.888,
            0.931,
            0.668,
            0.583,
            0.838,
            1.0,
            0.962,
            0.666,
            0.981,
            0.978,
        ],
        "C4.5+cf": [
            0.771,
            0.590,
            0.968,
            0.654,
            0.886,
            0.916,
            0.609,
            0.563,
            0.866,
            1.0,
            0.965,
            0.614,
            0.9751,
            0.946,
        ],
        "C4.5+m+cf": [
            0.798,
            0.569,
            0.967,
            0.657,
            0.898,
            0.931,
            0.685,
            0.625,
            0.875,
            1.0,
            0.962,
            0.669,
            0.975,
            0.970,
        ],
    }
)


def ranked(frame: pd.DataFrame, **options) -> Ranking:
    found = ranks.friedman(frame, **options)
    assert isinstance(found, Ranking), found
    return found


def test_demsars_example():
    """Published: mean ranks, CD, who differs; and chi-square 9.28 without correction for ties, sum
    (t^3 - t) = 78.
    """
    found = ranked(by_scenario(DEMSAR))
    expected = {"C4.5+m+cf": 1.964, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert found.ranks == pytest.approx(expected, abs=5e-4)
    assert list(found.ranks) == list(expected)
    assert found.difference == pytest.approx(1.25, abs=5e-3)
    assert found.statistic == pytest.approx(9.28 / (1 - 78 / (14 * 4 * 15)), abs=0.01)
    assert found.p == pytest.approx(stats.chi2.sf(found.statistic, 3))
    assert (found.blocks, found.left_out, found.dropped) == (14, (), ())
    assert found.groups == (tuple(expected),)  # 3.143 - 1.964 = 1.18 < 1.25


def test_demsars_example_at_a_tenth():
    """Published: CD 1.12, and C4.5 differs from C4.5+m and from C4.5+m+cf."""
    found = ranked(by_scenario(DEMSAR), alpha=0.10)
    assert found.difference == pytest.approx(1.12, abs=5e-3)
    assert found.groups == (("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5"))


@pytest.mark.parametrize("methods, q", [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_the_published_quantiles(methods: int, q: float):
    expected = q * math.sqrt(methods * (methods + 1) / (6 * 9))
    assert ranks.critical_difference(methods, 9) == pytest.approx(expected, rel=5e-4)


def test_by_hand():
    """Ranks 1, 2, 3 in all of 4 blocks: chi-square N (k - 1) = 8, p = exp(-8 / 2), CD = 2.343
    sqrt(12 / 24) = 1.657.
    """
    found = ranked(
        by_scenario(pd.DataFrame({"B": [0.5, 0.6, 0.7, 0.8], "C": [0.1] * 4, "A": [0.9] * 4}))
    )
    assert found.ranks == {"A": 1.0, "B": 2.0, "C": 3.0}
    assert found.statistic == pytest.approx(8)
    assert found.p == pytest.approx(math.exp(-4))
    assert found.difference == pytest.approx(1.657, abs=1e-3)
    assert found.groups == (("A", "B"), ("B", "C"))


def test_methods_that_differ_from_all_are_in_no_group():
    """A and B share the first two places (1.5), C is at 3, D at 4; CD 0.74."""
    rows = [(0.9, 0.8, 0.5, 0.1), (0.8, 0.9, 0.5, 0.1)] * 20
    found = ranked(by_scenario(pd.DataFrame(rows, columns=list("ABCD"))))
    assert found.difference == pytest.approx(2.569 * math.sqrt(20 / 240), rel=1e-3)
    assert found.groups == (("A", "B"),)


def test_mean_ranks_that_are_exactly_the_difference_apart_differ():
    """A and B are 1 apart, B and C by a rounding less; A and C are 2 apart."""
    places = {"A": 1.0, "B": 2.0, "C": 3.0 - 1e-12, "D": 3.5}
    assert ranks._groups(places, 1.0) == (("C", "D"),)
    assert ranks._groups(places, 1.1) == (("A", "B"), ("B", "C"), ("C", "D"))
    assert ranks._groups(places, 0.5) == ()


def test_no_two_methods_differ_where_friedman_does_not_reject():
    """First and last are 9 ranks apart, CD is 7.8; but the eight between are so even that
    chi-square is not large.
    """
    rows = [[1, *np.roll(range(2, 10), shift), 10] for shift in (0, 3, 6)]
    found = ranked(by_scenario(-pd.DataFrame(rows, columns=list("ABCDEFGHIJ"))))
    assert found.p > 0.05
    assert found.ranks["J"] - found.ranks["A"] == 9 > found.difference
    assert [set(group) for group in found.groups] == [set("ABCDEFGHIJ")]


def test_equal_methods_have_equal_ranks():
    found = ranked(by_scenario(pd.DataFrame(0.5, index=range(4), columns=list("ABC"))))
    assert (found.ranks, found.statistic, found.p) == ({"A": 2.0, "B": 2.0, "C": 2.0}, 0.0, 1.0)


def test_rounding_is_a_tie():
    table = pd.DataFrame({"A": [0.3] * 3, "B": [0.1 + 0.2] * 3, "C": [0.1] * 3})
    assert ranked(by_scenario(table)).ranks == {"A": 1.5, "B": 1.5, "C": 3.0}


def test_blocks_are_means_over_seeds_or_runs():
    """A is better in the mean of both seeds, B in seed 1."""
    first = pd.DataFrame({"A": [0.9] * 3, "B": [0.5] * 3, "C": [0.1] * 3})
    second = pd.DataFrame({"A": [0.5] * 3, "B": [0.6] * 3, "C": [0.1] * 3})
    both = pd.concat([by_scenario(first, 0), by_scenario(second, 1)])
    assert ranked(both).ranks == {"A": 1.0, "B": 2.0, "C": 3.0}
    assert ranked(both).blocks == 3
    assert ranked(both, blocks="runs").ranks == {"A": 1.5, "B": 1.5, "C": 3.0}
    assert ranked(both, blocks="runs").blocks == 6


def test_a_row_is_dropped_if_that_keeps_more_than_to_leave_out_a_method():
    table = pd.DataFrame(np.arange(40.0).reshape(10, 4), columns=list("ABCD"))
    table.loc[3, "B"] = np.nan
    found = ranked(by_scenario(table))
    assert (list(found.ranks), found.blocks) == (list("DCBA"), 9)
    assert (found.left_out, found.dropped) == ((), ((3, 0),))


def test_a_method_is_left_out_if_that_keeps_more():
    table = pd.DataFrame(np.arange(40.0).reshape(10, 4), columns=list("ABCD"))
    table.loc[3:, "B"] = np.nan
    table.loc[0, "C"] = np.nan
    found = ranked(by_scenario(table))
    assert (list(found.ranks), found.blocks) == (list("DCA"), 9)
    assert (found.left_out, found.dropped) == (("B",), ((0, 0),))


def test_methods_that_lack_the_same_rows_are_left_out_together():
    """To leave out only one of B and C makes no row whole."""
    table = pd.DataFrame(np.arange(50.0).reshape(10, 5), columns=list("ABCDE"))
    table.loc[2:, ["B", "C"]] = np.nan
    assert ranked(by_scenario(table)).left_out == ("B", "C")


def test_a_method_without_any_accuracy_is_reported():
    assert ranked(by_scenario(DEMSAR.assign(Diverged=np.nan))).left_out == ("Diverged",)


def test_a_seed_that_a_method_lacks_is_lacking_for_all():
    """With seed 1 of scenario 0, B would have won it against A, who has seed 0 only."""
    first = pd.DataFrame({"A": [0.6, 0.6], "B": [0.5, 0.5], "C": [0.1, 0.1]})
    second = pd.DataFrame({"A": [np.nan, 0.6], "B": [0.9, 0.5], "C": [0.1, 0.1]})
    found = ranked(pd.concat([by_scenario(first, 0), by_scenario(second, 1)]))
    assert found.ranks == {"A": 1.0, "B": 2.0, "C": 3.0}
    assert (found.blocks, found.dropped) == (2, ((0, 1),))


def test_enough_blocks_come_before_more_cells():
    """One whole row of seven methods, or two of three."""
    table = pd.DataFrame(0.5, index=range(2), columns=list("ABCDEFG"))
    table.loc[1, list("DEFG")] = np.nan
    found = ranked(by_scenario(table))
    assert (set(found.ranks), found.blocks) == ({"A", "B", "C"}, 2)


@pytest.mark.parametrize(
    "table, blocks, reason",
    [
        (
            {"A": [1.0] * 5, "B": [2.0] * 5},
            "scenarios",
            "Friedman's test needs 3 methods, there are 2",
        ),
        (
            {"A": [1.0], "B": [2.0], "C": [3.0]},
            "scenarios",
            "Friedman's test needs 2 scenarios that all methods have, there are 1",
        ),
        (
            {"A": [1.0, np.nan], "B": [np.nan, 2.0], "C": [3.0, 3.0]},
            "runs",
            "Friedman's test needs 2 runs that all methods have, there are 0",
        ),
    ],
)
def test_refusals(table: dict[str, list[float]], blocks: str, reason: str):
    assert ranks.friedman(by_scenario(pd.DataFrame(table)), blocks=blocks) == Refusal(reason)


# Agreement of two orders


def test_agreement_by_hand():
    """One of the six pairs (b, c) is the other way round: tau = (5 - 1) / 6; z is only in one
    order.
    """
    measured = pd.Series({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "z": 9.0})
    published = pd.Series({"d": 80.0, "c": 60.0, "b": 70.0, "a": 50.0})
    found = ranks.agreement(measured, published)
    # P(at most one inversion) = (1 + 3) / 4!, both sides.
    assert found == Agreement(pytest.approx(4 / 6), pytest.approx(2 * 4 / 24), 4)


def test_agreement_with_ties_is_tau_b():
    """Pairs: 6; concordant 4, discordant 0; one tie in each order: 4 / sqrt(5 * 5)."""
    found = ranks.agreement(
        pd.Series([1.0, 0.1 + 0.2, 0.3, 2.0], index=list("abcd")),
        pd.Series([2.0, 1.0, 2.0, 3.0], index=list("abcd")),
    )
    assert isinstance(found, Agreement)
    assert found.tau == pytest.approx(4 / 5)
    assert found.p == pytest.approx(
        stats.kendalltau([1.0, 0.3, 0.3, 2.0], [2.0, 1.0, 2.0, 3.0]).pvalue
    )


def test_agreement_is_refused_without_an_order():
    three = pd.Series([1.0, 2.0, math.nan], index=list("abc"))
    refused = Refusal("a comparison of orders needs 3 methods in both, there are 2")
    assert ranks.agreement(three, three) == refused
    flat = pd.Series(0.5, index=list("abc"))
    found = ranks.agreement(flat, pd.Series([1.0, 2.0, 3.0], index=list("abc")))
    assert isinstance(found, Refusal) and "all are equal" in found.reason
    with pytest.raises(UserError, match="the published order has 'a' twice"):
        ranks.agreement(flat, pd.Series([1.0, 2.0, 3.0], index=list("aab")))
