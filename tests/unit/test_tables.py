"""Tables from made-up runs: cells by hand, states, marks against the base, all forms."""

import csv
import io
import math
from typing import Any

import pytest

from pflbench.records.report_options import Std
from pflbench.report.grouping.layout import lay_out
from pflbench.report.load.runs import Choice, Numbers
from pflbench.report.tables import accuracy, fairness, variability
from pflbench.report.tables.all_tables import tables
from pflbench.report.tables.methods import method_tables
from tests.factories.runs import experiment, layout, only, run

# Cells


@pytest.mark.parametrize(
    "choice, over, mean, std",
    [
        (Choice(), "clients", 77.5, (25 + 10) / 2),
        (Choice(), "seeds", 77.5, 5 / math.sqrt(2)),
        (Choice(weighted=True), "clients", (87.5 + 85) / 2, (25 + 10) / 2),
    ],
)
def test_a_cell_is_the_mean_over_seeds(choice: Choice, over: Std, mean: float, std: float):
    runs = [run(accuracies=[0.5, 1.0]), run(accuracies=[0.7, 0.9], seed=1)]  # n_test 1 and 3
    cell = accuracy.cell(runs, choice, over)
    assert cell.accuracy == pytest.approx(mean)
    assert cell.std == pytest.approx(std)
    assert (cell.state, cell.seeds) == ("ok", 2)


def test_a_cell_of_three_seeds_is_their_mean_and_not_the_middle_one():
    runs = [run(accuracies=[x - y, x + y], seed=i) for i, (x, y) in enumerate(UNEVEN)]
    cell = accuracy.cell(runs, Choice(), "clients")
    assert (cell.accuracy, cell.std) == (pytest.approx(60), pytest.approx(20))
    (part,), _ = variability.tables(layout(*runs), Choice())
    assert part.rows[0][3:5] == ("60.00", "20.00")


UNEVEN = ((0.5, 0.1), (0.5, 0.1), (0.8, 0.4))


def test_a_client_without_test_samples_is_left_out():
    cell = accuracy.cell([run(accuracies=[0.5, math.nan, 0.9])], Choice(), "clients")
    assert cell.accuracy == pytest.approx(70)
    assert cell.std == pytest.approx(20)


def test_one_seed_has_no_std_over_seeds():
    cell = accuracy.cell([run()], Choice(), "seeds")
    assert (cell.accuracy, cell.std) == (75, None)


@pytest.mark.parametrize(
    "others, state, seeds",
    [
        (["finished"], "ok", 2),
        (["failed"], "partial", 1),
        (["diverged"], "partial", 1),
        (["missing"], "partial", 1),
        (["running"], "partial", 1),
    ],
)
def test_a_cell_with_fewer_seeds_than_planned_is_partial(others: list[str], state: str, seeds: int):
    cell = accuracy.cell(
        [run(), *(run(seed=i + 1, status=status) for i, status in enumerate(others))],
        Choice(),
        "clients",
    )
    assert (cell.accuracy, cell.state, cell.seeds) == (75, state, seeds)


@pytest.mark.parametrize(
    "statuses, state",
    [
        (["missing"], "missing"),
        (["running", "missing"], "missing"),
        (["failed", "missing"], "failed"),
        (["failed", "diverged"], "diverged"),
    ],
)
def test_a_cell_without_a_finished_run_says_why(statuses: list[str], state: str):
    cell = accuracy.cell(
        [run(seed=i, status=status) for i, status in enumerate(statuses)], Choice(), "clients"
    )
    assert (cell.accuracy, cell.state, cell.seeds) == (None, state, 0)


def test_no_state_is_hidden_in_the_table():
    runs = [run("local"), run("local", seed=1, status="failed"), run("ditto"), run("ditto", seed=1)]
    runs += [run("fedavg", seed=seed, status="diverged") for seed in (0, 1)]
    runs += [run("fedcosr", seed=seed, status="missing") for seed in (0, 1)]
    part = accuracy.table(layout(*runs), Choice())
    cells = {row[0]: row[1] for row in part.rows}
    assert cells["Local"].startswith("75.00*\u00a7")
    assert cells["FedAvg"] == "\u2013d \u00b1 \u2013d"
    assert cells["FedCoSR"] == "\u2013m \u00b1 \u2013m"
    for said in (
        "\u2013d: diverged.",
        "\u2013m: missing.",
        "\u00a7: over fewer seeds (1) than others (2).",
    ):
        assert said in part.caption
    assert "means over 1 to 2 of 2 seeds" in part.caption
    assert "\u00a7" in part.markdown and r"$^{\S}$" in part.latex
    states = {line["method"]: line["state"] for line in csv.DictReader(io.StringIO(part.csv))}
    assert states == {
        "Local": "partial",
        "FedAvg": "diverged",
        "Ditto": "ok",
        "FedCoSR": "missing",
        "Mean": "",
    }


