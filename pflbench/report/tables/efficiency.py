"""What methods cost: rounds until they settle, seconds, bytes; beside them what the FedCoSR paper says."""

import numpy as np
import pandas as pd

from pflbench.methods.page import plain
from pflbench.papers.fedcosr.tables import paper_table
from pflbench.report.grouping.layout import Layout, counted, seeds
from pflbench.report.load.runs import Numbers
from pflbench.report.render.grid import SIGNIFICANT, Head, Value, grid, label_of, without_empty
from pflbench.report.render.parts import TablePart
from pflbench.report.stats import statistics
from pflbench.report.tables.captions import over_seeds, scale

BASELINE = "FedAvg"
WINDOW = 10  # evaluated rounds of the moving average
SECONDS = {
    "wall": "s/round",
    "client": "s of clients",
    "server": "s of server",
    "evaluation": "s of evaluation",
}
RATIO = f"Time / {BASELINE}'s"
CONVERGED = "Rounds to settle"
SETTLING = (
    "Rounds to settle: the first round from which the moving average of {} evaluated rounds stays within {:g} of"
    " its final level (accuracy as a fraction). "
)
TIMING = (
    "Seconds of a round are means over rounds: in all (with evaluation), of clients (summed over the clients of the"
    " round), of the server, of evaluation. They depend on the machine and on what else ran on it."
)
SENT = [
    Head(f"kB {way}", SIGNIFICANT, unit=1e3, title_in_csv=f"bytes {way}") for way in ("down", "up")
]
KILOBYTES = "Kilobytes (1 kB = 1000 bytes, to three digits; CSV has bytes)"
SYMBOLS = (
    "Formulas count numbers of 4 bytes: theta is the network, phi its base, pi its head, C the classes, C_i those of"
    " the client, k the size of a representation, N the clients."
)


def tables(layout: Layout, margin: float = 0.01) -> tuple[list[TablePart], list[str]]:
    """By method, by method and setting, and what is sent. The margin of convergence is a fraction."""
    costs = measured(layout, margin)
    mean = costs.groupby(["method", "setting"], sort=False).mean(numeric_only=True)
    known = BASELINE in mean.index.get_level_values("method")
    mean["ratio"] = (
        mean["wall"].div(mean["wall"].xs(BASELINE, level="method"), level="setting")
        if known
        else np.nan
    )
    settled = SETTLING.format(WINDOW, margin) if mean["settled"].notna().any() else ""
    parts = [_efficiency(layout, mean, settled), _communication(layout, mean)]
    if len(layout.columns) > 1:
        parts.append(_by_setting(layout, mean, settled))
    planned = BASELINE in {row.title for row in layout.rows}
    notes = (
        [f"No seconds relative to {BASELINE}: no run of it is done."]
        if planned and not known
        else []
    )
    if not settled:
        most = max(int(np.isfinite(run.curves[run.point]).sum()) for run in counted(layout.runs))
        notes.append(
            f"No rounds to settle: {2 * WINDOW} evaluated rounds are needed, there are {most}."
        )
    return parts, notes + _machines(layout)


def measured(layout: Layout, margin: float = 0.01) -> pd.DataFrame:
    """A row for every run that counts: method, setting, seed, settled, seconds by kind, bytes down and up."""
    rows = []
    for column, row, runs in layout.places():
        for run in counted(runs):
            settled = statistics.convergence_round(
                run.evaluated, run.curves[run.point], WINDOW, margin
            )
            seconds = [
                float(np.mean(run.seconds[kind])) if kind in run.seconds else np.nan
                for kind in SECONDS
            ]
            sent = [_sent(run, way) for way in ("down", "up")]
            rows.append(
                (row.title, column.key, run.planned.config["seed"], settled, *seconds, *sent)
            )
    return pd.DataFrame(
        rows, columns=["method", "setting", "seed", "settled", *SECONDS, "down", "up"]
    )


def _sent(run: Numbers, way: str) -> float:
    """Bytes for a client of the cohort, mean over rounds."""
    return float(
        sum(np.mean(sizes) for name, sizes in run.sent.items() if name.partition(" ")[0] == way)
    )


