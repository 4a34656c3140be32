"""How sure a number is (over seeds), and whom a method serves (over clients): plain tables."""

from collections.abc import Sequence

import pandas as pd

from pflbench.report.grouping.layout import (
    Layout,
    accuracy,
    client_frame,
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
from pflbench.report.stats import statistics
from pflbench.report.tables.captions import how, over_seeds

BASELINES = ("Local", "FedAvg")


def seeds_table(layout: Layout, choice: Choice) -> tuple[list[TablePart], list[str]]:
    """Mean, std over clients and over seeds, and bootstrap interval of every method in every setting."""
    found = statistics.intervals(run_frame(layout, choice)).set_index(["method", "setting"])
    rows: list[list[Value]] = []
    for column, row, runs in layout.places():
        values = [accuracy(run, choice) for run in counted(runs)]
        line: list[Value] = [column.line, row.title, seeds(runs)]
        if values:
            of = found.loc[(row.title, column.key)]
            spread = sum(client_std(run) for run in counted(runs)) / len(values)
            line += [
                float(of["mean"]),
                spread,
                seed_std(values),
                float(of["low"]),
                float(of["high"]),
            ]
        else:
            line += [state(runs), *[None] * 4]
        rows.append(line)
    numbers = ("Accuracy (%)", "Std over clients", "Std over seeds", "Low", "High")
    heads = [
        *map(Head, ("Setting", "Method", "Seeds")),
        *(Head(name, f".{choice.decimals}f") for name in numbers),
    ]
    heads, rows = without_empty(heads, rows, ("Std over seeds", "Low", "High"))
    intervals = " Low and high are a 95 % percentile bootstrap interval of the mean over seeds, too narrow for few seeds."
    caption = (
        "Accuracy (%) by seed: mean over seeds; std over clients, averaged over seeds; std over seeds (of a sample)."
        f"{intervals if found['low'].notna().any() else ''} {how(layout, choice)}"
    )
    part = grid(
        "seeds", "Certainty over seeds", caption, heads, rows, label_of(layout.plan.name, "seeds")
    )
    reasons = [str(reason) for reason in found["reason"].unique() if reason]
    return [part], [f"No interval for some numbers: {reason}." for reason in reasons]


def clients_table(layout: Layout, choice: Choice) -> tuple[list[TablePart], list[str]]:
    """Gains of clients, their worst tenth and how even they are, of every method in every setting."""
    found = statistics.client_summary(client_frame(layout), BASELINES)
    means = found.groupby(["method", "setting"], sort=False).mean(numeric_only=True)
    digits = f".{choice.decimals}f"
    measures = {
        "accuracy": Head("Mean (%)", digits),
        "scarce": Head("Scarce clients (%)", digits),
        "others": Head("Others (%)", digits),
        "worst_decile": Head("Worst tenth (%)", digits),
        "jain": Head("Jain's index", ".3f"),
        "variation": Head("Std / mean", ".3f"),
    }
    for name in BASELINES:
        measures[f"gain_{name}"] = Head(f"Gain over {name}", f"+{digits}")
        measures[f"harmed_{name}"] = Head(f"Worse than {name} (%)", ".1f")
    rows = [
        [
            column.line,
            row.title,
            seeds(runs),
            *_measured(means, row.title, column.key, list(measures), state(runs)),
        ]
        for column, row, runs in layout.places()
    ]
    heads = [*map(Head, ("Setting", "Method", "Seeds")), *measures.values()]
    optional = [
        head.title
        for name, head in measures.items()
        if name.startswith(("scarce", "others", "gain", "harmed"))
    ]
    heads, rows = without_empty(heads, rows, optional)
    scarce = (
        " that of the clients that keep a part of their data and of the others,"
        if found["scarce"].notna().any()
        else ""
    )
    caption = (
        f"Clients: mean accuracy,{scarce} that of the worst tenth of clients, Jain's index (1: all equal), std over"
        " mean; gain in percentage points over a client's accuracy under a baseline of the same setting and seed, mean"
        f" over clients, and the share of clients that lose. Every client counts once; means over {over_seeds(layout)}."
        f" {how(layout, choice)}"
    )
    part = grid(
        "clients",
        "Whom a method serves",
        caption,
        heads,
        rows,
        label_of(layout.plan.name, "clients"),
    )
    planned = {row.title for row in layout.rows} - set(found["method"])
    return [part], [
        f"No gain over {name}: no run of it is done." for name in BASELINES if name in planned
    ]


def _measured(
    means: pd.DataFrame, method: str, setting: str, names: Sequence[str], state: str
) -> list[Value]:
    if (method, setting) not in means.index:
        return [state, *[None] * (len(names) - 1)]
    found = means.loc[(method, setting)]
    return [float(found[name]) * (100 if name.startswith("harmed") else 1) for name in names]
