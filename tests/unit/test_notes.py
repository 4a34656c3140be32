"""Captions of tables and the notes with them, from made-up runs."""

import csv
import dataclasses
import io

import numpy as np
import pytest

from pflbench.report.load.runs import Choice
from pflbench.report.tables import accuracy
from pflbench.report.tables.all_tables import tables
from pflbench.report.tables.captions import how
from pflbench.report.tables.notes import below_tables, section_notes
from tests.factories.runs import experiment, layout, run

POINTS = (("fedavg", "pre"), ("local", "post"))
WHERE = "Digits, Dirichlet 0.1, N=20"

# Captions


@pytest.mark.parametrize(
    "choice, said",
    [
        (Choice(), "In the last round (of 200)."),
        (Choice(round="last10"), "As the mean of the last ten evaluated rounds (of 200)."),
        (Choice(round="best"), "best on the test samples, which is optimistic (of 200)."),
        (Choice(round="validation"), "best on held-out training samples (of 200)."),
        (Choice(), "mean over clients (each counting once), and std over clients"),
        (Choice(weighted=True), "mean over clients (weighted by their test samples)"),
        (Choice(), "both means over 2 seeds"),
        (Choice(), "Each method has its own evaluation point"),
        (Choice(point="post"), "All methods are evaluated right after local training (post)."),
        (Choice(), "Scale: small. Data: Digits (8 samples)."),
        (Choice(), "In all scenarios: at most 250 samples per client."),
    ],
)
def test_the_caption_says_what_the_numbers_are(choice: Choice, said: str):
    runs = [
        run(name, seed=seed, about={"point": point}, max_samples=250)
        for name, point in POINTS
        for seed in (0, 1)
    ]
    assert said in accuracy.table(layout(*runs, scale="small"), choice).caption


def test_the_caption_says_that_std_is_over_seeds():
    runs = [run(seed=seed) for seed in (0, 1)]
    found = layout(*runs, report={"style": "fedcosr", "std": "seeds"})
    said = accuracy.table(found, Choice()).caption
    assert "mean over 2 seeds, and std over seeds." in said


# Notes in the section of an experiment


def test_which_method_is_evaluated_where():
    said = section_notes(layout(*(run(n, about={"point": p}) for n, p in POINTS)), Choice())
    assert said == [
        "Evaluated right after local training (post): Local; before local training (pre): FedAvg."
    ]


def test_how_many_runs_are_not_finished_and_why():
    runs = [run(), run("local", status="failed"), run("ditto", status="missing")]
    assert section_notes(layout(*runs), Choice()) == [
        "Of 3 planned runs: 1 finished, 1 failed, 1 missing. Means are over finished runs.",
        "failed: local, digits dir:0.1, seed 0: it broke",
    ]


def test_finished_runs_without_an_accuracy_are_named():
    silent = dataclasses.replace(run("local"), clients=np.zeros(0))
    (said,) = section_notes(layout(run(), silent), Choice(point="post"))
    assert said == f"Finished, but without an accuracy at post: Local ({WHERE})."


def test_methods_with_different_partitions_of_the_data():
    same = layout(run(), run(seed=1, about={"digest": "e"}), run("local"))
    assert section_notes(same, Choice()) == []
    (said,) = section_notes(layout(run(), run("local", about={"digest": "e"})), Choice())
    assert said == f"{WHERE}: the methods were given different partitions of the data."


def test_fields_of_the_configuration_of_some_scenarios_only():
    found = layout(run(), run(clients=100, participation=0.5, words="many"))
    assert section_notes(found, Choice()) == [
        "Digits, Dirichlet 0.1, N=100, many: 50 % of the clients per round."
    ]
    assert "clients per round" not in how(found, Choice())
    shares = (0.05, 0.1)
    runs = [run(data_fraction=x, words=f"digits dir:0.1 data_fraction={x}") for x in shares]
    assert section_notes(layout(*runs), Choice()) == []  # the headings say it


def test_without_a_finished_run_there_are_no_tables():
    trial = experiment(run(status="missing"))
    parts, said = tables(trial, [trial], Choice())
    assert parts == []
    assert said[-1] == "No tables: no finished run has an accuracy to show."


# Notes of records, below every table

UNIFORM = "all attention weights are uniform"


