"""Comparison with published results: which scenarios a paper has, differences and tau by hand."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pflbench import config
from pflbench.papers import papers
from pflbench.papers.fedcosr.scenarios import DATASETS, column_of
from pflbench.papers.paper import dataset_of
from pflbench.records.plan import Planned
from pflbench.report.grouping.overview import overview
from pflbench.report.load.runs import Choice, Numbers, read
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import published
from tests.factories.run_files import write_run
from tests.factories.runs import PAPER, about_run, by_method, experiment, layout, planned, run

DEFAULTS = config.as_json(config.Run("x"))
# Published for CIFAR-10, beta = 0.1: Local 69.90, FedAvg 61.51, FedProx 62.91, MOON 82.96 (std 9.44, 11.23, ...)
MEASURED = {
    "local": [0.6, 0.8],
    "fedavg": [0.6, 0.6],
    "fedprox": [0.5, 0.5],
    "moon": [0.8, 0.8],
    "mine": [0.9, 0.9],
}
WHERE = "CIFAR-10, Dirichlet 0.1, N=20"


def cifar(algorithm: str, accuracies: list[float], status: str = "finished", **options: Any) -> Any:
    about = {"data": "CIFAR-10", **options.pop("about", {})}
    return run(algorithm, accuracies, status=status, about=about, dataset="cifar10", **options)


def tables(*runs: Numbers, **report: Any) -> tuple[dict[str, TablePart], list[str]]:
    found = layout(*runs, name="main-small", scale="small", report={**PAPER, **report})
    parts, notes = published.tables(found, Choice())
    return {part.name: part for part in parts}, notes


def measured() -> list[Numbers]:
    return [cifar(name, accuracies) for name, accuracies in MEASURED.items()]


@pytest.mark.parametrize(
    "fields, key",
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
def test_which_scenarios_the_paper_has(fields: dict[str, Any], key: str):
    assert column_of({**DEFAULTS, **fields}) == key


def test_a_file_is_known_by_the_longest_name_that_it_starts_with():
    names = ("cifar10", "cifar100-small", "my-cifar10")
    found = [dataset_of(f"npz:x/{name}.npz", DATASETS) for name in names]
    assert found == ["cifar10", "cifar100", ""]


def test_measured_published_and_difference():
    parts, notes = tables(*measured())
    part = parts["published"]
    assert part.title == "Comparison with published results"
    assert part.headers[3:] == (
        *("Measured (%)", "Published (%)", "Difference", "Measured std", "Published std"),
    )
    assert part.rows[0] == (WHERE, "Local", "1", "70.00", "69.90", "+0.10", "10.00", "9.44")
    assert part.rows[1] == (WHERE, "FedAvg", "1", "60.00", "61.51", "-1.51", "0.00", "11.23")
    methods = [row[1] for row in part.rows]
    assert methods == ["Local", "FedAvg", "FedProx", "MOON"]  # the paper has no Mine
    assert f"the {papers()[0].name} paper's (5 seeds), which is not measured here" in part.caption
    assert "Scale: small." in part.caption
    assert notes == []


def test_kendalls_tau_by_hand():
    """Of six pairs only FedAvg and FedProx change places: (5 - 1) / 6.

    Four methods have it so or closer in 8 of 24 orders.
    """
    part = tables(*measured())[0]["published-order"]
    assert part.rows == ((WHERE, "4", "0.667", "0.333", "MOON", "MOON"),)


def test_a_cell_without_a_number_says_why_and_too_few_methods_have_no_order():
    runs = [cifar("local", [0.5, 0.5]), cifar("fedavg", [0.1], "failed"), cifar("moon", [0.8, 0.8])]
    parts, notes = tables(*runs)
    row = next(row for row in parts["published"].rows if row[1] == "FedAvg")
    assert row[2:] == ("0 of 1", "failed", "61.51", "\u2013", "\u2013", "11.23")
    assert "published-order" not in parts
    lack = "a comparison of orders needs 3 methods in both, there are 2"
    assert notes == [f"Agreement with the published order, {WHERE}: {lack}."]


def test_std_over_seeds_is_not_compared_with_the_published_one_over_clients():
    parts, _ = tables(cifar("local", [0.5, 0.5]), std="seeds")
    assert not any("std" in header for header in parts["published"].headers)


def test_costs_that_the_paper_states_and_why_formulas_differ():
    about = {"costs": ("pi", "pi + 1")}
    seconds = {"wall": [1.0, 3.0]}
    runs = [cifar("lgfedavg", [0.5], about=about, seconds=seconds), cifar("mine", [0.5])]
    part = tables(*runs)[0]["published-costs"]
    (row,) = by_method(part).values()  # the paper has no Mine
    assert (row["Method"], row["Published rounds"]) == ("LG-FedAvg", "81.00")
    assert (row["s per round"], row["Published s per round"]) == ("2.000", "47.00")
    assert (row["Formula, down"], row["Published, both"]) == ("pi", "2 (theta)")
    assert row["Why they differ"].startswith("only the head travels")
    assert "not measured here" in part.caption


def test_the_papers_classification_is_of_the_methods_that_were_run():
    part = tables(*measured())[0]["published-methods"]
    assert part.headers == ("Method", "Type", "Technique", "Label skew", "Data scarcity")
    assert [row[0] for row in part.rows] == ["Local", "FedAvg", "FedProx", "MOON"]
    assert part.rows[3] == ("MOON", "FL", "Contrastive learning", "yes", "no")


def test_scenarios_that_no_paper_has_are_not_compared():
    lack = "none of its methods and scenarios is among the runs"
    said = [f"No comparison with the FedCoSR paper: {lack}."]
    assert tables(cifar("local", [0.5, 0.5], partition="dir:0.3")) == ({}, said)
    assert tables(cifar("mine", [0.5, 0.5])) == ({}, said)
    assert tables(cifar("local", [0.5, 0.5]), published=[]) == ({}, [])


def test_the_papers_looks_stay_where_its_own_method_is_the_proposed_one():
    paper = papers()[0]
    runs = cifar("moon", [0.5]), cifar(paper.proposed.lower(), [0.6])

    def colours(proposed: str) -> list[str]:
        found = experiment(*runs, report={**PAPER, "proposed": proposed})
        return [group.look.colour for group in overview(found, Choice()).groups]

    published = [paper.looks[title][0] for title in ("MOON", paper.proposed)]
    assert colours("") == colours(paper.proposed) == published
    assert colours("moon") != published


def on_the_leaderboard(folder: Path, method: str, rounds: list[list[float]]) -> Planned:
    """A run on disk whose two clients, of 10 and 30 test samples, have these accuracies, round by
    round.
    """
    wanted = planned(method, dataset="fashion_mnist", rounds=len(rounds) - 1)
    about = about_run(wanted.config, 2, n_test=[10, 30])
    sent: dict[str, Any] = {"cohort": [0, 1], "bytes": {}}
    lines = [
        {"round": number, **(sent if number else {}), "accuracy": {"pre": accuracies}}
        for number, accuracies in enumerate(rounds)
    ]
    write_run(folder, wanted, about=about, lines=lines)
    return wanted


def with_the_leaderboard(
    folder: Path, runs: Iterable[Planned], choice: Choice
) -> dict[str, TablePart]:
    found = [read(folder / run.id, run, choice, "finished") for run in runs]
    parts, _ = published.tables(layout(*found, report={"published": ["pfllib"]}), choice)
    return {part.name: part for part in parts}


def test_a_source_of_best_rounds_is_compared_with_best_rounds_too(tmp_path: Path):
    """FedAvg: 0.6 in the last round; weighted by samples 0.35, 0.775 and 0.5, so the best has 0.775.
    The published order is FedRep, FedPer, FedAvg, as is that of best rounds, not of last ones.
    """
    runs = [
        on_the_leaderboard(tmp_path, "fedavg", [[0.2, 0.4], [0.7, 0.8], [0.8, 0.4]]),
        on_the_leaderboard(tmp_path, "fedper", [[0.0, 0.0], [0.9, 0.9], [0.5, 0.5]]),
        on_the_leaderboard(tmp_path, "fedrep", [[0.0, 0.0], [1.0, 1.0], [0.4, 0.4]]),
    ]
    parts = with_the_leaderboard(tmp_path, runs, Choice())
    part = parts["published"]
    assert part.headers[3:5] == ("Measured (%)", "Measured as there (%)")
    assert part.rows[0][3:] == ("60.00", "77.50", "85.85", "-8.35")
    assert "Measured as there: the same runs" in part.caption
    assert parts["published-order"].rows[0][2] == "1.000"
    part = with_the_leaderboard(tmp_path, runs, Choice("best", weighted=True))["published"]
    assert part.headers[3:] == ("Measured (%)", "Published (%)", "Difference")
    assert part.rows[0][3:] == ("77.50", "85.85", "-8.35")
    assert "Measured as there" not in part.caption
