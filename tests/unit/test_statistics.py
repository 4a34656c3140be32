"""Statistics of a report: values by hand or by scipy, ties, missing runs, and refusals."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pflbench.errors import UserError
from pflbench.report.stats import statistics
from pflbench.report.stats.statistics import Agreement, Interval, Refusal


def frame(table: dict[str, list[float]], seeds: int = 1) -> pd.DataFrame:
    """Runs from a list of accuracies a method: setting by setting, and in a setting seed by seed."""
    return pd.DataFrame(
        [
            {"method": method, "setting": f"s{i // seeds}", "seed": i % seeds, "accuracy": value}
            for method, values in table.items()
            for i, value in enumerate(values)
        ]
    )


def clients(table: dict[str, list[float]], seed: int = 0) -> pd.DataFrame:
    rows = [
        (m, "s", seed, i, value) for m, values in table.items() for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["method", "setting", "seed", "client", "accuracy"])


# Intervals


def test_interval_of_three_seeds_is_their_range():
    """All three draws are the smallest with probability 1/27 > 2.5 %."""
    found = statistics.interval([0.5, 0.8, 0.56])
    assert found == Interval(pytest.approx(0.62), pytest.approx(0.5), pytest.approx(0.8), 3)


def test_interval_agrees_with_all_resamples():
    """Of 5 values there are 5^5 equally likely resamples; the bootstrap draws from them."""
    values = np.array([0.50, 0.53, 0.54, 0.59, 0.61])
    means = np.array(list(product(values, repeat=5))).mean(axis=1)
    low, high = np.quantile(means, [0.05, 0.95])
    found = statistics.interval(values, level=0.9)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == (pytest.approx(low, abs=2e-3), pytest.approx(high, abs=2e-3))


def test_interval_is_the_same_every_time():
    values = np.linspace(0.3, 0.7, 8) ** 2
    first = statistics.interval(values)
    np.random.default_rng().random(3)
    assert statistics.interval(values) == first


def test_interval_of_equal_values_is_a_point():
    assert statistics.interval([0.7] * 4) == Interval(
        pytest.approx(0.7), pytest.approx(0.7), pytest.approx(0.7), 4
    )


def test_interval_is_refused_for_two_seeds_and_says_how_many_it_needs():
    assert statistics.interval([0.5, math.nan, 0.6]) == Refusal(
        "an interval over seeds needs 3 seeds, there are 2"
    )


def test_intervals_have_a_row_for_every_method_and_setting():
    runs = frame(
        {"A": [0.1, 0.2, 0.6, 0.4, 0.4, 0.4], "B": [0.1, 0.2, math.nan, 0.5, 0.6, 0.7]}, seeds=3
    )
    table = statistics.intervals(runs).set_index(["method", "setting"])
    assert list(table["seeds"]) == [3, 3, 2, 3]
    assert table.loc[("A", "s0"), ["mean", "low", "high"]].tolist() == pytest.approx(
        [0.3, 0.1, 0.6]
    )
    assert table.loc[("B", "s0"), "mean"] == pytest.approx(0.15)
    assert math.isnan(table.loc[("B", "s0"), "low"])
    assert "needs 3 seeds, there are 2" in table.loc[("B", "s0"), "reason"]
    assert table.loc[("B", "s1"), "reason"] == ""


# Signed ranks


def test_signed_rank_by_hand():
    """Ranks 1..6, the second one negative: W- = 2, reached or passed below by {}, {1}, {2}: 2 * 3 / 64."""
    assert statistics.signed_rank([1, -2, 3, 4, 5, 6]) == 2 * 3 / 64


def test_signed_rank_is_scipys_exact_test_where_there_are_no_ties():
    draws = np.random.default_rng(0)
    for n in (5, 9, 20, 45):
        d = draws.normal(0.2, 1, n)
        assert statistics.signed_rank(d) == pytest.approx(
            stats.wilcoxon(d, method="exact").pvalue, rel=1e-12
        )


def test_signed_rank_is_scipys_test_over_all_signs_where_there_are_ties_and_zeros():
    draws = np.random.default_rng(1)
    every = stats.PermutationMethod(n_resamples=math.inf)
    for n in (6, 8, 10):
        d = draws.integers(-3, 6, n) / 100
        d[0] = 0
        expected = stats.wilcoxon(d, zero_method="pratt", method=every).pvalue
        assert statistics.signed_rank(d) == pytest.approx(expected, rel=1e-12)


def test_zeros_are_ranked_and_then_carry_no_sign():
    """Ranks 1.5, 1.5 (zeros), 3, 4, 5: of the 8 signs of 3, 4, 5 only {} and {3} have W- <= 3."""
    assert statistics.signed_rank([0, 0, -0.1, 0.2, 0.3]) == 2 * 2 / 8
    assert statistics.signed_rank([0.0] * 7) == 1


def test_differences_that_are_only_rounding_are_ties():
    """0.2 - 0.3 is nearer to zero than 0.1 in its last bit; as a tie it has rank 1.5, W- <= 1.5 for {} and two."""
    assert 0.3 - 0.2 < 0.1
    assert statistics.signed_rank([0.2 - 0.3, 0.1, 0.3, 0.4, 0.5, 0.6]) == 2 * 3 / 64


def test_holm_by_hand():
    """Sorted 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1 -> not below the one before."""
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    "alpha, tests, needed", [(0.05, 1, 6), (0.0625, 1, 5), (0.01, 1, 8), (0.05, 231, 14)]
)
def test_blocks_needed(alpha: float, tests: int, needed: int):
    assert statistics.blocks_needed(alpha, tests) == needed


# Paired tests

EIGHT = {
    "A": [0.91, 0.82, 0.73, 0.64, 0.55, 0.96, 0.87, 0.78],
    "B": [0.90, 0.80, 0.70, 0.60, 0.50, 0.90, 0.80, 0.70],
    "C": [0.90, 0.83, 0.70, 0.60, 0.50, 0.90, 0.80, 0.70],
}


def test_every_pair_is_tested_and_adjusted():
    table = statistics.paired_tests(frame(EIGHT))
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


def test_a_reference_is_compared_with_every_other_method():
    table = statistics.paired_tests(frame(EIGHT), reference="B")
    assert isinstance(table, pd.DataFrame)
    assert list(table["method"]) == ["B", "B"]
    assert list(table["other"]) == ["A", "C"]
    assert list(table["p_holm"]) == pytest.approx([2 * 2 / 256, 1.0])


def test_seeds_are_averaged_before_settings_are_compared():
    """A wins one seed of every setting, and loses more in the other."""
    gaps = [gap for i in range(6) for gap in (0.01 + 0.001 * i, -0.04 + 0.001 * i)]
    runs = frame({"A": [0.5 + gap for gap in gaps], "B": [0.5] * 12}, seeds=2)
    settings, each = statistics.paired_tests(runs), statistics.paired_tests(runs, blocks="runs")
    assert isinstance(settings, pd.DataFrame) and isinstance(each, pd.DataFrame)
    assert (settings["blocks"][0], settings["losses"][0], settings["p"][0]) == (6, 6, 2 / 64)
    assert settings["difference"][0] == pytest.approx(-0.0125)
    assert (each["blocks"][0], each["wins"][0], each["losses"][0]) == (12, 6, 6)
    assert each["p"][0] == pytest.approx(stats.wilcoxon(gaps, method="exact").pvalue)


def test_pairs_are_over_the_seeds_that_both_methods_have():
    """A's other seed of every setting, which B lacks, would turn the result round."""
    ours = [value for i in range(6) for value in (0.6 + 0.01 * i, 0.0)]
    runs = frame({"A": ours, "B": [0.5, math.nan] * 6}, seeds=2)
    table = statistics.paired_tests(runs)
    assert isinstance(table, pd.DataFrame)
    assert (table["wins"][0], table["p"][0], table["difference"][0]) == (
        6,
        2 / 64,
        pytest.approx(0.125),
    )


