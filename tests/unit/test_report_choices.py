"""What a researcher chooses for their own paper: the proposed method, order, titles, caption, rows,
marks and style of the table of accuracies.
"""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pflbench.errors import UserError
from pflbench.papers import pfllib
from pflbench.papers.published import sources
from pflbench.report import build
from pflbench.report.load.runs import Choice, Numbers
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import accuracy, published
from pflbench.report.tables.all_tables import tables
from pflbench.report.tables.notes import section_notes
from tests.factories.run_files import write_sweep
from tests.factories.runs import by_method, experiment, layout, run

NPZ = "npz:somewhere/photos-v3.npz"


def trial() -> list[Numbers]:
    """Three methods in two scenarios with two seeds; in the first one Ditto is best, then Local."""
    found = []
    for partition, lift in (("dir:0.1", 0.0), ("path:2", 0.1)):
        for name, level in (("ditto", 0.8), ("fedavg", 0.6), ("local", 0.7)):
            for seed in (0, 1):
                clients = [level - lift + 0.02 * seed] * 2
                found.append(run(name, clients, seed=seed, partition=partition))
    return found


def table(*runs: Numbers, **report: Any) -> TablePart:
    found = layout(*(runs or trial()), report=report, proposed=report.get("proposed"))
    return accuracy.table(found, Choice())


def line(part: TablePart, method: str) -> str:
    """The row of a method in LaTeX."""
    (found,) = [one for one in part.latex.splitlines() if one.startswith(f"{method} &")]
    return found


# The plain style


def test_without_a_proposed_method_the_best_of_a_column_is_bold_and_nobody_is_special():
    part = table()
    assert [row[0] for row in part.rows] == ["Ditto", "FedAvg", "Local"]  # as in the plan
    assert line(part, "Ditto").startswith(r"Ditto & \textbf{81.00} {\scriptsize$\pm$1.41} & ")
    assert line(part, "Local").startswith(r"Local & \underline{71.00} {\scriptsize$\pm$1.41} & ")
    assert line(part, "FedAvg").startswith(r"FedAvg & 61.00 {\scriptsize$\pm$1.41} & ")
    assert part.looks[0] == ("", "bold", "bold")
    assert part.looks[2] == ("", "underlined", "underlined")
    assert "| Ditto | **81.00** \u00b1 1.41 |" in part.markdown
    assert "| Local | <u>71.00</u> \u00b1 1.41 |" in part.markdown
    assert r"\textbf{Bold}: highest accuracy of a column; \underline{Underlined}" in part.latex


def test_the_proposed_method_has_the_last_row_and_a_bold_name_but_not_the_best_numbers():
    part = table(proposed="fedavg")
    assert [row[0] for row in part.rows] == ["Ditto", "Local", "FedAvg"]
    assert line(part, r"\textbf{FedAvg}").startswith(r"\textbf{FedAvg} & 61.00 ")
    assert part.latex.splitlines()[-6] == r"\midrule"  # before the proposed method
    assert part.looks[2] == ("bold", "", "")
    assert r"\textbf{81.00}" in line(part, "Ditto")


def test_equal_numbers_share_a_place():
    runs = [run("ditto", [0.8]), run("fedavg", [0.8]), run("local", [0.7])]
    assert [looks[1] for looks in table(*runs).looks] == ["bold", "bold", ""]


def test_a_single_seed_has_no_std_over_seeds_and_the_caption_does_not_speak_of_it():
    part = table(run("ditto"), run("fedavg"))
    assert line(part, "Ditto") == r"Ditto & \textbf{75.00} \\"
    assert "averaged over clients: of 1 seed." in part.caption
    assert "std" not in part.caption


def test_a_cell_without_a_number_is_one_dash():
    part = table(run("ditto"), run("fedavg", status="failed"))
    assert line(part, "FedAvg") == r"FedAvg & --$^{\mathrm{f}}$ \\"
    assert "\u2013f: failed." in part.caption


# What is shown, and in which order


