"""The examples, and the tutorial that walks through them: three methods of a researcher's own, a
network, an experiment, a sweep, and the tables and figures of a paper.
"""

import contextlib
import csv
import re
import shutil
from pathlib import Path

import pytest
import torch

import pflbench
from pflbench import testing
from pflbench.testing import equal, network, personal, played, toy
from tests.factories.latex import compile_latex, needs_latex
from tests.factories.markdown import ROOT, walk

from .commands import done

EXAMPLES = ROOT / "examples"
NETWORKS = sorted(path.stem for path in (EXAMPLES / "networks").glob("*.py"))
METHODS = sorted(path.stem for path in (EXAMPLES / "methods").glob("*.py"))
TITLES = ["Local", "FedAvg", "SmallZ", "ServerMomentum", "MixedHead (ours)"]  # as in the file
SCENARIOS = ["Dir(0.1)", "Dir(0.3)", "Dir(1)", "2 classes", "3 classes", "5 classes"]
ONE_SCENARIO = ["--scenario", "digits dir:0.1"]
# The text of ICML's template: two columns of 3.25 in.
PAPER = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs,graphicx%s}
\setlength{\textwidth}{6.75in}
\setlength{\columnsep}{0.25in}
\begin{document}
\input{accuracy} See Table~\ref{tab:skew} and Figure~\ref{fig:curves}.
\begin{%s}\includegraphics{curves}\caption{Curves.}\label{fig:curves}\end{%s}
\end{document}
"""


def report(desk: Path, out: str, *words: str) -> Path:
    """The folder of a report of the experiment."""
    done("report", str(desk / "results/mine"), "--out", str(desk / out), *words)
    return desk / out / "mine"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples, when all that the tutorial says is done."""
    folder = tmp_path_factory.mktemp("desk") / "examples"
    shutil.copytree(EXAMPLES, folder)
    with contextlib.chdir(folder):
        walk(ROOT / "docs" / "tutorial.md")
    return folder


@pytest.fixture(scope="module")
def plain(desk: Path) -> Path:
    """The tables as the experiment asks for them."""
    return desk / "results/mine/report/mine"


@pytest.fixture(scope="module")
def marked(desk: Path) -> Path:
    """The same in the FedCoSR paper's style."""
    style = ["--style", "fedcosr", "--std", "clients"]
    return report(desk, "marked", "--only", "tables", *style)


@pytest.fixture(scope="module")
def narrow(desk: Path) -> Path:
    """The figures of a scenario, as wide as the experiment asks for."""
    return report(desk, "narrow", "--only", "figures", *ONE_SCENARIO)


@pytest.fixture(scope="module")
def wide(desk: Path) -> Path:
    """The same figures in two columns."""
    size = ["--figure-size", "two-column"]
    return report(desk, "wide", "--only", "figures", *ONE_SCENARIO, *size)


def rows(file: Path) -> list[list[str]]:
    """The rows of a table in Markdown, without its head."""
    lines = file.read_text(encoding="utf-8").splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return cells[2:]


@pytest.mark.parametrize(
    ("method", "off"), [("small_z", "mu"), ("mixed_head", "alpha"), ("server_momentum", "beta")]
)
def test_every_method_is_fedavg_if_its_idea_is_switched_off(method: str, off: str):
    without = played(toy(str(EXAMPLES / "methods" / f"{method}.py"), {off: 0.0}))
    fedavg = played(toy("fedavg"))
    assert list(personal(without)) == list(personal(fedavg))
    if method == "server_momentum":  # theta + (mean - theta) is the mean up to rounding
        for name, p in personal(fedavg).items():
            torch.testing.assert_close(personal(without)[name], p)
    else:
        assert equal(personal(without), personal(fedavg))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_passes_the_checks(method: str):
    results = list(testing.checks(str(EXAMPLES / "methods" / f"{method}.py")))
    assert len(results) == len(testing.names())
    assert [result for result in results if not result.passed or result.expected_failure] == []
    assert f"\n{len(results)} ok\n" in (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_passes_the_checks_and_learns(name: str, tmp_path: Path):
    path = str(EXAMPLES / "networks" / f"{name}.py")
    assert [result for result in network.checks(path) if not result.passed] == []
    run = pflbench.run(
        "fedavg",
        hparams={"lr": 0.03},
        out=tmp_path,
        model=path,
        partition="iid",
        clients=5,
        max_samples=200,
        rounds=6,
    )
    assert run.rounds["pre"].iloc[-1] > run.rounds["pre"].iloc[0] + 0.4


def test_every_method_learns(plain: Path):
    with (plain / "accuracy.csv").open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["accuracy"]]
    accuracies: dict[str, list[float]] = {}
    for line in lines:
        accuracies.setdefault(line["method"], []).append(float(line["accuracy"]))
    means = {method: sum(found) / len(found) for method, found in accuracies.items()}
    assert min(means[title] for title in TITLES) > means["Majority class"] + 15