def test_a_pair_with_too_few_common_blocks_is_refused_and_does_not_count_for_holm():
    runs = frame({**EIGHT, "D": [0.1] * 5 + [math.nan] * 3})
    table = statistics.paired_tests(runs, reference="A")
    assert isinstance(table, pd.DataFrame)
    last = table.iloc[-1]
    assert (last["other"], last["blocks"], last["different"]) == ("D", 5, False)
    assert math.isnan(last["p"]) and math.isnan(last["p_holm"])
    assert (
        last["reason"]
        == "a signed-rank test at 0.05 needs 6 blocks that both methods have, there are 5"
    )
    assert table["p_holm"][0] == pytest.approx(2 * 2 / 256)


def test_tests_are_refused_if_no_pair_has_enough_blocks():
    short = frame({name: values[:5] for name, values in EIGHT.items()})
    found = statistics.paired_tests(short)
    assert found == Refusal(
        "a signed-rank test at 0.05 needs 6 blocks that both methods have, there are 5"
    )
    assert isinstance(statistics.paired_tests(short, alpha=0.07), pd.DataFrame)  # 2 / 2^5 = 0.0625


def test_one_method_has_no_pair():
    found = statistics.paired_tests(frame({"A": EIGHT["A"]}))
    assert found == Refusal("a paired test needs 2 methods, there are 1")


