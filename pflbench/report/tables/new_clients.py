"""Seen and new clients: what a method is worth to a client that never took part."""

import numpy as np

from pflbench.config import Run
from pflbench.report.grouping.headings import value
from pflbench.report.grouping.layout import Layout, accuracy, counted, seeds, state
from pflbench.report.load.runs import Choice, Numbers
from pflbench.report.render.grid import Head, Value, grid, label_of, without_empty
from pflbench.report.render.parts import TablePart
from pflbench.report.tables.captions import how
from pflbench.report.tables.notes import below_tables, title_of

CAPTION = (
    "Accuracy (%) of seen clients, and of new ones, which never took part: without training (pre),"
    " and after local epochs, of which nothing is sent or kept. Means over clients and seeds."
)


def tables(layout: Layout, choice: Choice) -> tuple[list[TablePart], list[str]]:
    """A row for every method in every scenario, if runs have new clients."""
    passes = _passes(layout)
    if not passes:
        return [], []
    series = ["new_pre", *(f"new_{epochs}" for epochs in passes)]
    titles = ["New, pre (%)", *(f"New, {epochs} epochs (%)" for epochs in passes)]
    titles = [title.replace(" 1 epochs", " 1 epoch") for title in titles]
    rows: list[list[Value]] = []
    for column, row, runs in layout.places():
        line: list[Value] = [column.line, title_of(row, runs), seeds(runs)]
        found = counted(runs)
        if found:
            line.append(sum(accuracy(run, choice) for run in found) / len(found))
            line += [_mean(found, name) for name in series]
        else:
            line += [state(runs), *[None] * len(series)]
        rows.append(line)
    digits = f".{layout.options.decimals}f"
    heads = [Head("Scenario"), Head("Method"), Head("Seeds"), Head("Seen (%)", digits)]
    heads += [Head(title, digits) for title in titles]
    heads, rows = without_empty(heads, rows, titles)
    name = "new-clients"
    label = label_of(layout.plan.name, name)
    caption = f"{CAPTION} {how(layout, choice)}"
    below = below_tables(layout)
    return [grid(name, "Seen and new clients", caption, heads, rows, label, below)], []


def _passes(layout: Layout) -> list[int]:
    """After how many passes new clients are evaluated in these runs; none without new clients."""
    found: set[int] = set()
    for run in layout.runs:
        config = run.planned.config
        if value(config, "new_clients"):
            epochs = value(config, "new_client_epochs")
            found.update(Run("", new_client_epochs=epochs).new_client_passes)
    return sorted(found)


def _mean(runs: list[Numbers], series: str) -> Value:
    """Mean accuracy in percent at the chosen round, over the runs that have the series."""
    found = [
        100 * float(run.curves[series][run.evaluated == run.chosen][0])
        for run in runs
        if series in run.curves
    ]
    finite = [number for number in found if np.isfinite(number)]
    return sum(finite) / len(finite) if finite else None
