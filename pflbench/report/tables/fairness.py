"""Per-client fairness: gains of clients, their worst tenth and how even they are."""

from collections.abc import Sequence

import pandas as pd

from pflbench.report.grouping.layout import Layout, client_frame, seeds, state
from pflbench.report.load.runs import Choice
from pflbench.report.render.grid import Head, Value, grid, label_of, without_empty
from pflbench.report.render.parts import TablePart
from pflbench.report.stats.fairness import client_summary
from pflbench.report.tables.captions import how, over_seeds
from pflbench.report.tables.notes import below_tables, title_of

BASELINES = ("Local", "FedAvg")
OPTIONAL = ("scarce", "others", "gain", "harmed")  # measures that some experiments do not have


def tables(layout: Layout, choice: Choice) -> tuple[list[TablePart], list[str]]:
    """A row for every method in every scenario."""
    found = client_summary(client_frame(layout), BASELINES)
    means = found.groupby(["method", "scenario"], sort=False).mean(numeric_only=True)
    measures = _measures(f".{layout.options.decimals}f")
    rows: list[list[Value]] = []
    for column, row, runs in layout.places():
        numbers = _numbers(means, row.title, column.key, list(measures), state(runs))
        rows.append([column.line, title_of(row, runs), seeds(runs), *numbers])
    heads = [Head("Scenario"), Head("Method"), Head("Seeds"), *measures.values()]
    optional = [head.title for name, head in measures.items() if name.startswith(OPTIONAL)]
    heads, rows = without_empty(heads, rows, optional)
    caption = _caption(layout, choice, bool(found["scarce"].notna().any()))
    name = "fairness"
    label = label_of(layout.plan.name, name)
    part = grid(name, "Per-client fairness", caption, heads, rows, label, below_tables(layout))
    lacking = {row.title for row in layout.rows} - set(found["method"])
    notes = [
        f"No gain over {name}: it has no finished run." for name in BASELINES if name in lacking
    ]
    return [part], notes


def _measures(digits: str) -> dict[str, Head]:
    measures = {
        "accuracy": Head("Mean (%)", digits),
        "scarce": Head("Scarce clients (%)", digits),
        "others": Head("Other clients (%)", digits),
        "worst_decile": Head("Worst tenth (%)", digits),
        "jain": Head("Jain's index", ".3f"),
        "variation": Head("Std / mean", ".3f"),
    }
    for name in BASELINES:
        measures[f"gain_{name}"] = Head(f"Gain over {name}", f"+{digits}")
        measures[f"harmed_{name}"] = Head(f"Worse than {name} (%)", ".1f")
    return measures


def _numbers(
    means: pd.DataFrame, method: str, scenario: str, names: Sequence[str], state: str
) -> list[Value]:
    if (method, scenario) not in means.index:
        return [state, *[None] * (len(names) - 1)]
    found = means.loc[(method, scenario)]
    return [float(found[name]) * (100 if name.startswith("harmed") else 1) for name in names]


def _caption(layout: Layout, choice: Choice, scarce: bool) -> str:
    parts = (
        " that of scarce clients (with a part of their data) and of the others," if scarce else ""
    )
    return (
        f"Per-client fairness: mean accuracy over clients,{parts} that of the worst tenth of"
        " clients, Jain's index (1: all equal), std over mean; gain in percentage points over a"
        " client's accuracy under a baseline in the same scenario and seed, mean over clients, and"
        f" the share of clients that lose. Every client counts once; means over {over_seeds(layout)}."
        f" {how(layout, choice)}"
    )