COUNTS = (
    [{"0": 3, "1": 1}, {"2": 5}],
    [{"0": 1, "1": 3}, {"2": 2}],
)  # the first guesses 0: 1 of 4; the second all


def test_the_majority_row_is_a_baseline_by_hand():
    marked = accuracy.marks_of(
        layout(run(about={"counts": COUNTS}), run("local", about={"counts": COUNTS})), Choice()
    )
    (baseline,) = marked.table.baselines
    (column,) = marked.table.columns
    cell = marked.table.cell(baseline.title, column.key)
    assert baseline.title == "Majority class"
    assert cell.accuracy == pytest.approx(62.5)
    assert cell.std == pytest.approx(37.5)
    assert marked.means[column.key, "accuracy"] == 75
    weighted = accuracy.majority([run(about={"counts": COUNTS})], Choice(weighted=True), "clients")
    assert weighted.accuracy == pytest.approx((25 * 1 + 100 * 3) / 4)


def test_the_majority_row_is_the_mean_over_seeds_not_over_methods():
    other = (COUNTS[0], [{"0": 4}, {"2": 2}])
    runs = [
        run(about={"counts": COUNTS}),
        run("local", about={"counts": COUNTS}),
        run(seed=1, about={"counts": other}),
    ]
    assert accuracy.majority(runs, Choice(), "clients").accuracy == pytest.approx((62.5 + 100) / 2)


def test_the_majority_row_is_of_the_evaluated_clients():
    missing = float("nan")
    assert (
        accuracy.majority(
            [run(accuracies=(missing, 1.0), about={"counts": COUNTS})], Choice(), "clients"
        ).accuracy
        == 100
    )
    assert (
        accuracy.majority(
            [run(accuracies=(1.0, missing), about={"counts": COUNTS})], Choice(), "clients"
        ).accuracy
        == 25
    )


def test_without_class_counts_there_is_no_majority_row():
    assert not accuracy.marks_of(layout(run()), Choice()).table.baselines
    assert "Majority" not in accuracy.table(layout(run()), Choice()).caption


# Marks against the base


def base_marks(*runs: Numbers, name: str = "other", scale: str = "paper") -> list[str]:
    """Of the only method in every column, against a main experiment that has 70 +/- 10 at N=20 with
    dir:0.1.
    """
    main = experiment(
        run(accuracies=[0.6, 0.8]), run(accuracies=[0.6, 0.8], partition="path:2"), name="main"
    )
    other = lay_out(experiment(*runs, name=name, scale=scale), [main])
    marked = accuracy.marks_of(other, Choice(), accuracy.base_of(other, [main]))
    return [marked.mark("FedAvg", column.key, "accuracy").base for column in marked.table.columns]


@pytest.mark.parametrize(
    "config, sign",
    [
        ({"clients": 100}, "worse"),
        ({"participation": 0.5}, ""),
        ({"partition": "dir:1"}, "worse"),
        ({"partition": "path:5"}, "worse"),
        ({"partition": "iid"}, ""),
        ({"partition": "dir:1", "rounds": 9}, ""),
        ({"partition": "dir:1", "hparams": {"lr": 9}}, ""),
        ({"dataset": "cifar10", "partition": "dir:1"}, ""),
        ({}, ""),
    ],
)
def test_signs_compare_with_the_main_scenario_that_differs_in_one_thing(
    config: dict[str, Any], sign: str
):
    assert base_marks(run(accuracies=[0.3, 0.5], **config)) == [sign]


def test_signs_are_plus_and_minus_and_the_caption_names_the_base():
    main = experiment(run(accuracies=[0.6, 0.8]), name="main")
    other = experiment(run(accuracies=[0.8, 0.9], partition="dir:1"), name="scalability")
    (part, *_), _ = tables(other, [main, other], Choice())
    assert part.rows[0][1] == "85.00*+ \u00b1 5.00*+"  # std falls from 10 to 5
    assert "The base scenario is that of the experiment main" in part.caption
    assert r"85.00}$^{*}$\textcolor{purple}{+}" in part.latex
    (alone, *_), _ = tables(main, [main, other], Choice())
    assert "base" not in alone.caption


def test_an_experiment_of_another_scale_is_no_base():
    assert base_marks(run(partition="dir:1"), scale="small") == [""]
    main = experiment(run(accuracies=[0.6, 0.8]), name="main-small", scale="small")
    other = lay_out(experiment(run(partition="dir:1"), scale="small"), [main])
    assert accuracy.base_of(other, [main]) is not None


