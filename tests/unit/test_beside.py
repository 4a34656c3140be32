"""Measured numbers beside the FedCoSR paper's: which settings are its own, differences and Kendall's tau by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench import config
from pflbench.records.plan import Plan, Planned
from pflbench.report.grouping.headings import paper_data, paper_key
from pflbench.report.grouping.layout import lay_out
from pflbench.report.load.runs import Choice, Experiment, Numbers
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import published

DEFAULTS = config.as_json(config.Run("x"))
TITLES = {
    "local": "Local",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "moon": "MOON",
    "mine": "Mine",
}
# The paper's for CIFAR-10, beta = 0.1: Local 69.90, FedAvg 61.51, FedProx 62.91, MOON 82.96 (std 9.44, 11.23, ...)
MEASURED = {
    "local": [0.6, 0.8],
    "fedavg": [0.6, 0.6],
    "fedprox": [0.5, 0.5],
    "moon": [0.8, 0.8],
    "mine": [0.9, 0.9],
}


def run(algorithm: str, clients: list[float], status: str = "finished", **settings: Any) -> Numbers:
    values = {**DEFAULTS, "algorithm": algorithm, "dataset": "cifar10", **settings}
    planned = Planned(
        f"{algorithm}{settings}",
        algorithm,
        f"{values['dataset']} {values['partition']}",
        "",
        values,
    )
    about = {
        "method": {
            "title": TITLES[algorithm],
            "evaluation_point": "pre",
            "down": "theta",
            "up": "theta",
        },
        "data": {"title": "CIFAR-10"},
        "partition": {"digest": "d", "n_test": [1, 1]},
    }
    points = (about, "pre", np.array([1.0]), {"pre": np.array([0.5])}, np.array(clients))
    return Numbers(planned, Path(planned.id), status, "", *points)


def tables(*runs: Numbers, choice: Choice = Choice()) -> tuple[dict[str, TablePart], list[str]]:  # noqa: B008
    made = Experiment(
        Plan("main-small", "Main", "small", "", tuple(one.planned for one in runs)), runs
    )
    parts, notes = published.tables(lay_out(made, [made]), choice)
    return {part.name: part for part in parts}, notes


@pytest.mark.parametrize(
    "settings, key",
    [
        ({"dataset": "cifar10"}, "practical/cifar10/beta=0.1/20"),
        ({"dataset": "cifar10", "partition": "dir:1.0"}, "practical/cifar10/beta=1/20"),
        ({"dataset": "npz:a/cifar10-sample.npz"}, "practical/cifar10/beta=0.1/20"),
        (
            {"dataset": "npz:cifar100.npz", "partition": "path:50"},
            "pathological/cifar100/classes=50/20",
        ),
        (
            {"dataset": "emnist", "partition": "path:10", "rounds": 9},
            "pathological/emnist/classes=10/20",
        ),
        (
            {"dataset": "cifar10", "clients": 100, "participation": 0.5},
            "practical/cifar10/beta=0.1/100",
        ),
        ({"dataset": "cifar10", "clients": 100}, ""),
        ({"dataset": "cifar10", "participation": 0.5}, ""),
        ({"dataset": "cifar10", "data_fraction": 0.1}, ""),
        ({"dataset": "cifar10", "partition": "dir:0.2"}, ""),
        ({"dataset": "cifar10", "partition": "dir:x"}, ""),
        ({"dataset": "cifar10", "partition": "iid"}, ""),
        ({"dataset": "cifar100", "partition": "path:2"}, ""),
        ({"dataset": "synthetic:classes=10"}, ""),
        ({"dataset": "digits"}, ""),
    ],
)
def test_which_settings_are_the_papers(settings: dict[str, Any], key: str):
    assert paper_key({**DEFAULTS, **settings}) == key


def test_a_file_is_known_by_the_longest_name_that_it_begins_with():
    assert [
        paper_data(f"npz:x/{name}.npz") for name in ("cifar10", "cifar100-small", "my-cifar10")
    ] == [*("cifar10", "cifar100", "")]


def test_measured_published_and_difference():
    parts, notes = tables(*(run(name, clients) for name, clients in MEASURED.items()))
    part = parts["beside"]
    assert part.headers[3:] == (
        *("Measured (%)", "The paper's (%)", "Difference", "Measured std", "The paper's std"),
    )
    where = "CIFAR-10, Dirichlet 0.1, N=20"
    assert part.rows[0] == (where, "Local", "1", "70.00", "69.90", "+0.10", "10.00", "9.44")
    assert part.rows[1] == (where, "FedAvg", "1", "60.00", "61.51", "-1.51", "0.00", "11.23")
    assert [row[1] for row in part.rows] == [
        "Local",
        "FedAvg",
        "FedProx",
        "MOON",
    ]  # the paper has no Mine
    assert (
        "the FedCoSR paper's published numbers" in part.caption and "Scale: small." in part.caption
    )
    assert notes == []


def test_kendalls_tau_by_hand():
    """Of six pairs only FedAvg and FedProx change places: (5 - 1) / 6; four methods have it so or closer in 8 of 24."""
    part = tables(*(run(name, clients) for name, clients in MEASURED.items()))[0]["orders"]
    assert part.rows == (("CIFAR-10, Dirichlet 0.1, N=20", "4", "0.667", "0.333", "MOON", "MOON"),)
    assert "FedCoSR paper's" in part.caption


def test_a_cell_without_a_number_says_why_and_too_few_methods_have_no_order():
    parts, notes = tables(
        run("local", [0.5, 0.5]), run("fedavg", [0.1], "failed"), run("moon", [0.8, 0.8])
    )
    row = next(row for row in parts["beside"].rows if row[1] == "FedAvg")
    assert row[2:] == ("0 of 1", "failed", "61.51", "\u2013", "\u2013", "11.23")
    assert "orders" not in parts
    assert notes == [
        "Order beside the paper's, CIFAR-10, Dirichlet 0.1, N=20: a comparison of orders needs 3 methods in both, there"
        " are 2."
    ]


def test_std_over_seeds_is_not_set_beside_the_papers_over_clients():
    parts, _ = tables(run("local", [0.5, 0.5]), choice=Choice(std="seeds"))
    assert not any("std" in header for header in parts["beside"].headers)


def test_settings_that_are_not_the_papers_have_no_such_table():
    assert tables(run("local", [0.5, 0.5], partition="dir:0.3")) == ({}, [])