def test_methods_and_scenarios_are_shown_in_the_order_that_is_asked_for():
    part = table(methods=["local", "Ditto"], scenarios=["digits path:*", "digits dir:0.1"])
    assert [row[0] for row in part.rows] == ["Local", "Ditto"]
    assert part.headers[1:] == ("Digits: 2 classes per client", "Digits: Dirichlet 0.1")
    assert part.rows[1][1].startswith("71.00")


def test_the_proposed_method_is_shown_and_last_wherever_it_is_named():
    assert [row[0] for row in table(methods=["ditto", "local"], proposed="ditto").rows] == [
        "Local",
        "Ditto",
    ]
    assert [row[0] for row in table(methods=["local"], proposed="fedavg").rows] == [
        "Local",
        "FedAvg",
    ]


def test_a_plugin_is_found_by_its_file():
    own = run("mine", [0.9])
    own = dataclasses.replace(own, planned=dataclasses.replace(own.planned, plugin="a/b/mine.py"))
    for name in ("mine", "Mine", "mine.py", "./b/mine.py", "a/b/mine.py"):
        assert layout(run(), own, report={}, proposed=name).proposed == "Mine"


def test_what_is_named_and_not_there_is_a_note():
    found = layout(*trial(), report={"methods": ["ditto", "apfl"], "scenarios": ["x*", "digits*"]})
    said = section_notes(found, Choice())
    assert said[0] == "Not among the runs of this experiment: method 'apfl', scenario 'x*'."


def test_an_experiment_without_anything_to_show_says_so():
    made = experiment(run(), report={"methods": ["apfl"]})
    parts, notes = tables(made, [made], Choice())
    assert parts == []
    assert notes == ["No tables: the experiment has none of the methods and scenarios to show."]


# Words


def test_everything_has_the_title_that_is_given():
    titles = {
        "methods": {"fedavg": "McMahan et al."},
        "datasets": {"photos-v3": "Photos"},
        "partitions": {"dir:0.1": "strong skew"},
    }
    runs = [run(name, dataset=NPZ, about={"data": "photos-v3.npz"}) for name in ("ditto", "fedavg")]
    found = layout(*runs, report={"titles": titles})
    part = accuracy.table(found, Choice())
    assert part.headers == ("Method", "Photos: strong skew")
    assert [row[0] for row in part.rows] == ["Ditto", "McMahan et al."]
    assert found.columns[0].line == "Photos, strong skew, N=20"
    assert "photos-v3" not in part.latex + part.caption


def test_a_given_title_of_a_partition_holds_in_a_papers_style_too():
    titles = {"partitions": {"dir:0.1": "strong skew"}}
    found = layout(*trial(), report={"style": "fedcosr", "titles": titles})
    groups = [column.group for column in found.columns]
    assert groups == ["strong skew", "Pathological heterogeneous (C/Client=2, N=20)"]


def test_a_scenario_has_the_title_that_is_given_in_all_tables():
    found = layout(*trial(), report={"titles": {"scenarios": {"digits path:2": "Hard"}}})
    assert [column.line for column in found.columns] == ["Digits, Dirichlet 0.1, N=20", "Hard"]
    assert accuracy.table(found, Choice()).headers[1:] == ("Digits: Dirichlet 0.1", "Hard")


def test_the_heading_above_is_what_changes_less_often():
    by_data = [run(partition=p, dataset=d) for d in ("a", "b") for p in ("iid", "path:2")]
    part = table(*(dataclasses.replace(one, about={}, status="missing") for one in by_data), run())
    assert part.headers[1:3] == ("a: IID", "a: 2 classes per client")
    by_partition = [run(partition=p, dataset=d) for p in ("iid", "path:2") for d in ("a", "b")]
    missing = (dataclasses.replace(one, about={}, status="missing") for one in by_partition)
    assert table(*missing, run()).headers[1:3] == ("IID: a", "IID: b")


def test_numbers_of_clients_are_in_the_caption_or_where_they_differ_in_the_headings():
    assert "samples); 20 clients." in table().caption
    part = table(run(clients=5), run(clients=10))
    assert [head.rpartition(" ")[2] for head in part.headers[1:]] == ["N=5", "N=10"]
    assert "clients. Measured" not in part.caption