# Seeds and clients


def test_three_seeds_have_an_interval_and_of_two_a_note_says_how_many_it_takes():
    runs = [run(accuracies=[x], seed=seed) for seed, x in enumerate((0.5, 0.8, 0.56))]
    runs += [run("local", accuracies=[x, x + 0.2], seed=seed) for seed, x in enumerate((0.5, 0.6))]
    runs += [run("local", seed=2, status="failed"), run("ditto", status="diverged")]
    (part,), said = variability.tables(layout(*runs), Choice())
    where = "Digits, Dirichlet 0.1, N=20"
    assert part.rows == (
        (where, "Local", "2 of 3", "65.00", "10.00", "7.07", "\u2013", "\u2013"),
        (where, "FedAvg", "3", "62.00", "0.00", "15.87", "50.00", "80.00"),
        (where, "Ditto", "0 of 1", "diverged", "\u2013", "\u2013", "\u2013", "\u2013"),
    )
    assert said == [
        "No interval for some numbers: an interval over seeds needs 3 seeds, there are 2."
    ]


def test_gains_of_clients_by_hand():
    runs = [
        run("local", accuracies=[0.5, 0.7]),
        run("fedavg", accuracies=[0.6, 0.2]),
        run("ditto", accuracies=[0.4, 0.8]),
    ]
    (part,), said = fairness.tables(layout(*runs), Choice())
    cells = {row[1]: dict(zip(part.headers, row, strict=True)) for row in part.rows}
    assert cells["Ditto"]["Gain over Local"] == "+0.00"
    assert cells["Ditto"]["Worse than Local (%)"] == "50.0"
    assert cells["Ditto"]["Gain over FedAvg"] == "+20.00"  # -20 and +60
    assert cells["Ditto"]["Worst tenth (%)"] == "40.00"
    assert cells["Ditto"]["Jain's index"] == "0.900"  # 1.2^2 / (2 * 0.8)
    assert cells["Local"]["Gain over Local"] == "\u2013"
    assert said == []
    (part,), said = fairness.tables(layout(run("ditto"), run("local", status="failed")), Choice())
    assert not any("Gain" in header for header in part.headers)
    assert said == ["No gain over Local: it has no finished run."]


def test_scarce_clients_and_the_others():
    few = {"data_fraction": 0.1, "scarce_clients": 1, "clients": 3}
    runs = [
        run("local", accuracies=[0.5, 0.7, 0.1], **few),
        run("ditto", accuracies=[0.4, 0.8, 0.2], **few),
    ]
    runs += [
        run(
            "local",
            partition="path:2",
            accuracies=[0.5, 0.7, 0.1],
            **{**few, "scarce_clients": None},
        )
    ]
    (part,), _ = fairness.tables(layout(*runs), Choice())
    cells = [dict(zip(part.headers, row, strict=True)) for row in part.rows]
    found = [(row["Scarce clients (%)"], row["Other clients (%)"]) for row in cells]
    assert sorted(found) == [
        ("10.00", "60.00"),
        ("20.00", "60.00"),
        *[("\u2013", "\u2013")] * (len(found) - 2),
    ]
    assert len(found) > 2
    assert "scarce clients (with a part of their data) and of the others" in part.caption
    (part,), _ = fairness.tables(layout(runs[2]), Choice())
    assert not {"Scarce clients (%)", "Other clients (%)"} & {*part.headers}
    assert "scarce clients" not in part.caption


# Methods


def test_records_fill_the_table_of_methods():
    runs = [run("fedper"), run("fedavg"), run("nosuch", status="missing"), run("fedavg", seed=1)]
    methods = only(method_tables(runs), "methods")
    assert methods.headers == ("Method", "Family", "Evaluated", "Evaluated model")
    assert [row[0] for row in methods.rows] == ["FedAvg", "FedPer"]
    assert methods.rows[1][1:] == ("Standard", "pre", "the personal model")


def test_all_tables_of_an_experiment_have_all_forms():
    runs = [
        run(name, seed=seed, about={"counts": COUNTS}, hparams={"lr": 0.1, "momentum": 0.0})
        for name in ("local", "fedavg", "fedcosr")
        for seed in (0, 1, 2)
    ]
    trial = experiment(*runs)
    parts, _ = tables(trial, [trial], Choice())
    assert [part.name for part in parts] == [
        "accuracy",
        "variability",
        "fairness",
        "efficiency",
        "communication",
        "hyperparameters",
    ]
    for part in parts:
        assert part.caption and part.latex and part.document and part.csv and part.markdown
        assert (
            {len(row) for row in part.rows}
            == {len(part.headers)}
            == {len(row) for row in part.numbers}
        )