def _efficiency(layout: Layout, mean: pd.DataFrame, settled: str) -> TablePart:
    papers = {line["method"]: line for line in paper_table("efficiency")}
    rows: list[list[Value]] = []
    for method, found in _by_method(layout, mean):
        paper = papers.get(method, {})
        published = [
            float(paper[name]) if paper else None
            for name in ("convergence_rounds", "seconds_per_round")
        ]
        seconds = [float(found[kind].mean()) for kind in SECONDS]
        numbers = [
            float(found["settled"].mean()),
            published[0],
            *seconds,
            float(found["ratio"].mean()),
            published[1],
        ]
        rows.append([method, _share(len(found), layout), *numbers])
    heads = [
        Head("Method"),
        Head("Settings"),
        Head(CONVERGED, ".1f"),
        Head("The paper's rounds", ".2f"),
    ]
    heads += [
        *(Head(name, ".3f") for name in SECONDS.values()),
        Head(RATIO, ".2f"),
        Head("The paper's s/round", ".2f"),
    ]
    heads, rows = without_empty(heads, rows, [head.title for head in heads[2:]])
    caption = (
        f"{settled}{TIMING} Means over settings of means over {over_seeds(layout)}; ratios are taken in each setting."
        f" {scale(layout)} The paper's numbers are published in the FedCoSR paper, averages over its six main settings"
        " on its own machine, with its own rule of convergence: not measured here."
    )
    return grid(
        "efficiency",
        "Convergence and time",
        caption,
        heads,
        rows,
        label_of(layout.plan.name, "efficiency"),
    )


def _communication(layout: Layout, mean: pd.DataFrame) -> TablePart:
    claims = {
        line["method"]: plain(line["communication"]).strip("`")
        for line in paper_table("efficiency")
    }
    said = {
        row.title: run.about["method"] for _, row, runs in layout.places() for run in counted(runs)
    }
    rows: list[list[Value]] = []
    for method, found in _by_method(layout, mean):
        sent = [float(found[way].mean()) for way in ("down", "up")]
        formulas = [str(said[method][way]) if method in said else None for way in ("down", "up")]
        rows.append([method, _share(len(found), layout), *sent, *formulas, claims.get(method)])
    heads = [Head("Method"), Head("Settings"), *SENT]
    heads += [Head("Formula, down"), Head("Formula, up"), Head("The paper's claim")]
    caption = (
        f"Communication. {KILOBYTES} that a client of a round is sent (down) and sends (up), measured, means over"
        f" rounds, settings and {over_seeds(layout)}; and each method's formula for the same. {scale(layout)}"
        f" {SYMBOLS} The paper's claim is the FedCoSR paper's, for both ways together."
    )
    name = "communication"
    return grid(name, "Communication", caption, heads, rows, label_of(layout.plan.name, name))


def _by_setting(layout: Layout, mean: pd.DataFrame, settled: str) -> TablePart:
    names = ["settled", *SECONDS, "ratio", "down", "up"]
    every = mean.reindex([(row.title, column.key) for column, row, _ in layout.places()])
    rows: list[list[Value]] = [
        [column.line, row.title, seeds(runs), *(float(number) for number in numbers)]
        for (column, row, runs), numbers in zip(
            layout.places(), every[names].to_numpy(), strict=True
        )
    ]
    heads = [*map(Head, ("Setting", "Method", "Seeds")), Head(CONVERGED, ".1f")]
    heads += [*(Head(name, ".3f") for name in SECONDS.values()), Head(RATIO, ".2f"), *SENT]
    heads, rows = without_empty(heads, rows, [head.title for head in heads[3:]])
    caption = f"{settled}{TIMING} {KILOBYTES} are those of a client in a round. Means over seeds. {scale(layout)}"
    name = "efficiency-settings"
    return grid(
        name, "Costs in each setting", caption, heads, rows, label_of(layout.plan.name, name)
    )


def _by_method(layout: Layout, mean: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The settings of every method."""
    methods = mean.index.get_level_values("method")
    return [(row.title, mean[methods == row.title]) for row in layout.rows]


def _share(settings: int, layout: Layout) -> str:
    return (
        f"{settings}" if settings == len(layout.columns) else f"{settings} of {len(layout.columns)}"
    )


def _machines(layout: Layout) -> list[str]:
    """Whether seconds may be compared."""
    machines = {str(sorted(run.about.get("machine", {}).items())) for run in counted(layout.runs)}
    if len(machines) < 2:
        return []
    return [
        f"Seconds are of {len(machines)} kinds of machine, device or number of workers: compare them with care."
    ]