def test_the_table_is_the_researchers_own(plain: Path):
    table = rows(plain / "accuracy.md")
    assert [row[0] for row in table] == [*TITLES[:-1], f"**{TITLES[-1]}**", "Majority class"]
    for column in range(1, 1 + len(SCENARIOS)):
        numbers = [float(re.sub("[^0-9.]", "", row[column].split(" \u00b1 ")[0])) for row in table]
        bold = [number for number, row in zip(numbers, table, strict=True) if "**" in row[column]]
        assert set(bold) == {max(numbers[:-1])}
    text = (plain / "accuracy.tex").read_text(encoding="utf-8")
    assert r"\caption{Personalization under label skew, handwritten digits. Accuracy (\%)" in text
    assert r"\label{tab:skew}" in text
    assert all(f"{{{scenario}}}" in text for scenario in SCENARIOS)
    assert "mean and std over 2 seeds" in text and "mixed\\_head" not in text


def test_all_tests_are_against_the_proposed_method(plain: Path):
    tests = plain / "tests.md"
    assert [row[0] for row in rows(tests)] == TITLES[:-1]
    assert {row[1] for row in rows(tests)} == {str(len(SCENARIOS))}
    assert (
        "MixedHead (ours) against every other method: exact two-sided Wilcoxon" in tests.read_text()
    )


def test_the_hyperparameters_are_those_that_were_used(plain: Path):
    text = (plain / "hyperparameters.md").read_text()
    assert r"lr 0.05\* (default 0.003, 0.01), batch\_size 10\* (default 16)" in text
    assert ["MixedHead (ours)", "alpha", "0.5"] in rows(plain / "hyperparameters.md")


@needs_latex
@pytest.mark.parametrize(
    ("style", "size", "packages", "place"),
    [("plain", "narrow", "", "figure"), ("marked", "wide", ",xcolor", "figure*")],
)
def test_tables_and_figures_can_be_put_into_a_paper(
    style: str,
    size: str,
    packages: str,
    place: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
):
    tables, figures = request.getfixturevalue(style), request.getfixturevalue(size)
    shutil.copy(tables / "accuracy.tex", tmp_path)
    shutil.copy(figures / "curves.pdf", tmp_path)
    said = compile_latex(PAPER % (packages, place, place), tmp_path)
    assert "Output written on paper.pdf" in said and "Overfull" not in said
    page = (tables / "accuracy-page.tex").read_text(encoding="utf-8")
    said = compile_latex(page, tmp_path)
    assert "Output written on paper.pdf (1 page" in said and "Overfull" not in said


@pytest.mark.parametrize(("size", "width"), [("narrow", 3.25), ("wide", 6.75)])  # of ICML
def test_figures_have_the_width_of_one_or_two_columns(
    size: str, width: float, request: pytest.FixtureRequest
):
    figures: Path = request.getfixturevalue(size)
    widths = set()
    for path in figures.glob("*.pdf"):
        box = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ", path.read_bytes())
        assert box, path
        widths.add(round(float(box[1]) / 72, 2))
    assert widths == {width}
