"""The chart of all methods at the head of a page."""

from typing import Any

import pytest

from pflbench.report.load.runs import Choice, Numbers
from pflbench.report.page.chart import ALL, Axis, chart
from tests.factories.runs import experiment, run


def seeds(method: str, *accuracies: float, **config: Any) -> list[Numbers]:
    return [run(method, (a, a), seed=seed, **config) for seed, a in enumerate(accuracies)]


def drawn(*runs: Numbers, **report: Any) -> Any:
    return chart(experiment(*runs, report=report), Choice())


def cells(found: Any) -> dict[str, list[str | None]]:
    """The numbers of every method, panel by panel."""
    return {row["label"]: [cell and cell["text"] for cell in row["cells"]] for row in found["rows"]}


def test_ticks_are_round_numbers_within_the_axis():
    assert Axis(58.0, 94.0).ticks == [(5.56, "60"), (33.33, "70"), (61.11, "80"), (88.89, "90")]
    assert [text for _, text in Axis(70.1, 70.89).ticks] == ["70.2", "70.4", "70.6", "70.8"]
    assert [text for _, text in Axis(0.0, 100.0).ticks] == ["0", "50", "100"]


def test_one_scenario_has_one_panel_with_the_best_method_on_top():
    found = drawn(*seeds("fedavg", 0.5), *seeds("local", 0.75), *seeds("ditto", 0.25))
    assert len(found["panels"]) == 1
    assert list(cells(found)) == ["Local", "FedAvg", "Ditto"]
    assert cells(found)["Local"] == ["75.00"]


def test_several_scenarios_have_their_mean_first_of_methods_that_have_them_all():
    runs = [
        *seeds("fedavg", 0.5, partition="dir:0.1"),
        *seeds("fedavg", 0.9, partition="path:2"),
        *seeds("local", 0.6, partition="dir:0.1"),
        run("local", status="failed", partition="path:2"),
    ]
    found = drawn(*runs)
    assert found["panels"][0]["title"] == ALL
    assert cells(found) == {"FedAvg": ["70.00", "50.00", "90.00"], "Local": [None, "60.00", None]}
    assert "Not counted: Local (1 failed of 2)." in found["caption"]


def test_three_seeds_have_an_interval_and_two_are_only_shown():
    three, two = (
        row["cells"][0]
        for row in drawn(*seeds("fedavg", 0.5, 0.6, 0.7), *seeds("local", 0.1, 0.3))["rows"]
    )
    assert three["said"] == "60.00 %; interval 50.00 to 70.00; seeds 50.00, 60.00, 70.00"
    assert (three["interval"], three["mean"]) == (
        [three["seeds"][0], three["seeds"][2]],
        three["seeds"][1],
    )
    assert two["said"] == "20.00 %; seeds 10.00, 30.00"
    assert two["interval"] == []
    # From 10 to 70, with a margin of 6 % of 60 on either side: 10 is at 3.6 of 67.2.
    assert two["seeds"][0] == pytest.approx(100 * 3.6 / 67.2, abs=0.01)


def test_one_seed_is_only_its_mean():
    (row,) = drawn(*seeds("fedavg", 0.5))["rows"]
    assert (row["cells"][0]["seeds"], row["cells"][0]["interval"]) == ([], [])


def test_the_proposed_method_is_marked_and_decimals_are_those_of_the_report():
    found = drawn(*seeds("fedavg", 0.5), *seeds("local", 0.4), proposed="local", decimals=1)
    assert [(row["label"], row["proposed"]) for row in found["rows"]] == [
        ("FedAvg", False),
        ("Local", True),
    ]
    assert cells(found)["Local"] == ["40.0"]


def test_without_an_accuracy_there_is_no_chart():
    assert drawn(run("fedavg", status="missing"), run("local", status="failed")) is None
