"""The tables of a report from made-up runs: cells by hand, states, headings, signs, captions, tests and ranks."""

import csv
import dataclasses
import io
import math
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench import config
from pflbench.records.plan import Plan, Planned
from pflbench.report.grouping.layout import Layout, lay_out
from pflbench.report.load.runs import OTHERS, Choice, Experiment, Numbers
from pflbench.report.render import grid
from pflbench.report.render.grid import Head
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import accuracy, significance, variability
from pflbench.report.tables.all_tables import tables
from pflbench.report.tables.captions import how, notes
from pflbench.report.tables.methods import plugin_tables

DEFAULTS = config.as_json(config.Run("x"))
TITLES = {
    "local": "Local",
    "fedavg": "FedAvg",
    "fedcosr": "FedCoSR",
    "ditto": "Ditto",
    "mine": "Mine",
}


def run(
    algorithm: str = "fedavg",
    scores: Sequence[float] = (0.5, 1.0),
    *,
    seed: int = 0,
    status: str = "finished",
    words: str | None = None,
    variant: str = "",
    title: str | None = None,
    data: str = "Digits",
    counts: Any = None,
    point: str = "pre",
    digest: str = "d",
    hparams: Any = None,
    **settings: Any,
) -> Numbers:
    """A run as `collect` gives it; one that is missing has not begun. `scores` are its clients' accuracies,
    `counts` their training and test samples by class.
    """
    values = {
        **DEFAULTS,
        "algorithm": algorithm,
        "seed": seed,
        "hparams": hparams or {},
        **settings,
    }
    words = f"{values['dataset']} {values['partition']}" if words is None else words
    where = "-".join(
        map(str, (algorithm, words, variant, seed, *settings.values(), *(hparams or {}).values()))
    )
    planned = Planned(where, algorithm, words, variant, values)
    if status == "missing":
        return Numbers(planned, Path(where), status)
    classes = dict(zip(("train_classes", "test_classes"), counts or ([], []), strict=True))
    about = {
        "method": {
            "title": title or TITLES[algorithm],
            "evaluation_point": point,
            "down": "theta",
            "up": "theta + 1",
        },
        "data": {"title": data},
        "partition": {"digest": digest, "n_test": [1, 3, 5, 7, 9][: len(scores)], **classes},
        "machine": {"cores": 2},
    }
    means = np.array([0.1, np.nanmean(scores)])
    curves = (np.array([0.0, 1.0]), {point: means}, np.array(scores, dtype=float))
    return Numbers(planned, Path(where), status, "it broke", about, point, *curves)


def experiment(*runs: Numbers, name: str = "trial", scale: str = "paper") -> Experiment:
    return Experiment(Plan(name, "A trial", scale, "", tuple(one.planned for one in runs)), runs)


def layout(*runs: Numbers, **plan: str) -> Layout:
    made = experiment(*runs, **plan)
    return lay_out(made, [made])


def only(parts: Sequence[TablePart], name: str) -> TablePart:
    (part,) = [part for part in parts if part.name == name]
    return part


# Cells


@pytest.mark.parametrize(
    "choice, mean, std",
    [
        (Choice(), 77.5, (25 + 10) / 2),
        (Choice(std="seeds"), 77.5, 5 / math.sqrt(2)),
        (Choice(weighted=True), (87.5 + 85) / 2, (25 + 10) / 2),
    ],
)
def test_a_cell_is_the_mean_over_seeds(choice: Choice, mean: float, std: float):
    runs = [run(scores=[0.5, 1.0]), run(scores=[0.7, 0.9], seed=1)]  # n_test 1 and 3
    cell = accuracy.cell(runs, choice)
    assert cell.accuracy == pytest.approx(mean)
    assert cell.std == pytest.approx(std)
    assert (cell.state, cell.seeds) == ("ok", 2)


def test_a_client_without_test_samples_is_left_out():
    cell = accuracy.cell([run(scores=[0.5, math.nan, 0.9])], Choice())
    assert cell.accuracy == pytest.approx(70)
    assert cell.std == pytest.approx(20)