def test_caption_and_label_are_those_that_are_given():
    part = table(caption="Accuracy on digits & co.", label="tab:mine")
    assert part.caption == "Accuracy on digits & co."
    assert "\\caption{Accuracy on digits \\& co.}\n\\label{tab:mine}" in part.latex
    runs = [run("ditto"), run("fedavg", status="missing")]
    assert table(*runs, caption="Mine.").caption == "Mine. \u2013m: missing."  # never hidden


@pytest.mark.parametrize("title", ["pflbench sweep --algorithms fedavg", "trial", ""])
def test_no_caption_begins_with_a_command_or_a_name_of_a_file(title: str):
    found = layout(*trial(), report={})
    found = dataclasses.replace(found, plan=dataclasses.replace(found.plan, title=title))
    assert accuracy.table(found, Choice()).caption.startswith("Accuracy (%) on the clients' own")


def test_the_title_of_the_experiment_is_the_first_sentence():
    assert table().caption.startswith("A trial. Accuracy (%) on the clients' own test samples,")


def test_std_is_over_seeds_or_over_clients():
    assert "averaged over clients: mean and std over 2 seeds." in table().caption
    part = table(run(accuracies=[0.5, 1.0]), std="clients")
    assert line(part, "FedAvg") == r"FedAvg & \textbf{75.00} {\scriptsize$\pm$25.00} \\"
    assert "mean over clients and std over clients, averaged over 1 seed." in part.caption


# Rows, marks, decimals


def test_rows_and_marks_are_those_that_are_asked_for():
    part = table(rows=["mean"], marks=["arrows"], decimals=1)
    assert [row[0] for row in part.rows] == ["Ditto", "FedAvg", "Local", "Mean"]
    assert line(part, "Ditto").startswith(r"Ditto & 81.0\,$\uparrow$ {\scriptsize$\pm$1.4} &")
    assert line(part, r"\textbf{Mean}").startswith(r"\textbf{Mean} & 71.0 {\scriptsize$\pm$1.4} &")
    assert "Bold" not in part.latex and "better, worse than the mean" in part.latex
    counts = ([{"0": 1}, {"0": 1}], [{"0": 1}, {"0": 1}])
    guessed = run("ditto", about={"counts": counts})
    assert [row[0] for row in table(guessed).rows] == ["Ditto", "Majority class"]
    assert [row[0] for row in table(guessed, rows=[]).rows] == ["Ditto"]


def test_a_style_that_is_not_there_is_told_in_one_line():
    with pytest.raises(UserError, match=r"unknown style of tables 'plane'; did you mean 'plain'"):
        table(style="plane")


# Published numbers


def numbers(*lines: tuple[Any, ...]) -> dict[str, Any]:
    return {"name": "theirs", "lines": [list(one) for one in lines]}


def compared(*given: Any, **report: Any) -> tuple[dict[str, TablePart], list[str]]:
    found = layout(*trial(), report={"published": list(given), **report})
    parts, notes = published.tables(found, Choice())
    return {part.name: part for part in parts}, notes


def test_anyones_numbers_stand_beside_the_measured_ones_with_the_agreement_of_orders():
    given = numbers(
        ("Ditto", "digits dir:0.1", 80.0, 0.5, "They (2020)"),
        ("fed-avg", "digits dir:0.1", 75.0, None, "They (2020)"),
        ("Local", "Digits, Dirichlet 0.1, N=20", 70.0, 0.5, "They (2020)"),
        ("local", "digits dir:0.1", 70.0, 0.5, "They (2020)"),
        ("SCAFFOLD", "digits dir:0.1", 60.0, 0.5, "They (2020)"),
    )
    parts, notes = compared(given)
    rows = by_method(parts["published"])
    shown = ("Measured (%)", "Published (%)", "Difference", "Measured std", "Published std")
    assert [rows["Ditto"][name] for name in shown] == ["81.00", "80.00", "+1.00", "1.41", "0.50"]
    assert [rows["FedAvg"][name] for name in shown[1:3]] == ["75.00", "-14.00"]
    assert len(rows) == 3  # SCAFFOLD was not run
    assert "and that of They (2020), which is not measured here" in parts["published"].caption
    (order,) = parts["published-order"].rows
    assert order[1:3] == ("3", "0.333")  # one of three pairs changes places
    assert notes == []


