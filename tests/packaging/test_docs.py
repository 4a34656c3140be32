"""Pages made from the code, or about its numbers, are up to date; only its folder knows a paper."""

import inspect
from pathlib import Path

import pytest

from pflbench.cli import report
from pflbench.methods import files, sets
from pflbench.methods import page as methods
from pflbench.papers import papers
from pflbench.papers.fedcosr import misprints
from pflbench.papers.fedcosr.scenarios import TABLES
from pflbench.papers.fedcosr.tables import column_key, paper_table
from pflbench.report.render import grid
from pflbench.report.render.marks import MEASURES
from pflbench.report.stats import intervals, significance
from pflbench.report.tables import efficiency

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"": "none", "dagger": "second", "ddagger": "third"}


def test_page_of_methods_is_what_the_plugins_say():
    page = (ROOT / "docs" / "methods.md").read_text()
    assert page == methods.page(), (
        "make it again: python -m pflbench.methods.page > docs/methods.md"
    )


def test_table_of_methods_in_the_readme_is_what_the_plugins_say():
    assert methods.by_family() in (ROOT / "README.md").read_text(), methods.by_family()


def marks_section() -> str:
    page = (ROOT / "docs" / "paper-notes.md").read_text()
    return page.partition("## Marks\n")[2].partition("\n## ")[0]


def test_the_marks_in_which_the_paper_errs_are_listed():
    columns = {column.key: column for column in TABLES["scalability_heterogeneity"]}
    expected = []
    for one in misprints.DIFFERENCES:
        column = columns[one.column]
        where = f"{column.group}, {column.title}".replace("\u03b2", "beta")
        kind = "rank" if one.kind == "superscript" else one.kind
        printed, computed = (PLACES.get(mark, mark) for mark in (one.printed, one.computed))
        cells = (where, one.method, one.measure, kind, printed, computed, one.reason)
        expected.append(f"| {' | '.join(cells)} |")
    rows = [line for line in marks_section().splitlines() if line.startswith("| ")][1:]
    assert rows == expected, "\n".join(expected)
    cells = {(one.column, one.method, one.measure) for one in misprints.DIFFERENCES}
    assert f"{len(expected)} marks in {len(cells)} cells" in marks_section()


def test_how_many_of_the_papers_averages_err_and_by_how_much():
    distances = []
    for name in TABLES:
        means = misprints.published(name).means
        for line in paper_table("accuracy"):
            if line["table"] == name and line["method"] == "Averaged":
                for measure in MEASURES:
                    mean = float(means[column_key(line), measure] or 0)
                    printed = float(line[measure])
                    distances.append((abs(printed - mean), f"{mean:.2f}" != f"{printed:.2f}"))
    err = [distance for distance, differs in distances if differs]
    assert f"{len(err)} of its {len(distances)} averages" in marks_section()
    assert "less than 0.08" in marks_section() and 0.07 < max(err) < 0.08


def test_the_page_on_reports_has_every_option_and_the_numbers_of_the_code():
    page = " ".join((ROOT / "docs" / "report.md").read_text().split())
    parameters = {*inspect.signature(report.report).parameters} - {"ctx", "folder"}
    called = {"as_json": "json", "options_file": "options"}
    names = [called.get(name, name).replace("_", "-") for name in parameters]
    assert not [name for name in names if f"`--{name}" not in page]
    for said in (
        f"fewer than {significance.blocks_needed(0.05)} common scenarios",
        f"with 21 other methods from {significance.blocks_needed(0.05, 21)} scenarios on",
        f"fewer than {intervals.SEEDS_NEEDED} seeds",
        f"{intervals.RESAMPLES:,} resamples",
        f"the i-th and the {efficiency.WINDOW - 1} before it",
        f"fewer than {2 * efficiency.WINDOW} evaluated rounds",
        f"more than {grid.LINES} rows",
    ):
        assert said in page, said


# Nothing outside a paper's folder knows the paper: its tables and figures are drawn by general code,
# and its method is one of many. Experiments that reproduce it name it, and lists of methods do.
KNOWS = ("pflbench/papers/", "algorithms/fedcosr.py", "pflbench/methods/revisions.json")
SEARCHED = ("pflbench", "algorithms", "datasets", "experiments")


def mentions(name: str) -> dict[str, list[str]]:
    """Lines by file that have this name in any case."""
    found: dict[str, list[str]] = {}
    for folder in SEARCHED:
        for path in sorted((ROOT / folder).rglob("*")):
            where = path.relative_to(ROOT).as_posix()
            if not path.is_file() or path.suffix == ".pyc" or where.startswith(KNOWS):
                continue
            lines = path.read_text(encoding="utf-8").splitlines()
            if hits := [line.strip() for line in lines if name in line.lower()]:
                found[where] = hits
    return found


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.name)
def test_only_the_folder_of_a_paper_knows_it(paper):
    name = paper.name.lower()
    found = mentions(name)
    experiments = {file for file in found if reproduces(file, paper.name)}
    assert experiments  # else the rule for them is out of date
    assert {file: lines for file, lines in found.items() if file not in experiments} == {}


def reproduces(file: str, paper: str) -> bool:
    """Whether it is an experiment of the paper, by its title, or one that lists its method with
    others, by name or as a set, sets or tunes its hyperparameters or compares with what it published.
    """
    if not file.startswith("experiments/"):
        return False
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    title = next((line for line in lines if line.startswith("title")), "")
    others = [line for line in lines if paper.lower() in line.lower() and line != title]
    return f"the {paper} paper" in title or all(is_list(line) for line in others)


def is_list(line: str) -> bool:
    names = files.shipped()
    if line.startswith("algorithms = ") and any(f'"{name}"' in line for name in sets.names()):
        return True
    return (
        line.startswith(("[methods.", "published = ", "#   pflbench "))
        or sum(f'"{name}"' in line for name in names) > 1
    )


def test_a_mention_would_be_found():
    assert mentions("fedavg")
