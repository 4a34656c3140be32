"""What methods cost: rounds to convergence, seconds, bytes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pflbench.output import plural
from pflbench.report.grouping.layout import Layout, counted, seeds
from pflbench.report.load.runs import Numbers
from pflbench.report.render.grid import SIGNIFICANT, Head, Value, grid, label_of, without_empty
from pflbench.report.render.marks import Row
from pflbench.report.render.parts import TablePart
from pflbench.report.stats.convergence import DID_NOT_IMPROVE, convergence_round
from pflbench.report.tables.captions import over_seeds, scale
from pflbench.report.tables.notes import below_tables, once_per_method, title_of

BASELINE = "FedAvg"
WINDOW = 10  # evaluated rounds of the moving average
SECONDS = {
    "wall": "s per round",
    "client": "Clients (s)",
    "server": "Server (s)",
    "evaluation": "Evaluation (s)",
}
RATIO = f"Time / {BASELINE}"
ROUNDS = "Rounds to convergence"
STUCK, ONE_SHOT = "did not improve", "one-shot"  # in place of rounds
CONVERGENCE = (
    ROUNDS + ": the first round from which the moving average of {} evaluated rounds, from round 1"
    " on, stays within {:g} of its final level (accuracy as a fraction); " + STUCK + ": it never is"
    " above the first evaluation by more than that. "
)
TIMING = (
    "Seconds per round are means over rounds: in all (with evaluation), of clients (summed over the"
    " clients of the round), of the server, of evaluation. They depend on the machine and on what"
    " else ran on it."
)
SENT = [
    Head("kB down", SIGNIFICANT, unit=1e3, title_in_csv="bytes down"),
    Head("kB up", SIGNIFICANT, unit=1e3, title_in_csv="bytes up"),
    Head("Counted"),
]
PER_ROUND, TOTAL = "per round", "total"
KILOBYTES = (
    "Kilobytes (1 kB = 1000 bytes, to three digits; CSV has bytes) that one client receives (down)"
    " and sends (up), measured: per round, or the total of a one-shot method, whose messages travel"
    " once"
)
SYMBOLS = (
    "Formulas count numbers of 4 bytes: theta is the network, phi its body, pi its head, C the"
    " classes, C_i those of the client, k the size of a representation, N the clients."
)


def tables(layout: Layout, margin: float = 0.01) -> tuple[list[TablePart], list[str]]:
    """By method, what is sent, by method and scenario. The margin of convergence is a fraction."""
    runs = measured(layout, margin)
    costs = per_scenario(runs)
    known = costs["rounds"].notna().any() or costs["stuck"].any()
    convergence = CONVERGENCE.format(WINDOW, margin) if known else ""
    below = [*below_tables(layout), *_stuck(layout, runs)]
    parts = [_efficiency(layout, costs, convergence, below), _communication(layout, costs)]
    if len(layout.columns) > 1:
        parts.append(_by_scenario(layout, costs, convergence, below))
    return parts, [*_not_there(layout, costs, bool(known)), *_machines(layout)]


def measured(layout: Layout, margin: float = 0.01) -> pd.DataFrame:
    """A row per run that counts: method, scenario, seed, rounds to convergence, seconds by kind,
    bytes down and up.

    Rounds are DID_NOT_IMPROVE of a run that is stuck at its start, and nan of a one-shot method.
    """
    rows = []
    for column, row, runs in layout.places():
        for run in counted(runs):
            place = (row.title, column.key, run.planned.config["seed"])
            seconds = [float(np.mean(run.seconds.get(kind, np.nan))) for kind in SECONDS]
            sent = [run.traffic(way) for way in ("down", "up")]
            rows.append((*place, _rounds(run, margin), *seconds, *sent))
    names = ["method", "scenario", "seed", "rounds", *SECONDS, "down", "up"]
    return pd.DataFrame(rows, columns=names)


def per_scenario(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds by method and scenario: of rounds where a run improved; `stuck` is the share
    that did not.

    `ratio` is the time per round relative to the baseline's.
    """
    stuck = runs["rounds"] == DID_NOT_IMPROVE
    kept = runs.assign(stuck=stuck.astype(float), rounds=runs["rounds"].mask(stuck))
    mean = kept.groupby(["method", "scenario"], sort=False).mean(numeric_only=True)
    mean["ratio"] = np.nan
    if BASELINE in mean.index.get_level_values("method"):
        baseline = mean["wall"].xs(BASELINE, level="method")
        mean["ratio"] = mean["wall"].div(baseline, level="scenario")
    return mean


def by_method(layout: Layout, costs: pd.DataFrame) -> list[tuple[Row, pd.DataFrame]]:
    """The scenarios of every method."""
    methods = costs.index.get_level_values("method")
    return [(row, costs[methods == row.title]) for row in layout.rows]


def rounds_text(row: Row, layout: Layout, costs: pd.DataFrame) -> Value:
    """Rounds to convergence of a method, mean over scenarios; or why there are none."""
    number = float(costs["rounds"].mean())
    if np.isfinite(number):
        return number
    if any(run.one_shot for run in _runs_of(layout, row)):
        return ONE_SHOT
    return STUCK if costs["stuck"].any() else None


def formulas(layout: Layout, row: Row) -> list[Value]:
    """What a method says that it sends down and up, at the hyperparameters of its runs."""
    said = [run.about["method"]["costs"] for run in counted(_runs_of(layout, row))]
    found = [dict.fromkeys(str(costs[way]) for costs in said) for way in ("down", "up")]
    return ["; ".join(texts) if texts else None for texts in found]


def _rounds(run: Numbers, margin: float) -> float:
    if run.one_shot:
        return np.nan
    return convergence_round(run.evaluated, run.curves[run.point], WINDOW, margin)


