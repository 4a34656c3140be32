"""The marks of tables of accuracies, and a paper's own tables put through them."""

import csv
import io
from itertools import pairwise

import pytest

from pflbench.errors import UserError
from pflbench.papers.fedcosr import misprints
from pflbench.papers.fedcosr.scenarios import TABLES
from pflbench.papers.fedcosr.style import STYLE
from pflbench.papers.fedcosr.tables import column_key as key
from pflbench.papers.fedcosr.tables import paper_table
from pflbench.report.render import text as marks_text
from pflbench.report.render.marks import (
    MEASURES,
    Cell,
    Column,
    Kind,
    Mark,
    Marked,
    Row,
    Table,
    mark,
)
from pflbench.report.render.notation import Notation, Place

FIELDS = ("superscript", "arrow", "sign", "bold", "underlined")
WORDED = Notation(  # what `fields` reads
    places=tuple(
        Place("%s|underlined=yes", f"|superscript={mark}") for mark in ("*", "dagger", "ddagger")
    ),
    better="|arrow=up",
    worse="|arrow=down",
    plus="|sign=+",
    minus="|sign=-",
    fewer="|fewer=yes",
    outdated="|outdated=yes",
    dash="-",
    letter="|letter=%s",
    bold="%s|bold=yes",
    proposed="%s|bold=yes",
)
A, B = Column("a", "A"), Column("b", "B", base="a")


def table(
    numbers: dict[str, tuple[float, float] | Cell], column: Column = A, **kinds: Kind
) -> Table:
    """One column; accuracy and std of each method, of 5 seeds."""
    cells = {
        (title, column.key): cell if isinstance(cell, Cell) else Cell(*cell, "ok", 5)
        for title, cell in numbers.items()
    }
    rows = tuple(Row(title, kind=kinds.get(title, "method")) for title in numbers)
    return Table((column,), rows, cells)


def ranks(marked: Marked, measure: str) -> list[int | None]:
    (column,) = marked.table.columns
    return [marked.mark(row.title, column.key, measure).rank for row in marked.table.rows]  # type: ignore[arg-type]


def fields(marked: Marked, row: Row, column: Column, measure: str) -> dict[str, str]:
    """A rendered cell taken apart; its number is `text`."""
    text, *said = marks_text.cell(marked, row, column, measure, STYLE, WORDED).split("|")  # type: ignore[arg-type]
    return {"text": text, **dict(part.split("=") for part in said)}


def test_the_highest_accuracy_and_the_lowest_std_are_first():
    marked = mark(table({"p": (70, 9), "q": (90, 3), "r": (80, 5), "s": (60, 1)}))
    assert ranks(marked, "accuracy") == [3, 1, 2, 4]
    assert ranks(marked, "std") == [4, 2, 3, 1]


def test_equal_numbers_share_a_place_and_the_next_one_is_left_out():
    marked = mark(table({"p": (90, 1), "q": (80, 1), "r": (80, 2), "s": (70, 3)}))
    assert ranks(marked, "accuracy") == [1, 2, 2, 4]
    assert ranks(marked, "std") == [1, 1, 3, 4]


def test_numbers_are_compared_as_displayed():
    numbers = {"p": (80.004, 1.04), "q": (80.001, 1.01)}
    assert ranks(mark(table(numbers)), "accuracy") == [1, 1]
    assert ranks(mark(table(numbers), decimals=3), "accuracy") == [1, 2]
    assert ranks(mark(table(numbers)), "std") == [2, 1]
    assert ranks(mark(table(numbers), decimals=1), "std") == [1, 1]


def test_the_average_is_that_of_the_displayed_numbers_and_not_rounded():
    marked = mark(table({"p": (80.004, 1), "q": (80.004, 1)}))
    assert marked.means["a", "accuracy"] == 80
    assert marked.mark("p", "a", "accuracy").mean == "equal"
    # 80.0066..., shown as 80.01
    marked = mark(table({"p": (80.01, 1), "q": (80.01, 1), "r": (80.00, 1)}))
    assert [marked.mark(title, "a", "accuracy").mean for title in "pqr"] == [
        "better",
        "better",
        "worse",
    ]


def test_better_than_the_average_is_more_accuracy_and_less_std():
    marked = mark(table({"p": (60, 4), "q": (90, 8), "r": (75, 6)}))
    assert marked.means == {("a", "accuracy"): 75, ("a", "std"): 6}
    assert [marked.mark(title, "a", "accuracy").mean for title in "pqr"] == [
        "worse",
        "better",
        "equal",
    ]
    assert [marked.mark(title, "a", "std").mean for title in "pqr"] == [
        "better",
        "worse",
        "equal",
    ]


@pytest.mark.parametrize("state", ["missing", "failed", "diverged"])
def test_a_method_without_a_number_is_not_ranked_and_not_averaged(state: str):
    lost = Cell(99, 0.1, state, 5)  # type: ignore[arg-type]
    marked = mark(table({"p": (60, 4), "q": lost, "r": (70, 6)}))
    assert ranks(marked, "accuracy") == [2, None, 1]
    assert marked.means == {("a", "accuracy"): 65, ("a", "std"): 5}
    assert marked.mark("q", "a", "accuracy") == Mark()