def test_a_note_of_a_method_is_below_every_table_once_with_its_scenarios():
    runs = [run("fedamp", notes=[UNIFORM], seed=seed) for seed in (0, 1)]
    runs += [run("fedamp", partition="dir:1"), run(), run(partition="dir:1")]
    said = f"FedAMP: {UNIFORM} ({WHERE})."
    assert below_tables(layout(*runs)) == [said]
    trial = experiment(*runs)
    parts, _ = tables(trial, [trial], Choice())
    assert len(parts) > 4
    for part in parts:
        assert part.notes == (said,)
        assert part.markdown.count(UNIFORM) == 1 and part.markdown.endswith(f"- {said}\n")
        assert part.latex.count(UNIFORM) == part.document.count(UNIFORM) == 1


def test_a_note_on_all_scenarios_of_a_method_says_so():
    runs = [run("fedamp", notes=[UNIFORM], partition=p) for p in ("dir:0.1", "dir:1")]
    runs.append(run(partition="dir:10"))
    assert below_tables(layout(*runs)) == [f"FedAMP: {UNIFORM} (all scenarios)."]
    assert below_tables(layout(runs[0])) == [f"FedAMP: {UNIFORM}."]  # there is only one


def test_notes_that_differ_are_all_there():
    found = layout(run(notes=["17 of 20"]), run(notes=["18 of 20", UNIFORM], seed=1))
    assert below_tables(found) == [f"FedAvg: 17 of 20; 18 of 20; {UNIFORM}."]


def test_a_method_with_another_network_than_most_is_named():
    runs = [run(name, partition=p) for name in ("fedavg", "local") for p in ("dir:0.1", "dir:1")]
    runs += [run("fedbn", partition=p, model="cnn_bn") for p in ("dir:0.1", "dir:1")]
    said = "fedbn: network cnn_bn (most others: network cnn) (all scenarios)."
    assert below_tables(layout(*runs)) == [said]


def test_a_method_that_is_evaluated_less_often_is_named():
    found = layout(run(), run("local"), run("fedbabu", eval_every=30))
    said = "fedbabu: evaluated every 30 rounds (most others: evaluated every round)."
    assert below_tables(found) == [said]


def test_a_setting_that_a_variant_names_is_not_said_again():
    widths = (64, 128, 128)
    runs = [
        run(width=w, variant=f"width={w}", words="digits", seed=s) for s, w in enumerate(widths)
    ]
    assert below_tables(layout(*runs)) == []


def test_a_note_of_a_run_that_no_table_shows_is_not_there():
    found = layout(run(), run(seed=1, status="failed", notes=[UNIFORM]))
    assert below_tables(found) == []


def test_the_csv_of_accuracies_has_the_notes_of_each_cell():
    part = accuracy.table(layout(run(notes=[UNIFORM]), run("local")), Choice())
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(part.csv))}
    assert {name: line["notes"] for name, line in lines.items()} == {
        "Local": "",
        "FedAvg": UNIFORM,
        "Mean": "",
    }


# Versions


def test_numbers_of_an_earlier_version_are_marked_in_every_table():
    runs = [run("ditto", [0.4, 0.6], outdated=True, partition=p) for p in ("dir:0.1", "dir:1")]
    runs += [run(partition=p) for p in ("dir:0.1", "dir:1")]
    trial = experiment(*runs)
    parts, _ = tables(trial, [trial], Choice())
    for part in parts:
        assert part.notes == (
            "\u00b6 Ditto: from an earlier version of the method (all scenarios).",
        )
        assert any("\u00b6" in cell for row in part.rows for cell in row)
    accuracies = parts[0]
    cells = {row[0]: row[1] for row in accuracies.rows}
    assert cells["Ditto"].startswith("50.00\u2020\u00b6") and "\u00b6" not in cells["FedAvg"]
    assert "\u00b6: from an earlier version of the method." in accuracies.caption
    assert r"50.00}$^{\dagger}$$^{\P}$" in accuracies.latex
    lines = csv.DictReader(io.StringIO(accuracies.csv))
    assert {(line["method"], line["outdated"]) for line in lines} == {
        ("Ditto", "yes"),
        ("FedAvg", "no"),
        ("Mean", ""),
    }


def test_current_numbers_are_not_marked():
    part = accuracy.table(layout(run(), run("ditto")), Choice())
    assert part.notes == () and "\u00b6" not in part.caption + part.markdown + part.csv


def test_runs_of_another_version_than_the_cells_are_left_out_and_that_is_said():
    """The reader of states gives them as missing, so that they are in no mean."""
    old = run(accuracies=[0.1, 0.1], seed=1, status="missing", outdated=True)
    found = layout(run(), old, run(partition="dir:1"))
    assert below_tables(found) == [f"FedAvg: left out, from another version: 1 run ({WHERE})."]
    part = accuracy.table(found, Choice())
    assert part.rows[0][1].startswith("75.00*\u00a7")