@pytest.mark.parametrize(
    "change, told",
    [
        (
            lambda runs: statistics.paired_tests(runs, reference="Z"),
            "unknown method 'Z'; known: A, B, C",
        ),
        (
            lambda runs: statistics.paired_tests(runs, blocks="seeds"),
            "unknown kind of blocks 'seeds'",
        ),
        (
            lambda runs: statistics.paired_tests(runs.drop(columns="seed")),
            "no column 'seed'; it needs method, setting",
        ),
        (
            lambda runs: statistics.paired_tests(pd.concat([runs, runs])),
            "two accuracies for method A, setting s0, seed 0",
        ),
        (statistics.client_summary, "no column 'client'"),
    ],
)
def test_mistakes_are_told(change, told: str):
    with pytest.raises(UserError, match=told):
        change(frame(EIGHT))


# Clients


def test_gains_are_those_of_the_same_client_setting_and_seed():
    both = pd.concat(
        [
            clients({"Local": [0.5, 0.6], "FedX": [0.7, 0.5, 0.9]}),
            clients({"FedX": [0.9]}, seed=1),
        ]
    )
    table = statistics.gains(both, "Local")
    assert list(table.itertuples(index=False, name=None)) == [
        ("FedX", "s", 0, 0, 0.2),
        ("FedX", "s", 0, 1, -0.1),
    ]


def test_an_unknown_baseline_is_told():
    with pytest.raises(UserError, match="unknown method 'local'; did you mean 'Local'"):
        statistics.gains(clients({"Local": [0.5]}), "local")


def test_worst_decile_is_the_worst_tenth_rounded_up():
    assert statistics.worst_decile([0.9, 0.2, 0.5]) == pytest.approx(0.2)
    assert statistics.worst_decile(np.arange(20)[::-1] / 100) == pytest.approx(0.005)
    assert statistics.worst_decile(np.arange(21) / 100) == pytest.approx(0.01)  # three clients


def test_jain_and_variation_by_hand():
    assert statistics.jain([0.5, 0.5, 0.5]) == pytest.approx(1)
    assert statistics.jain([1, 0, 0, 0]) == pytest.approx(1 / 4)
    assert statistics.jain([0.2, 0.4]) == pytest.approx(0.36 / (2 * 0.2))
    assert statistics.variation([0.2, 0.4]) == pytest.approx(0.1 / 0.3)
    assert math.isnan(statistics.jain([0, 0])) and math.isnan(statistics.variation([0, 0]))
    x = np.random.default_rng(0).random(30)
    assert statistics.jain(x) == pytest.approx(1 / (1 + statistics.variation(x) ** 2))


def test_client_summary_has_a_row_for_every_run():
    table = statistics.client_summary(
        clients(
            {
                "Local": [0.5, 0.6, 0.7, math.nan],
                "FedAvg": [0.2, 0.6, 0.8, 0.1],
                "FedX": [0.6, 0.6, 0.4, 0.9],
            }
        )
    ).set_index("method")
    ours = table.loc["FedX"]
    assert (ours["setting"], ours["seed"], ours["clients"], ours["accuracy"]) == (
        "s",
        0,
        4,
        pytest.approx(0.625),
    )
    assert ours["worst_decile"] == pytest.approx(0.4)
    assert ours["jain"] == pytest.approx(2.5**2 / (4 * 1.69))
    assert ours["gain_Local"] == pytest.approx((0.1 + 0 - 0.3) / 3)
    assert ours["harmed_Local"] == pytest.approx(1 / 3)  # an equal client is not harmed
    assert ours["gain_FedAvg"] == pytest.approx((0.4 + 0 - 0.4 + 0.8) / 4)
    assert ours["harmed_FedAvg"] == pytest.approx(1 / 4)
    assert math.isnan(table.loc["Local", "harmed_Local"])
    assert table.loc["Local", "clients"] == 3


