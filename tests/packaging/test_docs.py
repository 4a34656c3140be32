"""Pages that are made from the code, or speak of its numbers, are up to date."""

import inspect
from pathlib import Path

from pflbench.cli import report
from pflbench.methods import page as methods
from pflbench.papers.fedcosr import marks
from pflbench.papers.fedcosr.tables import paper_table
from pflbench.report.render import grid
from pflbench.report.render.marks import MEASURES
from pflbench.report.stats import statistics
from pflbench.report.tables import efficiency

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"": "none", "dagger": "second", "ddagger": "third"}


def test_page_of_methods_is_what_the_plugins_say():
    page = (ROOT / "docs" / "methods.md").read_text()
    assert page == methods.page(), "make it anew: python -m pflbench.methods.page > docs/methods.md"


def marks_section() -> str:
    return (
        (ROOT / "docs" / "paper-notes.md")
        .read_text()
        .partition("## Marks\n")[2]
        .partition("\n## ")[0]
    )


def test_the_marks_in_which_the_paper_errs_are_listed():
    columns = {column.key: column for column in marks.COLUMNS["scalability_heterogeneity"]}
    expected = []
    for one in marks.DIFFERENCES:
        column = columns[one.column]
        where = f"{column.group}, {column.title}".replace("\u03b2", "beta")
        kind = "place" if one.kind == "superscript" else one.kind
        printed, computed = (PLACES.get(mark, mark) for mark in (one.printed, one.computed))
        expected.append(
            f"| {where} | {one.method} | {one.measure} | {kind} | {printed} | {computed} | {one.reason} |"
        )
    rows = [line for line in marks_section().splitlines() if line.startswith("| ")][1:]
    assert rows == expected, "\n".join(expected)
    cells = {(one.column, one.method, one.measure) for one in marks.DIFFERENCES}
    assert f"{len(expected)} marks in {len(cells)} cells" in marks_section()


def test_how_many_of_the_papers_averages_err_and_by_how_much():
    distances = []
    for name in marks.COLUMNS:
        averages = marks.published(name).averages
        for line in paper_table("accuracy"):
            if line["table"] == name and line["method"] == "Averaged":
                key = "/".join(
                    line[part] for part in ("setting", "dataset", "heterogeneity", "clients")
                )
                found = [
                    (float(averages[key, measure] or 0), float(line[measure]))
                    for measure in MEASURES
                ]
                distances += [
                    (abs(printed - mean), f"{mean:.2f}" != f"{printed:.2f}")
                    for mean, printed in found
                ]
    err = [distance for distance, differs in distances if differs]
    assert f"{len(err)} of its {len(distances)} averages" in marks_section()
    assert "less than 0.08" in marks_section() and 0.07 < max(err) < 0.08


def test_the_page_on_reports_has_every_option_and_the_numbers_of_the_code():
    page = " ".join((ROOT / "docs" / "report.md").read_text().split())
    names = {*inspect.signature(report.report).parameters} - {"folder", "as_json"} | {"json"}
    assert not [name for name in names if f"`--{name}" not in page]
    for said in (
        f"fewer than {statistics.blocks_needed(0.05)} common settings",
        f"with 21 other methods from {statistics.blocks_needed(0.05, 21)} settings on",
        f"fewer than {statistics.SEEDS_NEEDED} seeds",
        f"{statistics.RESAMPLES:,} resamples",
        f"the i-th and the {efficiency.WINDOW - 1} before it",
        f"fewer than {2 * efficiency.WINDOW} evaluated rounds",
        f"more than {grid.LINES} rows",
    ):
        assert said in page, said
