"""Comparison with published results, for scenarios that a paper has too."""

from collections.abc import Sequence

import pandas as pd

from pflbench.papers import papers
from pflbench.papers.paper import Paper
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.layout import Layout, seeds
from pflbench.report.load.runs import Choice
from pflbench.report.render.grid import Head, Value, grid, label_of
from pflbench.report.render.parts import TablePart
from pflbench.report.stats.frames import Refusal
from pflbench.report.stats.ranks import agreement
from pflbench.report.tables import efficiency
from pflbench.report.tables.accuracy import cell
from pflbench.report.tables.captions import how, over_seeds, scale
from pflbench.report.tables.notes import below_tables, title_of

Made = tuple[list[TablePart], list[str]]


def tables(layout: Layout, choice: Choice, margin: float = 0.01) -> Made:
    """Accuracies cell by cell, how far the orders of methods agree, and costs."""
    parts: list[TablePart] = []
    notes: list[str] = []
    for paper in papers():
        columns = [column for column in layout.columns if column.paper == paper.name]
        places = [(row.title, column.column) for row in layout.rows for column in columns]
        if not any(place in paper.accuracy for place in places):
            continue
        orders, more = _orders(layout, choice, paper, columns)
        parts += [_accuracies(layout, choice, paper, columns), *orders]
        parts += [*_costs(layout, paper, margin), _classification(layout, paper)]
        notes += more
    return parts, notes


def _accuracies(
    layout: Layout, choice: Choice, paper: Paper, columns: Sequence[Heading]
) -> TablePart:
    rows: list[list[Value]] = []
    for column in columns:
        for row in layout.rows:
            runs, key = layout.cell(row, column.key), (row.title, column.column)
            if not runs or key not in paper.accuracy:
                continue
            measured, (accuracy, std) = cell(runs, choice), paper.accuracy[key]
            ours = measured.value("accuracy")
            difference = None if ours is None or accuracy is None else ours - accuracy
            shown: Value = measured.state if ours is None else ours
            first = [column.line, title_of(row, runs), seeds(runs)]
            rows.append([*first, shown, accuracy, difference, measured.value("std"), std])
    digits = f".{choice.decimals}f"
    heads = [Head("Scenario"), Head("Method"), Head("Seeds"), Head("Measured (%)", digits)]
    heads += [Head("Published (%)", ".2f"), Head("Difference", f"+{digits}")]
    heads += [Head("Measured std", digits), Head("Published std", ".2f")]
    if choice.std == "seeds":  # published std are over clients
        heads, rows = heads[:-2], [row[:-2] for row in rows]
    caption = (
        f"Comparison with published results: measured accuracy (%) over {over_seeds(layout)}, and"
        f" the {paper.name} paper's ({paper.seeds} seeds), which is not measured here. Differences"
        f" in percentage points, measured minus published. {how(layout, choice)} The paper states"
        " neither its number of rounds nor which round it reports; data, scale and evaluation point"
        " may differ."
    )
    name, title = "published", "Comparison with published results"
    label = label_of(layout.plan.name, name)
    return grid(name, title, caption, heads, rows, label, below_tables(layout))


def _orders(layout: Layout, choice: Choice, paper: Paper, columns: Sequence[Heading]) -> Made:
    """Kendall's tau of the measured and the published order of methods, in every scenario."""
    rows: list[list[Value]] = []
    notes = []
    for column in columns:
        measured = pd.Series(_measured(layout, choice, column), dtype=float)
        keys = [key for key in paper.accuracy if key[1] == column.column]
        published = pd.Series({key[0]: paper.accuracy[key][0] for key in keys}, dtype=float)
        found = agreement(measured, published)
        if isinstance(found, Refusal):
            notes.append(f"Agreement with the published order, {column.line}: {found.reason}.")
            continue
        both = measured.dropna().index.intersection(published.dropna().index)
        first = [str(scores[both].idxmax()) for scores in (measured, published)]
        rows.append([column.line, float(found.methods), found.tau, found.p, *first])
    if not rows:
        return [], notes
    heads = [Head("Scenario"), Head("Methods in both", ".0f"), Head("Kendall's tau", ".3f")]
    heads += [Head("p", ".3g"), Head("First, measured"), Head("First, published")]
    caption = (
        f"Agreement of the measured order of methods by accuracy with that of the {paper.name}"
        f" paper: Kendall's tau-b (1: the same order, 0: unrelated). {how(layout, choice)}"
    )
    name, title = "published-order", "Agreement with the published order"
    label = label_of(layout.plan.name, name)
    return [grid(name, title, caption, heads, rows, label, below_tables(layout))], notes


def _measured(layout: Layout, choice: Choice, column: Heading) -> dict[str, float | None]:
    return {
        row.title: cell(layout.cell(row, column.key), choice).value("accuracy")
        for row in layout.rows
    }


def _costs(layout: Layout, paper: Paper, margin: float) -> list[TablePart]:
    """Rounds, seconds and formulas of the methods that the paper has."""
    costs = efficiency.per_scenario(efficiency.measured(layout, margin))
    rows: list[list[Value]] = []
    for row, found in efficiency.by_method(layout, costs):
        if row.title not in paper.costs or found.empty:
            continue
        said = paper.costs[row.title]
        rounds = efficiency.rounds_text(row, layout, found)
        numbers: list[Value] = [rounds, said.rounds, float(found["wall"].mean()), said.seconds]
        formulas = efficiency.formulas(layout, row)
        rows.append([row.title, *numbers, *formulas, said.communication, said.note])
    if not rows:
        return []
    heads = [Head("Method"), Head(efficiency.ROUNDS, ".1f"), Head("Published rounds", ".2f")]
    heads += [Head("s per round", ".3f"), Head("Published s per round", ".2f")]
    heads += [Head("Formula, down"), Head("Formula, up"), Head("Published, both")]
    heads.append(Head("Why they differ", width=0.25))
    caption = (
        f"Comparison with the costs that the {paper.name} paper states: {paper.cost_conditions}, on"
        " its own machine and with its own rule of convergence, not measured here. Measured costs"
        f" are means over scenarios and {over_seeds(layout)}. {scale(layout)} {efficiency.SYMBOLS}"
        " Omega are prototypes."
    )
    name, title = "published-costs", "Comparison with published costs"
    label = label_of(layout.plan.name, name)
    return [grid(name, title, caption, heads, rows, label, below_tables(layout))]


def _classification(layout: Layout, paper: Paper) -> TablePart:
    """How the paper classifies the methods."""
    shown = {row.method for row in layout.rows}
    lines = [line for line in paper.classification if line["method"] in shown]
    heads = [Head(name.replace("_", " ").capitalize()) for name in lines[0]]
    caption = f"The methods as the {paper.name} paper classifies them."
    name, title = "published-methods", "Published classification of the methods"
    rows: list[list[Value]] = [list(line.values()) for line in lines]
    return grid(name, title, caption, heads, rows, label_of(layout.plan.name, name))
