"""The rows and columns of an experiment's tables from made-up runs."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pflbench.report.load.runs import OTHERS, Choice
from pflbench.report.tables.notes import section_notes
from tests.factories.runs import layout, run

METHODS = ("mine", "fedcosr", "fedproto", "local")


def test_methods_are_in_the_order_of_published_tables_and_others_last():
    found = layout(*(run(name) for name in METHODS), run("fedavg", status="missing"))
    titles = [row.title for row in found.rows]
    assert titles == ["Local", "FedAvg", "FedProto", "FedCoSR", "Mine"]
    assert {row.kind for row in found.rows} == {"method"}
    assert found.proposed == ""
    groups = {row.title: row.group for row in found.rows}
    assert groups["FedCoSR"] == groups["FedProto"]
    assert groups["Mine"] == "other"


@pytest.mark.parametrize("proposed", ["mine", "Mine"])
def test_the_proposed_method_is_the_last_row(proposed: str):
    found = layout(*(run(name) for name in METHODS), proposed=proposed)
    assert [row.kind for row in found.rows] == ["method"] * 3 + ["proposed"]
    assert found.rows[-1].title == found.proposed == "Mine"
    assert found.rows[-1].group not in {row.group for row in found.rows[:-1]}
    assert layout(*(run(name) for name in METHODS), proposed="ditto").proposed == ""


def test_the_table_of_a_paper_has_its_own_method_last():
    found = layout(*(run(name) for name in METHODS), proposed="fedcosr")
    assert [row.title for row in found.rows] == ["Local", "FedProto", "Mine", "FedCoSR"]
    assert [row.group == "proposed" for row in found.rows] == [False, False, False, True]


def test_variants_are_rows_of_their_method():
    names = ("mine", "fedcosr", "ditto")
    runs = [run(name, variant=variant) for variant in ("FedCoSR", "w/o LA") for name in names]
    found = layout(*runs, proposed="fedcosr")
    assert [(row.method, row.variant) for row in found.rows] == [
        ("Ditto", "FedCoSR"),
        ("Ditto", "w/o LA"),
        ("Mine", "FedCoSR"),
        ("Mine", "w/o LA"),
        ("FedCoSR", ""),
        ("FedCoSR", "w/o LA"),
    ]
    assert found.rows[1].title == "Ditto: w/o LA"
    assert [row.title for row in found.rows if row.kind == "proposed"] == ["FedCoSR"]


def test_a_colon_in_a_name_does_not_make_a_variant():
    (row,) = layout(run("mine", about={"title": "A: B"})).rows
    assert (row.method, row.variant, row.title) == ("A: B", "", "A: B")


def test_two_methods_of_one_title_have_their_names_too():
    assert [row.title for row in layout(run(), run("mine", about={"title": "FedAvg"})).rows] == [
        "FedAvg (fedavg)",
        "FedAvg (mine)",
    ]


@pytest.mark.parametrize(
    "config, group, title",
    [
        ({}, "Practical heterogeneous (\u03b2=0.1, N=20)", "Digits"),
        (
            {"partition": "path:3", "clients": 7},
            "Pathological heterogeneous (C/Client=3, N=7)",
            "Digits",
        ),
        ({"partition": "iid"}, "IID (N=20)", "Digits"),
        (
            {"dataset": "cifar10", "about": {"data": "CIFAR-10"}},
            "Practical heterogeneous (\u03b2=0.1, N=20)",
            "CIFAR-10",
        ),
        (
            {"dataset": "cifar100", "about": {"data": "CIFAR-100"}, "partition": "path:20"},
            "Pathological heterogeneous (N=20)",
            "CIFAR-100",
        ),
        (
            {
                "dataset": "npz:x/cifar10-part.npz",
                "about": {"data": "cifar10-part.npz"},
                "clients": 100,
                "participation": 0.5,
            },
            "Scalability (cifar10-part.npz)",
            "Prac. N=100",
        ),
        (
            {
                "dataset": "npz:cifar100-part.npz",
                "about": {"data": "cifar100-part.npz"},
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
def test_headings_are_a_papers_with_the_real_data(config: dict[str, Any], group: str, title: str):
    (column,) = layout(run(**config)).columns
    assert (column.group, column.title) == (group, title)


def test_columns_that_read_the_same_say_how_they_differ():
    runs = [
        run(data_fraction=share, words=f"digits dir:0.1 data_fraction={share}")
        for share in (0.05, 0.1)
    ]
    runs += [
        run(
            dataset=f"synthetic:classes={classes},samples=9",
            about={"data": "Synthetic"},
            words="stand-in dir:0.1",
        )
        for classes in (10, 47)
    ]
    columns = layout(*runs).columns
    assert [column.title for column in columns] == [
        "Digits, 5 % of the training samples",
        "Digits, 10 % of the training samples",
        "Synthetic (classes=10)",
        "Synthetic (classes=47)",
    ]
    assert columns[0].line == "Digits, Dirichlet 0.1, N=20, 5 % of the training samples"
    assert len({column.key for column in columns}) == 4


def test_a_column_with_all_of_what_others_lack_says_so():
    runs = [run(data_fraction=share, participation=share, words="dir:0.1") for share in (1.0, 0.5)]
    assert [column.title for column in layout(*runs).columns] == [
        "Digits, all clients in every round, all training samples",
        "Digits, 50 % of the clients per round, 50 % of the training samples",
    ]


def test_runs_of_different_scenarios_never_share_a_cell():
    found = layout(run(rounds=5), run(rounds=9, seed=1))
    assert [column.line[-8:] for column in found.columns] == ["5 rounds", "9 rounds"]
    assert all(len(runs) == 1 for runs in found.cells.values())
    assert len(layout(run(rounds=5), run("local", rounds=9), name=OTHERS).columns) == 2
    # in a plan: a method may have its own
    by_method = layout(run(rounds=5), run("local", rounds=9))
    assert len(by_method.columns) == 1
    assert any(
        "not the same for all methods: rounds" in note
        for note in section_notes(by_method, Choice())
    )


def test_runs_of_different_hyperparameters_never_share_a_cell():
    found = layout(run(hparams={"lr": 0.1}), run(hparams={"lr": 0.2}, seed=1), name=OTHERS)
    assert [row.title for row in found.rows] == ["FedAvg: lr=0.1", "FedAvg: lr=0.2"]


def test_a_run_that_is_in_two_folders_counts_once_and_that_is_said():
    one = run()
    copy = dataclasses.replace(one, folder=Path("copy"))
    found = layout(one, one, copy)
    assert [len(runs) for runs in found.cells.values()] == [1]
    assert section_notes(found, Choice()) == ["Left out as a duplicate of another run: copy."]