def test_one_seed_has_no_std_over_seeds():
    cell = accuracy.cell([run()], Choice(std="seeds"))
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
        [run(), *(run(seed=i + 1, status=status) for i, status in enumerate(others))], Choice()
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
        [run(seed=i, status=status) for i, status in enumerate(statuses)], Choice()
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
        "\u00a7: of fewer seeds (1) than others (2).",
    ):
        assert said in part.caption
    assert "averaged over 1 to 2 of 2 seeds" in part.caption
    assert "\u00a7" in part.markdown and r"$^{\S}$" in part.latex
    states = {line["method"]: line["state"] for line in csv.DictReader(io.StringIO(part.csv))}
    assert states == {
        "Local": "partial",
        "FedAvg": "diverged",
        "Ditto": "ok",
        "FedCoSR": "missing",
        "Averaged": "",
    }


COUNTS = (
    [{"0": 3, "1": 1}, {"2": 5}],
    [{"0": 1, "1": 3}, {"2": 2}],
)  # the first guesses 0: 1 of 4; the second all


def test_the_majority_row_is_a_baseline_by_hand():
    marked = accuracy.marks_of(layout(run(counts=COUNTS), run("local", counts=COUNTS)), Choice())
    (baseline,) = marked.table.baselines
    (column,) = marked.table.columns
    cell = marked.table.cell(baseline.title, column.key)
    assert baseline.title == "Majority class"
    assert cell.accuracy == pytest.approx(62.5)
    assert cell.std == pytest.approx(37.5)
    assert marked.averages[column.key, "accuracy"] == 75
    weighted = accuracy.majority([run(counts=COUNTS)], Choice(weighted=True))
    assert weighted.accuracy == pytest.approx((25 * 1 + 100 * 3) / 4)


def test_the_majority_row_is_the_mean_over_seeds_not_over_methods():
    other = (COUNTS[0], [{"0": 4}, {"2": 2}])
    runs = [run(counts=COUNTS), run("local", counts=COUNTS), run(seed=1, counts=other)]
    assert accuracy.majority(runs, Choice()).accuracy == pytest.approx((62.5 + 100) / 2)


def test_the_majority_row_is_of_the_clients_that_were_scored():
    unscored = float("nan")
    assert accuracy.majority([run(scores=(unscored, 1.0), counts=COUNTS)], Choice()).accuracy == 100
    assert accuracy.majority([run(scores=(1.0, unscored), counts=COUNTS)], Choice()).accuracy == 25


def test_without_class_counts_there_is_no_majority_row():
    assert not accuracy.marks_of(layout(run()), Choice()).table.baselines
    assert "Majority" not in accuracy.table(layout(run()), Choice()).caption


# Rows and columns


def test_methods_are_in_the_papers_order_and_others_last():
    found = layout(run("mine"), run("fedcosr"), run("fedavg", status="missing"), run("local"))
    assert [row.title for row in found.rows] == ["Local", "FedAvg", "FedCoSR", "Mine"]
    assert [row.kind for row in found.rows] == ["method", "method", "proposed", "method"]


def test_variants_are_rows_of_their_method():
    found = layout(
        *(
            run(name, variant=variant)
            for variant in ("FedCoSR", "w/o LA")
            for name in ("mine", "fedcosr", "ditto")
        )
    )
    assert [row.title for row in found.rows] == [
        *(
            "Ditto: FedCoSR",
            "Ditto: w/o LA",
            "FedCoSR",
            "FedCoSR: w/o LA",
            "Mine: FedCoSR",
            "Mine: w/o LA",
        )
    ]
    assert [row.title for row in found.rows if row.kind == "proposed"] == ["FedCoSR"]


def test_two_methods_of_one_title_are_told_apart():
    assert [row.title for row in layout(run(), run("mine", title="FedAvg")).rows] == [
        "FedAvg (fedavg)",
        "FedAvg (mine)",
    ]


@pytest.mark.parametrize(
    "settings, group, title",
    [
        ({}, "Practical heterogeneous (\u03b2=0.1, N=20)", "Digits"),
        (
            {"partition": "path:3", "clients": 7},
            "Pathological heterogeneous (C/Client=3, N=7)",
            "Digits",
        ),
        ({"partition": "iid"}, "IID (N=20)", "Digits"),
        (
            {"dataset": "cifar10", "data": "CIFAR-10"},
            "Practical heterogeneous (\u03b2=0.1, N=20)",
            "CIFAR-10",
        ),
        (
            {"dataset": "cifar100", "data": "CIFAR-100", "partition": "path:20"},
            "Pathological heterogeneous (N=20)",
            "CIFAR-100",
        ),
        (
            {
                "dataset": "npz:x/cifar10-part.npz",
                "data": "cifar10-part.npz",
                "clients": 100,
                "participation": 0.5,
            },
            "Scalability (cifar10-part.npz)",
            "Prac. N=100",
        ),
        (
            {
                "dataset": "npz:cifar100-part.npz",
                "data": "cifar100-part.npz",
                "partition": "path:50",
            },
            "Heterogeneity (cifar100-part.npz path.)",
            "C/Client=50",
        ),
        (
            {"words": "the odd one"},
            "Practical heterogeneous (\u03b2=0.1, N=20)",
            "Digits, the odd one",
        ),
    ],
)
def test_headings_are_the_papers_with_the_real_data(
    settings: dict[str, Any], group: str, title: str
):
    (column,) = layout(run(**settings)).columns
    assert (column.group, column.title) == (group, title)