def test_every_source_has_a_table_of_its_own():
    first, second = (
        ("Ditto", "digits dir:0.1", x, None, name) for x, name in ((80.0, "A"), (70.0, "B"))
    )
    parts, _ = compared(numbers(first, second))
    assert list(parts) == ["published", "published-2"]
    assert "that of B, which" in parts["published-2"].caption
    assert "Published std" not in parts["published"].headers


def test_numbers_that_do_not_ship_are_told_in_one_line():
    with pytest.raises(UserError, match=r"unknown published numbers 'pfl'; .*FILE\.csv, fedcosr"):
        compared("pfl")


def test_the_leaderboard_of_pfllib_names_its_sources_and_what_is_uncertain():
    board, fedala = sources(["pfllib"])
    assert len(board.accuracy) == 96 and len(fedala.accuracy) == 8  # the file of facts has so many
    assert board.accuracy["FedDBE", "cifar100 dir:0.5"] == (52.58, None)
    assert fedala.accuracy["FedALA", "cifar10 dir:0.1"] == (90.67, None)
    assert "the best round on the test samples" in board.conditions
    assert "third party" in fedala.conditions


@pytest.mark.parametrize(
    "fields, scenario",
    [
        ({"dataset": "fashion_mnist", "partition": "path:2"}, "fashion_mnist path:2"),
        ({"dataset": "npz:x/cifar100-part.npz"}, "cifar100 dir:0.1"),
        ({"dataset": "cifar10", "clients": 100}, ""),
        ({"dataset": "cifar10", "participation": 0.5}, ""),
        ({"dataset": "cifar10", "data_fraction": 0.5}, ""),
        ({"dataset": "digits"}, ""),
    ],
)
def test_which_scenarios_the_leaderboard_has(fields: dict[str, Any], scenario: str):
    assert pfllib.scenario_of(run(**fields).planned.config) == scenario


# A folder of runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    base = {"clients": 3, "rounds": 3, "scenarios": [{"partition": ["dir:0.1", "path:2"]}]}
    one = {**base, "algorithms": ["local", "fedavg"], "proposed": "local"}
    write_sweep(tmp_path, "one", {**one, "report": {"decimals": 1}})
    write_sweep(tmp_path, "two", {**base, "algorithms": ["ditto", "fedavg"], "seeds": [7]})
    return tmp_path


def made(folder: Path, **given: Any) -> dict[str, list[str]]:
    """The rows of the accuracy table of every experiment."""
    build.report(folder, folder / "out", Choice(), only=["tables"], given=build.Given(given))
    found = {}
    for path in sorted((folder / "out").glob("*/accuracy.md")):
        lines = path.read_text().splitlines()[2:]
        found[path.parent.name] = [one.split(" |")[0][2:] for one in lines if one.startswith("| ")]
    return found


def test_every_experiment_of_a_folder_has_its_own_options_and_given_ones_win(folder: Path):
    found = made(folder)
    assert found["one"] == ["FedAvg", "**Local**", "Majority class"]
    assert found["two"] == ["Ditto", "FedAvg", "Majority class"]
    found = made(folder, proposed="fedavg", rows=[])
    assert found == {"one": ["Local", "**FedAvg**"], "two": ["Ditto", "**FedAvg**"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"proposed": "fedavgg"}, "unknown method of this folder 'fedavgg'; did you mean 'fedavg'"),
        ({"methods": ["local", "x"]}, "unknown method of this folder 'x'"),
        ({"scenarios": ["digits iid"]}, "unknown scenario of this folder 'digits iid'"),
        ({"std": "x"}, "std = 'x' in the options of the report"),
    ],
)
def test_a_name_that_no_run_has_is_told_in_one_line(folder: Path, given: Any, message: str):
    with pytest.raises(UserError, match=message):
        made(folder, **given)
