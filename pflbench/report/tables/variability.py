"""Variability across seeds."""

from pflbench.report.grouping.layout import (
    Layout,
    accuracy,
    client_std,
    counted,
    run_frame,
    seed_std,
    seeds,
    state,
)
from pflbench.report.load.runs import Choice
from pflbench.report.render.grid import Head, Value, grid, label_of, without_empty
from pflbench.report.render.parts import TablePart
from pflbench.report.stats import intervals
from pflbench.report.tables.captions import how
from pflbench.report.tables.notes import below_tables, title_of

NUMBERS = ("Accuracy (%)", "Std over clients", "Std over seeds", "Low", "High")
INTERVAL = (
    " Low and high are a 95 % percentile bootstrap interval of the mean over seeds, too narrow for"
    " few seeds."
)


def tables(layout: Layout, choice: Choice) -> tuple[list[TablePart], list[str]]:
    """Mean, std over clients and over seeds, and bootstrap interval of every method in every
    scenario.
    """
    found = intervals.intervals(run_frame(layout, choice)).set_index(["method", "scenario"])
    rows: list[list[Value]] = []
    for column, row, runs in layout.places():
        values = [accuracy(run, choice) for run in counted(runs)]
        line: list[Value] = [column.line, title_of(row, runs), seeds(runs)]
        if values:
            of = found.loc[(row.title, column.key)]
            spread = sum(client_std(run) for run in counted(runs)) / len(values)
            line += [float(of["mean"]), spread, seed_std(values)]
            line += [float(of["low"]), float(of["high"])]
        else:
            line += [state(runs), *[None] * (len(NUMBERS) - 1)]
        rows.append(line)
    digits = f".{layout.options.decimals}f"
    heads = [Head("Scenario"), Head("Method"), Head("Seeds")]
    heads += [Head(name, digits) for name in NUMBERS]
    heads, rows = without_empty(heads, rows, NUMBERS[2:])
    caption = (
        "Variability across seeds. Accuracy (%): mean over seeds; std over clients, mean over"
        " seeds; std over seeds (of a sample)."
        f"{INTERVAL if found['low'].notna().any() else ''} {how(layout, choice)}"
    )
    name = "variability"
    label = label_of(layout.plan.name, name)
    title = "Variability across seeds"
    part = grid(name, title, caption, heads, rows, label, below_tables(layout))
    reasons = [str(reason) for reason in found["reason"].unique() if reason]
    return [part], [f"No interval for some numbers: {reason}." for reason in reasons]
