"""Comparison with published results, for scenarios that someone published accuracies of."""

import dataclasses
from collections.abc import Mapping

import pandas as pd

from pflbench.methods.files import plain
from pflbench.papers.paper import Pair, Paper
from pflbench.papers.published import Published, sources
from pflbench.report.grouping import selection
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.layout import Layout, seeds
from pflbench.report.load.runs import Choice, chosen_again
from pflbench.report.render.grid import Head, Value, grid, label_of, without_empty
from pflbench.report.render.marks import Row
from pflbench.report.render.parts import TablePart
from pflbench.report.stats.frames import Refusal
from pflbench.report.stats.ranks import agreement
from pflbench.report.tables import efficiency
from pflbench.report.tables.accuracy import cell
from pflbench.report.tables.captions import how, over_seeds, scale
from pflbench.report.tables.notes import below_tables, title_of

Made = tuple[list[TablePart], list[str]]
Places = Mapping[Heading, Mapping[Row, Pair]]
AS_THERE = (
    " Measured as there: the same runs in the round that is best on the test samples, clients"
    " weighted by their test samples."
)


def tables(layout: Layout, choice: Choice, margin: float = 0.01) -> Made:
    """For every source: accuracies cell by cell and how far the orders of methods agree; of a paper
    also costs. What no run can be compared with is a note.
    """
    parts: list[TablePart] = []
    notes: list[str] = []
    shown = 0
    for source in sources(layout.options.published):
        places = _places(layout, source)
        if not places:
            lack = "none of its methods and scenarios is among the runs"
            notes.append(f"No comparison with {source.source}: {lack}.")
            continue
        shown += 1
        ending = "" if shown == 1 else f"-{shown}"
        there = _as_there(layout, choice, source)
        orders, more = _orders(*(there or (layout, choice)), source, places, ending)
        parts += [_accuracies(layout, choice, source, places, ending, there), *orders]
        if source.paper:
            parts += [*_costs(layout, source.paper, margin), _classification(layout, source.paper)]
        notes += more
    return parts, notes


def _as_there(layout: Layout, choice: Choice, source: Published) -> tuple[Layout, Choice] | None:
    """The experiment with its numbers as the source takes its own; None where that is as they are."""
    if not source.best_round_weighted or (choice.round == "best" and choice.weighted):
        return None
    there = dataclasses.replace(choice, round="best", weighted=True)
    cells = {
        place: tuple(chosen_again(run, there) for run in runs)
        for place, runs in layout.cells.items()
    }
    return dataclasses.replace(layout, cells=cells), there


def _places(layout: Layout, source: Published) -> dict[Heading, dict[Row, Pair]]:
    """What the source says of the methods in every scenario of the experiment that it has."""
    found: dict[Heading, dict[Row, Pair]] = {}
    for column in layout.columns:
        scenario = _scenario(layout, column, source)
        said = {method: pair for (method, one), pair in source.accuracy.items() if one == scenario}
        rows = {row: pair for row in layout.rows if (pair := _said(layout, row, said))}
        if rows:
            found[column] = rows
    return found


def _scenario(layout: Layout, column: Heading, source: Published) -> str:
    """The source's name of a scenario; "" if it has none."""
    runs = layout.column(column.key)
    if source.scenario_of:
        return source.scenario_of(runs[0].planned.config)
    names = [*selection.scenario_names(column.key, runs), column.line, column.title]
    known = {plain(scenario): scenario for _, scenario in source.accuracy}
    return next((known[plain(name)] for name in names if plain(name) in known), "")


def _said(layout: Layout, row: Row, said: Mapping[str, Pair]) -> Pair | None:
    """What is published of a row: a method without variants, or its only variant."""
    if row.variant and [other.method for other in layout.rows].count(row.method) > 1:
        return None
    runs = [run for (other, _), found in layout.cells.items() if other == row for run in found]
    names = {plain(row.method), *selection.method_names(runs[0])}
    return next((pair for method, pair in said.items() if plain(method) in names), None)


def _accuracies(
    layout: Layout,
    choice: Choice,
    source: Published,
    places: Places,
    ending: str,
    there: tuple[Layout, Choice] | None,
) -> TablePart:
    options = layout.options
    rows: list[list[Value]] = []
    for column, said in places.items():
        for row, (accuracy, std) in said.items():
            runs = layout.cell(row, column.key)
            if not runs:
                continue
            measured = cell(runs, choice, options.std)
            ours = measured.value("accuracy")
            shown: list[Value] = [measured.state if ours is None else ours]
            if there:
                again, chosen = there
                ours = cell(again.cell(row, column.key), chosen, options.std).value("accuracy")
                shown.append(ours)
            difference = None if ours is None or accuracy is None else ours - accuracy
            first = [column.line, title_of(row, runs), seeds(runs)]
            rows.append([*first, *shown, accuracy, difference, measured.value("std"), std])
    digits = f".{options.decimals}f"
    heads = [Head("Scenario"), Head("Method"), Head("Seeds"), Head("Measured (%)", digits)]
    heads += [Head("Measured as there (%)", digits)] if there else []
    heads += [Head("Published (%)", ".2f"), Head("Difference", f"+{digits}")]
    heads += [Head("Measured std", digits), Head("Published std", ".2f")]
    if source.std not in ("", options.std):
        heads, rows = heads[:-2], [row[:-2] for row in rows]
    heads, rows = without_empty(heads, rows, ["Measured std", "Published std"])
    of = f"{source.source}'s" if source.paper else f"that of {source.source}"
    of += f" ({source.seeds})" if source.seeds else ""
    compared = "measured as there" if there else "measured"
    caption = (
        f"Comparison with published results: measured accuracy (%) over {over_seeds(layout)}, and"
        f" {of}, which is not measured here.{AS_THERE if there else ''} Differences in percentage"
        f" points, {compared} minus published. {how(layout, choice)} {source.conditions}"
    )
    name, title = f"published{ending}", "Comparison with published results"
    label = label_of(layout.plan.name, name)
    return grid(name, title, caption, heads, rows, label, below_tables(layout))


def _orders(layout: Layout, choice: Choice, source: Published, places: Places, ending: str) -> Made:
    """Kendall's tau of the measured and the published order of methods, in every scenario."""
    rows: list[list[Value]] = []
    notes = []
    for column, said in places.items():
        ours = {
            row.title: cell(layout.cell(row, column.key), choice, "clients").value("accuracy")
            for row in said
        }
        measured = pd.Series(ours, dtype=float)
        published = pd.Series({row.title: pair[0] for row, pair in said.items()}, dtype=float)
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
        f"Agreement of the measured order of methods by accuracy with that of {source.source}:"
        f" Kendall's tau-b (1: the same order, 0: unrelated). {how(layout, choice)}"
    )
    name, title = f"published-order{ending}", "Agreement with the published order"
    label = label_of(layout.plan.name, name)
    return [grid(name, title, caption, heads, rows, label, below_tables(layout))], notes


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