def test_a_baseline_is_not_ranked_and_not_averaged():
    marked = mark(table({"p": (60, 4), "most": (99, 0.1), "r": (70, 6)}, most="baseline"))
    assert ranks(marked, "accuracy") == [2, None, 1]
    assert marked.means["a", "accuracy"] == 65
    assert marked.mark("most", "a", "std") == Mark()


def test_a_column_without_numbers_has_no_average():
    marked = mark(table({"p": Cell(), "q": Cell(state="failed")}))
    assert marked.means == {("a", "accuracy"): None, ("a", "std"): None}


def test_a_partial_cell_counts_and_one_number_may_be_absent():
    marked = mark(table({"p": Cell(60, None, "partial", 2), "q": (50, 4)}))
    assert ranks(marked, "accuracy") == [1, 2]
    assert ranks(marked, "std") == [None, 1]


def test_against_the_base_setting():
    base = table({"p": (60, 4), "q": (60, 4), "r": (60, 4), "s": Cell(state="failed")})
    here = table({"p": (70, 3), "q": (50, 5), "r": (60.001, 4), "s": (60, 4), "t": (60, 4)}, B)
    marked = mark(here, base=base)
    assert [marked.mark(title, "b", "accuracy").base for title in "pqrst"] == [
        "better",
        "worse",
        "equal",
        "",
        "",
    ]
    assert [marked.mark(title, "b", "std").base for title in "pqrst"] == [
        "better",
        "worse",
        "equal",
        "",
        "",
    ]
    assert {marked.base for marked in mark(here).marks.values()} == {""}


def test_fewer_seeds_are_those_of_a_cell_behind_others():
    cells = table(
        {
            "p": Cell(60, 4, "ok", 3),
            "q": (50, 4),
            "r": Cell(60, 4, "partial", 2),
            "s": Cell(60, 4, "ok", 0),
        }
    )
    assert [cells.fewer(title, "a") for title in "pqrs"] == [True, False, True, False]


@pytest.mark.parametrize("accuracy", [None, float("nan")])
def test_a_cell_that_is_ok_has_an_accuracy(accuracy: float | None):
    with pytest.raises(ValueError, match="needs an accuracy"):
        Cell(accuracy, 1.0, "ok", 5)


@pytest.mark.parametrize("rows", [(), (Row("p"), Row("p"))])
def test_rows_have_names_that_differ(rows: tuple[Row, ...]):
    with pytest.raises(ValueError, match="names that differ"):
        Table((A,), rows, {})


def test_a_cell_shows_place_seeds_base_and_average_in_this_order():
    base = table({"p": (50, 4), "q": (50, 4)})
    cells = {"p": Cell(60, 4, "ok", 3), "q": (50, 4)}
    marked = mark(table(cells, B), base=base)
    shown = marks_text.cell(marked, Row("p"), B, "accuracy", STYLE, STYLE.markdown)
    assert shown == "60.00\\*\u00a7+\u2191"


def long_rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(marks_text.long_csv(misprints.published(name)))))


def test_the_papers_marks_differ_from_the_computed_ones_in_the_listed_cells_only():
    tables = {name: misprints.published(name) for name in TABLES}
    rows = {row.title: row for row in tables["main"].table.rows}
    columns = {(name, c.key): c for name, marked in tables.items() for c in marked.table.columns}
    found, underlines, compared = set(), [], 0
    for line in paper_table("marks"):
        if line["method"] == "Averaged":
            assert [line[field] for field in FIELDS] == ["", "", "", "no", "no"]
            continue
        place = line["table"], key(line)
        ours = fields(tables[line["table"]], rows[line["method"]], columns[place], line["measure"])
        for field in ("superscript", "arrow", "sign"):
            if line[field] != ours.get(field, ""):
                found.add(
                    (
                        *place,
                        line["method"],
                        line["measure"],
                        field,
                        line[field],
                        ours.get(field, ""),
                    )
                )
        assert (line["bold"] == "yes") == ("bold" in ours)
        if (line["underlined"] == "yes") != ("underlined" in ours):
            underlines.append((*place, line["method"]))
        compared += 1
    listed = {
        ("scalability_heterogeneity", d.column, d.method, d.measure, d.kind, d.printed, d.computed)
        for d in misprints.DIFFERENCES
    }
    assert found == listed
    assert compared == 2 * 6 * 2 * 22
    # An underline comes with a superscript: these are where the paper has one too many or too few.
    assert sorted(underlines) == sorted(
        ("scalability_heterogeneity", d.column, d.method)
        for d in misprints.DIFFERENCES
        if d.kind == "superscript" and not (d.printed and d.computed)
    )