def test_columns_that_read_the_same_are_told_apart():
    runs = [
        run(data_fraction=keep, words=f"digits dir:0.1 data_fraction={keep}")
        for keep in (0.05, 0.1)
    ]
    runs += [
        run(
            dataset=f"synthetic:classes={classes},samples=9",
            data="Synthetic",
            words="stand-in dir:0.1",
        )
        for classes in (10, 47)
    ]
    columns = layout(*runs).columns
    assert [column.title for column in columns] == [
        "Digits, 0.05 of the training samples",
        "Digits, 0.1 of the training samples",
        "Synthetic (classes=10)",
        "Synthetic (classes=47)",
    ]
    assert columns[0].line == "Digits, Dirichlet 0.1, N=20, 0.05 of the training samples"
    assert len({column.key for column in columns}) == 4


def test_runs_of_different_settings_never_share_a_cell():
    found = layout(run(rounds=5), run(rounds=9, seed=1))
    assert [column.line[-8:] for column in found.columns] == ["5 rounds", "9 rounds"]
    assert all(len(runs) == 1 for runs in found.cells.values())
    assert len(layout(run(rounds=5), run("local", rounds=9), name=OTHERS).columns) == 2
    by_method = layout(
        run(rounds=5), run("local", rounds=9)
    )  # in a plan: a method may have its own
    assert len(by_method.columns) == 1
    assert any(
        "not the same for all methods: rounds" in note for note in notes(by_method, Choice())
    )


def test_runs_of_different_hyperparameters_never_share_a_cell():
    found = layout(run(hparams={"lr": 0.1}), run(hparams={"lr": 0.2}, seed=1), name=OTHERS)
    assert [row.title for row in found.rows] == ["FedAvg: lr=0.1", "FedAvg: lr=0.2"]


def test_a_run_that_is_in_two_folders_counts_once_and_is_told_of():
    one = run()
    copy = dataclasses.replace(one, folder=Path("copy"))
    found = layout(one, one, copy)
    assert [len(runs) for runs in found.cells.values()] == [1]
    assert notes(found, Choice()) == ["Left out, as it is the same run as another: copy."]


# Marks against the base


def base_marks(*runs: Numbers, name: str = "other", scale: str = "paper") -> list[str]:
    """Of the only method in every column, against a main experiment that has 70 +/- 10 at N=20 with dir:0.1."""
    main = experiment(
        run(scores=[0.6, 0.8]), run(scores=[0.6, 0.8], partition="path:2"), name="main"
    )
    other = lay_out(experiment(*runs, name=name, scale=scale), [main])
    marked = accuracy.marks_of(other, Choice(), accuracy.base_of(other, [main]))
    return [marked.mark("FedAvg", column.key, "accuracy").base for column in marked.table.columns]


