"""Measured numbers beside the FedCoSR paper's, for settings that are its own."""

import pandas as pd

from pflbench.papers.fedcosr.marks import SEEDS
from pflbench.papers.fedcosr.tables import paper_table
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.layout import Layout, seeds
from pflbench.report.load.runs import Choice
from pflbench.report.render.grid import Head, Value, grid, label_of
from pflbench.report.render.parts import TablePart
from pflbench.report.stats import statistics
from pflbench.report.tables.accuracy import cell
from pflbench.report.tables.captions import how, over_seeds

Pair = tuple[float | None, float | None]


def published() -> dict[tuple[str, str], Pair]:
    """The paper's accuracy and std (percent) by method and column."""
    found = {}
    for line in paper_table("accuracy"):
        key = "/".join(line[part] for part in ("setting", "dataset", "heterogeneity", "clients"))
        numbers = [float(line[name]) if line[name] else None for name in ("accuracy", "std")]
        found[line["method"], key] = (numbers[0], numbers[1])
    return found


def tables(layout: Layout, choice: Choice) -> tuple[list[TablePart], list[str]]:
    """Numbers cell by cell, and how far the orders of methods agree."""
    papers = published()
    columns = [column for column in layout.columns if column.paper]
    shared = [
        (row.title, column)
        for column in columns
        for row in layout.rows
        if (row.title, column.paper) in papers
    ]
    if not shared:
        return [], []
    parts = [_numbers(layout, choice, papers, shared)]
    orders, notes = _orders(layout, choice, papers, columns)
    return parts + orders, notes


def _numbers(
    layout: Layout,
    choice: Choice,
    papers: dict[tuple[str, str], Pair],
    shared: list[tuple[str, Heading]],
) -> TablePart:
    rows: list[list[Value]] = []
    for method, column in shared:
        if not (runs := layout.cell(method, column.key)):
            continue
        measured, (accuracy, std) = cell(runs, choice), papers[method, column.paper]
        ours = measured.value("accuracy")
        difference = None if ours is None or accuracy is None else ours - accuracy
        shown: Value = measured.state if ours is None else ours
        spread = measured.value("std") if choice.std == "clients" else None
        rows.append([column.line, method, seeds(runs), shown, accuracy, difference, spread, std])
    digits = f".{choice.decimals}f"
    heads = [*map(Head, ("Setting", "Method", "Seeds")), Head("Measured (%)", digits)]
    heads += [Head("The paper's (%)", ".2f"), Head("Difference", f"+{digits}")]
    heads += [Head("Measured std", digits), Head("The paper's std", ".2f")]
    if choice.std == "seeds":  # the paper's is over clients
        heads, rows = heads[:-2], [row[:-2] for row in rows]
    caption = (
        f"Measured accuracy (%) over {over_seeds(layout)}, and the FedCoSR paper's published numbers ({SEEDS} seeds):"
        " the paper's columns are not measured here. Differences in percentage points, measured minus the paper's."
        f" {how(layout, choice)} The paper states neither its number of rounds nor which round it reports; data, scale"
        " and the point of scoring may differ."
    )
    return grid(
        "beside", "Beside the paper", caption, heads, rows, label_of(layout.plan.name, "beside")
    )


def _orders(
    layout: Layout, choice: Choice, papers: dict[tuple[str, str], Pair], columns: list[Heading]
) -> tuple[list[TablePart], list[str]]:
    """Kendall's tau of the two orders of methods, in every setting."""
    rows: list[list[Value]] = []
    notes = []
    for column in columns:
        ours = {
            row.title: cell(layout.cell(row.title, column.key), choice).value("accuracy")
            for row in layout.rows
        }
        theirs = {method: pair[0] for (method, key), pair in papers.items() if key == column.paper}
        measured, paper = (pd.Series(scores, dtype=float) for scores in (ours, theirs))
        found = statistics.agreement(measured, paper)
        if isinstance(found, statistics.Refusal):
            notes.append(f"Order beside the paper's, {column.line}: {found.reason}.")
            continue
        both = measured.dropna().index.intersection(paper.dropna().index)
        first = [str(scores[both].idxmax()) for scores in (measured, paper)]
        rows.append([column.line, float(found.methods), found.tau, found.p, *first])
    if not rows:
        return [], notes
    heads = [
        Head("Setting"),
        Head("Methods in both", ".0f"),
        Head("Kendall's tau", ".3f"),
        Head("p", ".3g"),
    ]
    heads += [Head("First, measured"), Head("First, the paper's")]
    caption = (
        "Agreement of the measured order of methods by accuracy with the FedCoSR paper's published one: Kendall's"
        f" tau-b (1: the same order, 0: unrelated). {how(layout, choice)}"
    )
    return [
        grid(
            "orders",
            "The paper's order",
            caption,
            heads,
            rows,
            label_of(layout.plan.name, "orders"),
        )
    ], notes