def test_the_listed_differences():
    listed = misprints.DIFFERENCES
    assert {
        kind: sum(d.kind == kind for d in listed) for kind in ("superscript", "arrow", "sign")
    } == {
        "superscript": 4,
        "arrow": 2,
        "sign": 14,
    }
    assert len({(d.column, d.method, d.measure) for d in listed}) == 19
    cells = misprints.published("scalability_heterogeneity").table
    for difference in listed:
        value = cells.cell(difference.method, difference.column).value(difference.measure)
        assert f"{value:.2f}" in difference.reason


def test_the_stored_marks_are_of_every_cell_of_the_papers_tables():
    numbers = [(line["table"], line["method"], key(line)) for line in paper_table("accuracy")]
    marks = [
        (line["table"], line["method"], key(line), line["measure"]) for line in paper_table("marks")
    ]
    assert marks == [(*place, measure) for place in numbers for measure in MEASURES]
    for line in paper_table("marks"):
        assert (line["bold"] == "yes") == (line["method"] == "FedCoSR")
        assert (line["underlined"] == "yes") == (line["superscript"] != "" and line["bold"] == "no")
        if line["table"] == "main":
            assert line["sign"] == ""


def test_the_papers_averages_are_nearest_to_those_over_all_methods():
    def distance(*without: str) -> float:
        total = 0.0
        for name in TABLES:
            lines = [
                line
                for line in paper_table("accuracy")
                if line["table"] == name and line["accuracy"]
            ]
            for column in {key(line) for line in lines}:
                for measure in MEASURES:
                    values = {
                        line["method"]: float(line[measure])
                        for line in lines
                        if key(line) == column
                    }
                    printed = values.pop("Averaged")
                    kept = [value for title, value in values.items() if title not in without]
                    total += abs(printed - sum(kept) / len(kept))
        return total / 24

    all_methods = distance()
    assert all_methods < 0.04
    assert all(
        distance(*without) > 5 * all_methods
        for without in [("Local",), ("FedCoSR",), ("Local", "FedCoSR")]
    )


def test_the_papers_tables_in_long_form():
    lines = {
        (line["scenario"], line["method"]): line for line in long_rows("scalability_heterogeneity")
    }
    assert len(lines) == 6 * 23
    fedavg = lines["practical/cifar10/beta=0.1/100", "FedAvg"]
    assert [fedavg[name] for name in ("accuracy", "std", "accuracy_rank", "std_rank")] == [
        "57.86",
        "10.34",
        "22",
        "2",
    ]
    assert [fedavg["accuracy_against_mean"], fedavg["std_against_mean"]] == [
        "worse",
        "better",
    ]
    assert [fedavg["accuracy_against_base"], fedavg["std_against_base"]] == ["worse", "better"]
    assert [fedavg["seeds"], fedavg["state"], fedavg["kind"]] == ["5", "ok", "method"]
    lost = lines["practical/cifar10/beta=0.01/20", "FedPAC"]
    assert [lost["accuracy"], lost["accuracy_rank"], lost["state"]] == ["", "", "failed"]
    average = lines["practical/cifar10/beta=0.01/20", "Mean"]
    assert f"{float(average['accuracy']):.2f}" == "90.12"  # as printed: over the 21 others
    assert average["kind"] == "mean"


def test_methods_are_grouped_as_by_the_papers_rules():
    rows = misprints.published("main").table.rows
    starts = [after.title for before, after in pairwise(rows) if before.group != after.group]
    assert starts == [
        "FedAvg",
        "FedRCL",
        "pFedMe",
        "PerFedAvg",
        "FedRep",
        "FedAMP",
        "FedProto",
        "FedCoSR",
    ]
    assert [row.title for row in rows if row.kind == "proposed"] == ["FedCoSR"]


def test_a_table_that_the_paper_does_not_have():
    with pytest.raises(
        UserError, match=r"unknown table of the paper 'mian'; did you mean 'main'\?"
    ):
        misprints.published("mian")


def test_markdown():
    rows = (Row("p|q"), Row("FedX", kind="proposed"), Row("Majority class", kind="baseline"))
    cells = {
        ("p|q", "a"): Cell(60, 4, "ok", 5),
        ("FedX", "a"): Cell(70, 5, "ok", 3),
        ("Majority class", "a"): Cell(30, None, "ok"),
    }
    column = Column("a", "my_data", "beta=0.1")
    marked = mark(Table((column,), rows, cells), 1)
    lines = marks_text.markdown(marked, STYLE, "Of\n<b>.").splitlines()
    assert lines[:6] == [
        "| Method | beta=0.1: my\\_data |",
        "| --- | --- |",
        "| p\\|q | 60.0\u2020\u2193 \u00b1 4.0\\*\u2191 |",
        "| **FedX** | **70.0**\\*\u00a7\u2191 \u00b1 **5.0**\u2020\u2193 |",
        "| **Mean** | 65.0 \u00b1 4.5 |",
        "| Majority class | 30.0 \u00b1 \u2013 |",
    ]
    assert lines[7].startswith("Of \\<b\\>. \\* \u2020 \u2021: first")
    assert lines[7].endswith("\u2013: not available. \u00a7: over fewer seeds (3) than others (5).")