@pytest.mark.parametrize(
    "settings, sign",
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
def test_signs_compare_with_the_main_setting_that_differs_in_one_thing(
    settings: dict[str, Any], sign: str
):
    assert base_marks(run(scores=[0.3, 0.5], **settings)) == [sign]


def test_signs_are_plus_and_minus_and_the_caption_names_the_base():
    main = experiment(run(scores=[0.6, 0.8]), name="main")
    other = experiment(run(scores=[0.8, 0.9], partition="dir:1"), name="scalability")
    (part, *_), _ = tables(other, [main, other], Choice())
    assert part.rows[0][1] == "85.00*+ \u00b1 5.00*+"  # std falls from 10 to 5
    assert "The base setting is that of the experiment main" in part.caption
    assert r"85.00}$^{*}$\textcolor{purple}{+}" in part.latex
    (alone, *_), _ = tables(main, [main, other], Choice())
    assert "base" not in alone.caption


def test_an_experiment_of_another_scale_is_no_base():
    assert base_marks(run(partition="dir:1"), scale="small") == [""]
    main = experiment(run(scores=[0.6, 0.8]), name="main-small", scale="small")
    other = lay_out(experiment(run(partition="dir:1"), scale="small"), [main])
    assert accuracy.base_of(other, [main]) is not None


# Captions and notes


@pytest.mark.parametrize(
    "choice, said",
    [
        (Choice(), "After the last round (200)."),
        (Choice(round="last10"), "Mean of the last ten evaluated rounds (of 200)."),
        (Choice(round="best"), "best round on the test samples (of 200), which is optimistic."),
        (Choice(round="validation"), "best round on held-out training samples (of 200)."),
        (
            Choice(),
            "mean over clients (each counting once), and std over clients (each counting once)",
        ),
        (Choice(weighted=True), "mean over clients (weighted by their test samples)"),
        (Choice(std="seeds"), "averaged over 2 seeds, and std over seeds"),
        (Choice(), "Each method is scored at its own point"),
        (Choice(point="post"), "All are scored right after local training (post)."),
        (Choice(), "Scale: small. Data: Digits (4 samples)."),
        (Choice(), "In all settings: at most 250 samples a client."),
    ],
)
def test_the_caption_says_what_the_numbers_are(choice: Choice, said: str):
    runs = [
        run(name, seed=seed, point=point, max_samples=250)
        for name, point in POINTS
        for seed in (0, 1)
    ]
    assert said in accuracy.table(layout(*runs, scale="small"), choice).caption


POINTS = (("fedavg", "pre"), ("local", "post"))


def test_notes_say_which_method_is_scored_where():
    said = notes(layout(*(run(name, point=point) for name, point in POINTS)), Choice())
    assert said == [
        "Scored right after local training (post): Local; before local training (pre): FedAvg."
    ]


def test_notes_count_what_is_not_done_and_say_why():
    said = notes(
        layout(run(), run("local", status="failed"), run("ditto", status="missing")), Choice()
    )
    assert said == [
        "Of 3 planned runs: 1 done, 1 failed, 1 missing. Means are of those that are done.",
        "failed: local, digits dir:0.1, seed 0: it broke",
    ]


def test_notes_name_runs_that_are_done_but_have_no_such_number():
    silent = dataclasses.replace(run("local"), clients=np.zeros(0))
    said = notes(layout(run(), silent), Choice(point="post"))
    assert said == ["Done, but without an accuracy at post: Local (Digits, Dirichlet 0.1, N=20)."]


def test_notes_tell_of_methods_that_had_other_data():
    assert notes(layout(run(), run(seed=1, digest="e"), run("local")), Choice()) == []
    (said,) = notes(layout(run(), run("local", digest="e")), Choice())
    assert said.endswith("the methods were not given the same partition of the data.")


def test_notes_tell_of_settings_of_some_columns():
    found = layout(run(), run(clients=100, participation=0.5, words="many"))
    assert notes(found, Choice()) == [
        "Digits, Dirichlet 0.1, N=100, many: 0.5 of the clients in a round."
    ]
    assert "clients in a round" not in how(found, Choice())
    told = layout(
        *(
            run(data_fraction=keep, words=f"digits dir:0.1 data_fraction={keep}")
            for keep in (0.05, 0.1)
        )
    )  # by the headings
    assert notes(told, Choice()) == []


def test_without_a_finished_run_there_are_no_tables():
    trial = experiment(run(status="missing"))
    parts, said = tables(trial, [trial], Choice())
    assert parts == []
    assert said[-1] == "No tables: no run is done with an accuracy to show."


# Seeds and clients


def test_three_seeds_have_an_interval_and_two_are_told_how_many_it_takes():
    runs = [run(scores=[x], seed=seed) for seed, x in enumerate((0.5, 0.8, 0.56))]
    runs += [run("local", scores=[x, x + 0.2], seed=seed) for seed, x in enumerate((0.5, 0.6))]
    runs += [run("local", seed=2, status="failed"), run("ditto", status="diverged")]
    (part,), said = variability.seeds_table(layout(*runs), Choice())
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
        run("local", scores=[0.5, 0.7]),
        run("fedavg", scores=[0.6, 0.2]),
        run("ditto", scores=[0.4, 0.8]),
    ]
    (part,), said = variability.clients_table(layout(*runs), Choice())
    cells = {row[1]: dict(zip(part.headers, row, strict=True)) for row in part.rows}
    assert cells["Ditto"]["Gain over Local"] == "+0.00"
    assert cells["Ditto"]["Worse than Local (%)"] == "50.0"
    assert cells["Ditto"]["Gain over FedAvg"] == "+20.00"  # -20 and +60
    assert cells["Ditto"]["Worst tenth (%)"] == "40.00"
    assert cells["Ditto"]["Jain's index"] == "0.900"  # 1.2^2 / (2 * 0.8)
    assert cells["Local"]["Gain over Local"] == "\u2013"
    assert said == []
    (part,), said = variability.clients_table(
        layout(run("ditto"), run("local", status="failed")), Choice()
    )
    assert not any("Gain" in header for header in part.headers)
    assert said == ["No gain over Local: no run of it is done."]