def test_client_summary_without_its_baselines():
    table = statistics.client_summary(clients({"FedX": [0.6, 0.6]}))
    assert math.isnan(table["gain_Local"][0]) and math.isnan(table["harmed_FedAvg"][0])


# Orders


def test_agreement_by_hand():
    """One of the six pairs (b, c) is the other way round: tau = (5 - 1) / 6; z is only in one order."""
    measured = pd.Series({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "z": 9.0})
    published = pd.Series({"d": 80.0, "c": 60.0, "b": 70.0, "a": 50.0})
    found = statistics.agreement(measured, published)
    # P(at most one inversion) = (1 + 3) / 4!, both sides.
    assert found == Agreement(pytest.approx(4 / 6), pytest.approx(2 * 4 / 24), 4)


def test_agreement_with_ties_is_tau_b():
    """Pairs: 6; concordant 4, discordant 0; one tie in each order: 4 / sqrt(5 * 5)."""
    found = statistics.agreement(
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
    told = Refusal("a comparison of orders needs 3 methods in both, there are 2")
    assert statistics.agreement(three, three) == told
    flat = pd.Series(0.5, index=list("abc"))
    found = statistics.agreement(flat, pd.Series([1.0, 2.0, 3.0], index=list("abc")))
    assert isinstance(found, Refusal) and "all are equal" in found.reason
    with pytest.raises(UserError, match="the published order has 'a' twice"):
        statistics.agreement(flat, pd.Series([1.0, 2.0, 3.0], index=list("aab")))


# Convergence


def test_convergence_by_hand():
    """Windows of 2 end at rounds 2..8: 0.2, 0.5, 0.7, 0.79, 0.795, 0.795, 0.8; from 5 on within 0.01 of 0.8."""
    rounds = range(1, 9)
    accuracy = [0.0, 0.4, 0.6, 0.8, 0.78, 0.81, 0.78, 0.82]
    assert statistics.convergence_round(rounds, accuracy, length=2, margin=0.01) == 5
    assert statistics.convergence_round(rounds, accuracy, length=2, margin=0.009) == 6
    assert (
        statistics.convergence_round(rounds, accuracy, length=2, margin=1) == 2
    )  # the first whole window


def test_convergence_counts_the_last_time_that_the_margin_was_left():
    """0.5 is the level from the start, but for a dip whose last window ends at round 9."""
    accuracy = [0.5] * 7 + [0.2] + [0.5] * 6
    assert statistics.convergence_round(range(14), accuracy, length=3) == 10


def test_convergence_skips_rounds_without_an_accuracy_and_sorts():
    rounds = [30, 10, 20, 25, 40, 50]
    accuracy = [0.5, 0.1, 0.5, math.nan, 0.5, 0.5]
    assert statistics.convergence_round(rounds, accuracy, length=2) == 30


def test_convergence_of_a_rising_curve_is_near_the_end():
    assert (
        statistics.convergence_round(range(100), np.linspace(0, 0.99, 100)) == 98
    )  # a point a round: 98 and 99


def test_convergence_needs_two_windows():
    assert math.isnan(statistics.convergence_round(range(19), [0.5] * 19))
    assert statistics.convergence_round(range(20), [0.5] * 20) == 9
    assert math.isnan(statistics.convergence_round([], []))


def test_convergence_of_every_run():
    runs = pd.concat(
        pd.DataFrame(
            {"method": m, "setting": "s", "seed": 0, "round": range(6), "accuracy": values}
        )
        for m, values in {
            "A": [0.5] * 6,
            "B": [0.0, 0, 0.5, 0.5, 0.5, 0.5],
            "C": [0.5] + [math.nan] * 5,
        }.items()
    )
    table = statistics.convergence(runs, length=2)
    assert list(table.columns) == ["method", "setting", "seed", "round"]
    assert list(table["round"].fillna(-1)) == [1, 3, -1]
