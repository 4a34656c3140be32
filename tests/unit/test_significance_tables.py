"""Tests against a method and mean ranks, as tables of made-up runs."""

from collections.abc import Sequence

from pflbench.report.grouping.layout import Layout
from pflbench.report.load.runs import Choice
from pflbench.report.tables import significance
from tests.factories.runs import layout, only, run


def many(proposed: str | None = None, **accuracies: Sequence[float]) -> Layout:
    """A method's accuracy in each of several scenarios."""
    runs = [
        run(name, [x], partition=f"dir:{i + 1}")
        for name, values in accuracies.items()
        for i, x in enumerate(values)
    ]
    return layout(*runs, proposed=proposed)


HIGH, LOW = [0.8 + 0.01 * i for i in range(6)], [0.7 - 0.01 * i for i in range(6)]


def test_six_scenarios_all_won_have_the_smallest_p():
    parts, said = significance.tables(many("mine", mine=HIGH, fedavg=LOW), Choice())
    (row,) = only(parts, "tests").rows
    assert row == ("FedAvg", "6", "+15.00", "6", "0", "0.0312", "0.0312", "yes")  # 2 / 2^6
    assert said == ["No mean ranks: Friedman's test needs 3 methods, there are 2."]


def test_the_proposed_method_is_tested_also_where_it_is_not_the_best():
    parts, _ = significance.tables(many("mine", mine=LOW, fedavg=HIGH), Choice())
    part = only(parts, "tests")
    assert part.title == "Tests against Mine"
    assert part.headers[2:5] == ("Mine is better by", "Mine wins", "loses")
    assert part.rows[0][:5] == ("FedAvg", "6", "-15.00", "0", "6")
    assert "p is too small" not in part.caption


def test_without_a_proposed_method_the_best_is_the_reference_and_that_is_said():
    parts, _ = significance.tables(many(local=LOW, fedavg=HIGH), Choice())
    part = only(parts, "tests")
    assert part.title == "Tests against FedAvg"
    assert "FedAvg was chosen as the best of these numbers: p is too small." in part.caption


def test_the_best_is_one_of_the_methods_with_the_most_scenarios():
    parts, _ = significance.tables(many(local=LOW, ditto=[0.9] * 5, fedavg=HIGH), Choice())
    assert only(parts, "tests").title == "Tests against FedAvg"


def test_a_proposed_method_without_a_finished_run_is_not_the_reference():
    runs = [run(name, [0.5 + 0.01 * i], partition=f"dir:{i}") for i in range(6) for name in "ab"]
    found = layout(*runs, run("mine", partition="dir:0", status="missing"), proposed="mine")
    parts, _ = significance.tables(found, Choice())
    assert only(parts, "tests").title in ("Tests against a", "Tests against b")


def test_too_few_scenarios_are_refused_with_the_number_needed():
    parts, said = significance.tables(many("mine", mine=[0.8, 0.9], fedavg=[0.7, 0.6]), Choice())
    assert parts == []
    lack = "needs 6 scenarios that both methods have, there are 2"
    assert said[0] == f"No tests against Mine: a signed-rank test at 0.05 {lack}."


def test_a_pair_with_too_few_scenarios_has_no_p_and_a_note():
    found = many("mine", mine=HIGH, fedavg=LOW, ditto=LOW[:5])
    parts, said = significance.tables(found, Choice())
    rows = {row[0]: row for row in only(parts, "tests").rows}
    assert rows["Ditto"][1] == "5" and rows["Ditto"][5:] == ("\u2013", "\u2013", "")
    lack = "a signed-rank test at 0.05 needs 6 scenarios that both methods have, there are 5"
    assert f"Not tested against Ditto: {lack}." in said
    assert not any(note.startswith("With") for note in said)  # one test: six scenarios suffice


def test_holm_may_leave_no_chance_and_says_so():
    """Two tests need 7 scenarios: 2 * 2 / 2^6 > 0.05."""
    values = [0.1 * i for i in range(6)]
    found = many("mine", mine=values, fedavg=values, local=values)
    parts, said = significance.tables(found, Choice())
    assert len(only(parts, "tests").rows) == 2
    start = "With 2 tests, Holm's p can reach 0.05 from 7 scenarios on; there are 6"
    assert said[-1].startswith(start)
    more = [0.1 * i for i in range(7)]
    _, said = significance.tables(many("mine", mine=more, fedavg=more, local=values), Choice())
    assert not any(note.startswith("With") for note in said)  # one pair has seven


def test_mean_ranks_by_hand():
    found = many(ditto=[0.9, 0.8], fedavg=[0.5, 0.8], local=[0.7, 0.2])
    part = only(significance.tables(found, Choice())[0], "ranks")
    assert [row[:3] for row in part.rows] == [
        ("Ditto", "1.25", "0.00"),
        ("FedAvg", "2.25", "1.00"),
        ("Local", "2.50", "1.25"),
    ]
    assert "over 2 scenarios" in part.caption