def test_clients_with_scarce_data_are_told_from_the_others():
    few = {"data_fraction": 0.1, "scarce_clients": 1, "clients": 3}
    runs = [
        run("local", scores=[0.5, 0.7, 0.1], **few),
        run("ditto", scores=[0.4, 0.8, 0.2], **few),
    ]
    runs += [
        run("local", partition="path:2", scores=[0.5, 0.7, 0.1], **{**few, "scarce_clients": None})
    ]
    (part,), _ = variability.clients_table(layout(*runs), Choice())
    cells = [dict(zip(part.headers, row, strict=True)) for row in part.rows]
    found = [(row["Scarce clients (%)"], row["Others (%)"]) for row in cells]
    assert sorted(found) == [
        ("10.00", "60.00"),
        ("20.00", "60.00"),
        *[("\u2013", "\u2013")] * (len(found) - 2),
    ]
    assert len(found) > 2
    assert "keep a part of their data and of the others" in part.caption
    (part,), _ = variability.clients_table(layout(runs[2]), Choice())
    assert not {"Scarce clients (%)", "Others (%)"} & {*part.headers}
    assert "keep a part" not in part.caption


# Tests


def many(**scores: Sequence[float]) -> Layout:
    """A method's accuracy in each of several settings."""
    return layout(
        *(
            run(name, [x], partition=f"dir:{i + 1}")
            for name, values in scores.items()
            for i, x in enumerate(values)
        )
    )


def test_six_settings_all_won_have_the_smallest_p():
    high, low = [0.8 + 0.01 * i for i in range(6)], [0.7 - 0.01 * i for i in range(6)]
    parts, said = significance.tables(many(fedcosr=high, fedavg=low), Choice())
    (row,) = only(parts, "tests").rows
    assert row == ("FedAvg", "6", "+15.00", "6", "0", "0.0312", "0.0312", "yes")  # 2 / 2^6
    assert said == ["No mean ranks: Friedman's test needs 3 methods, there are 2."]


def test_too_few_settings_are_refused_with_the_number_needed():
    parts, said = significance.tables(many(fedcosr=[0.8, 0.9], fedavg=[0.7, 0.6]), Choice())
    assert parts == []
    assert said[0] == (
        "No tests against FedCoSR: a signed-rank test at 0.05 needs 6 settings that both methods have, there are 2."
    )


def test_holm_may_leave_no_chance_and_says_so():
    values = [0.1 * i for i in range(6)]
    parts, said = significance.tables(many(fedcosr=values, fedavg=values, local=values), Choice())
    assert len(only(parts, "tests").rows) == 2
    assert said[-1].startswith(
        "With 2 tests, Holm's p can reach 0.05 from 7 settings on; there are 6"
    )


def test_without_the_proposed_method_the_best_is_the_reference_and_that_is_said():
    values = [0.1 * i for i in range(6)]
    parts, _ = significance.tables(many(local=values, fedavg=[x + 0.1 for x in values]), Choice())
    part = only(parts, "tests")
    assert part.title == "Tests against FedAvg"
    assert "FedAvg was chosen as the best of these numbers: p is too small." in part.caption


def test_mean_ranks_by_hand():
    parts, _ = significance.tables(
        many(fedcosr=[0.9, 0.8], fedavg=[0.5, 0.8], local=[0.7, 0.2]), Choice()
    )
    part = only(parts, "ranks")
    assert [row[:3] for row in part.rows] == [
        ("FedCoSR", "1.25", "0.00"),
        ("FedAvg", "2.25", "1.00"),
        ("Local", "2.50", "1.25"),
    ]
    assert "over 2 settings" in part.caption