def _runs_of(layout: Layout, row: Row) -> list[Numbers]:
    return [run for (other, _), runs in layout.cells.items() if other == row for run in runs]


def _title(layout: Layout, row: Row) -> str:
    return title_of(row, _runs_of(layout, row))


def _counted(runs: Sequence[Numbers]) -> Value:
    """How the bytes of a method are counted."""
    shown = counted(runs)
    return (TOTAL if any(run.one_shot for run in shown) else PER_ROUND) if shown else None


def _share(scenarios: int, layout: Layout) -> str:
    planned = len(layout.columns)
    return f"{scenarios}" if scenarios == planned else f"{scenarios} of {planned}"


def _efficiency(
    layout: Layout, costs: pd.DataFrame, convergence: str, notes: Sequence[str]
) -> TablePart:
    rows: list[list[Value]] = []
    for row, found in by_method(layout, costs):
        seconds = [float(found[kind].mean()) for kind in (*SECONDS, "ratio")]
        first = [_title(layout, row), _share(len(found), layout)]
        rows.append([*first, rounds_text(row, layout, found), *seconds])
    heads = [Head("Method"), Head("Scenarios"), Head(ROUNDS, ".1f")]
    heads += [Head(name, ".3f") for name in SECONDS.values()]
    heads.append(Head(RATIO, ".2f"))
    heads, rows = without_empty(heads, rows, [head.title for head in heads[2:]])
    caption = (
        f"{convergence}{TIMING} Means over scenarios of means over {over_seeds(layout)}; ratios are"
        f" taken in each scenario. {scale(layout)}"
    )
    name = "efficiency"
    label = label_of(layout.plan.name, name)
    return grid(name, "Rounds to convergence and time", caption, heads, rows, label, notes)


def _communication(layout: Layout, costs: pd.DataFrame) -> TablePart:
    rows: list[list[Value]] = []
    for row, found in by_method(layout, costs):
        sent = [float(found[way].mean()) for way in ("down", "up")]
        first = [_title(layout, row), _share(len(found), layout)]
        rows.append([*first, *sent, _counted(_runs_of(layout, row)), *formulas(layout, row)])
    heads = [Head("Method"), Head("Scenarios"), *SENT, Head("Formula, down"), Head("Formula, up")]
    caption = (
        f"Communication. {KILOBYTES}; means over scenarios and {over_seeds(layout)}; and each"
        f" method's formula for the same. {scale(layout)} {SYMBOLS}"
    )
    name = "communication"
    label = label_of(layout.plan.name, name)
    return grid(name, "Communication", caption, heads, rows, label, below_tables(layout))


def _by_scenario(
    layout: Layout, costs: pd.DataFrame, convergence: str, notes: Sequence[str]
) -> TablePart:
    names = [*SECONDS, "ratio", "down", "up"]
    rows: list[list[Value]] = []
    for column, row, runs in layout.places():
        found = costs.reindex([(row.title, column.key)])
        numbers = [float(found[name].iloc[0]) for name in names]
        rounds = rounds_text(row, layout, found) if len(counted(runs)) else None
        first = [column.line, title_of(row, runs), seeds(runs)]
        rows.append([*first, rounds, *numbers, _counted(runs)])
    heads = [Head("Scenario"), Head("Method"), Head("Seeds"), Head(ROUNDS, ".1f")]
    heads += [Head(name, ".3f") for name in SECONDS.values()]
    heads += [Head(RATIO, ".2f"), *SENT]
    heads, rows = without_empty(heads, rows, [head.title for head in heads[3:-1]])
    caption = f"{convergence}{TIMING} {KILOBYTES}. Means over seeds. {scale(layout)}"
    name = "efficiency-scenarios"
    label = label_of(layout.plan.name, name)
    return grid(name, "Costs in each scenario", caption, heads, rows, label, notes)


def _stuck(layout: Layout, runs: pd.DataFrame) -> list[str]:
    """Runs that did not improve, of methods of which others did: the mean is of the others."""
    stuck = runs["rounds"] == DID_NOT_IMPROVE
    mixed = set(runs["method"][stuck]) & set(runs["method"][~stuck & runs["rounds"].notna()])
    found = []
    for column, row, _ in layout.places():
        cell = stuck[(runs["method"] == row.title) & (runs["scenario"] == column.key)]
        if row.title in mixed and cell.any():
            number = f"{cell.sum()} of {plural(len(cell), 'run')} {STUCK}"
            found.append((column, row, f"{number}, the rounds to convergence are of the others"))
    return once_per_method(layout, found)


def _not_there(layout: Layout, costs: pd.DataFrame, known: bool) -> list[str]:
    notes = []
    planned = BASELINE in {row.title for row in layout.rows}
    if planned and BASELINE not in costs.index.get_level_values("method"):
        notes.append(f"No seconds relative to {BASELINE}: it has no finished run.")
    shown = [run for run in counted(layout.runs) if not run.one_shot]
    if shown and not known:
        most = max(_evaluations(run) for run in shown)
        needed = f"{2 * WINDOW} evaluated rounds from round 1 on are needed"
        notes.append(f"No rounds to convergence: {needed}, there are {most}.")
    return notes


def _evaluations(run: Numbers) -> int:
    return int(np.isfinite(run.curves[run.point][run.evaluated >= 1]).sum())


def _machines(layout: Layout) -> list[str]:
    """Whether seconds may be compared."""
    machines = {str(sorted(run.about.get("machine", {}).items())) for run in counted(layout.runs)}
    if len(machines) < 2:
        return []
    kinds = f"{len(machines)} kinds of machine, device or number of workers"
    return [f"Seconds come from {kinds}; compare them with care."]