# Plain tables


def test_a_plain_table_in_all_forms():
    heads = [Head("a_b"), Head("n|m", "+.1f")]
    part = grid.grid(
        "x", "X", "A  *caption*.", heads, [["50%", -1.25], ["y", None], ["z", "failed"]], "tab:x"
    )
    assert part.rows == (("50%", "-1.2"), ("y", "\u2013"), ("z", "failed"))
    assert part.numbers == ((None, -1.25), (None, None), (None, None))
    assert part.csv == "a_b,n|m\n50%,-1.25\ny,\nz,failed\n"
    assert part.markdown.splitlines()[0] == r"| a\_b | n\|m |"
    assert part.markdown.splitlines()[-1] == r"A \*caption\*."
    assert r"50\% & $-$1.2 \\" in part.latex
    assert r"\begin{tabular}{lr}" in part.latex


def test_a_long_table_is_continued_on_another_page():
    part = grid.grid(
        "x",
        "X",
        "Said once.",
        [Head("n", ".0f")],
        [[float(i)] for i in range(grid.LINES + 1)],
        "tab:x",
    )
    assert part.latex.count(r"\begin{table*}") == 2
    assert part.latex.count("Said once.") == 1
    assert r"\label{tab:x-2}" in part.latex
    assert part.latex.count(f"{grid.LINES} ") == 1


def test_what_rows_of_a_block_share_is_printed_once_and_stays_in_the_other_forms():
    rows = [["a", "x", 1.0], ["a", "y", 2.0], ["b", "x", 3.0]]
    part = grid.grid(
        "x", "X", "", [Head("S"), Head("M", width=0.2), Head("n", ".0f")], rows, "tab:x"
    )
    ragged = r"\rightskip0pt plus1fil\relax "
    lines = part.latex.splitlines()
    first = lines.index(rf"a & {ragged}x & 1 \\")
    assert lines[first + 1 : first + 4] == [
        rf" & {ragged}y & 2 \\",
        r"\midrule",
        rf"b & {ragged}x & 3 \\",
    ]
    assert "| a | y | 2 |" in part.markdown and "a,y,2.0" in part.csv and part.rows[1][0] == "a"


def test_labels_have_only_what_latex_allows():
    assert grid.label_of("my trial_1", "seeds") == "tab:my-trial_1-seeds"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_plain_tables_compile(tmp_path: Path):
    heads = [Head("a_b & c"), Head("n", "+.1f"), Head("text", width=0.3)]
    part = grid.grid(
        "x", "X", "50% of #1.", heads, [["[x]", -1.0, "long words " * 20]] * 60, "tab:x"
    )
    (tmp_path / "x.tex").write_text(part.document, encoding="utf-8")
    command = [
        "pdflatex",
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-no-shell-escape",
        "x.tex",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout.decode("latin-1")[-2000:]
    assert b"Overfull" not in done.stdout


# Plugins


def test_plugins_fill_the_tables_of_methods():
    parts, said = plugin_tables(["fedcosr", "fedavg", "nosuch", "fedavg"])
    taxonomy = only(parts, "methods")
    assert [row[0] for row in taxonomy.rows] == ["FedAvg", "FedCoSR"]
    assert taxonomy.rows[1] == ("FedCoSR", "PFL", "Representation sharing", "yes", "yes", "post")
    settings = only(parts, "hyperparameters")
    assert [row[1] for row in settings.rows if row[0] == "FedAvg"][:2] == ["lr", "batch_size"]
    assert any(row[:3] == ("FedAvg", "lr", "0.01") for row in settings.rows)
    assert len(said) == 1 and "nosuch" in said[0]


def test_all_tables_of_an_experiment_have_all_forms():
    runs = [
        run(name, seed=seed, counts=COUNTS)
        for name in ("local", "fedavg", "fedcosr")
        for seed in (0, 1, 2)
    ]
    trial = experiment(*runs)
    parts, _ = tables(trial, [trial], Choice())
    assert [part.name for part in parts] == [
        "accuracy",
        "seeds",
        "clients",
        "efficiency",
        "communication",
    ]
    for part in parts:
        assert part.caption and part.latex and part.document and part.csv and part.markdown
        assert (
            {len(row) for row in part.rows}
            == {len(part.headers)}
            == {len(row) for row in part.numbers}
        )
