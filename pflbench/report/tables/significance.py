"""Whether methods differ: signed-rank tests against the proposed one, and mean ranks. Blocks are settings."""

import pandas as pd

from pflbench.papers.fedcosr.marks import PROPOSED
from pflbench.report.grouping.layout import Layout, run_frame
from pflbench.report.load.runs import Choice
from pflbench.report.render.grid import Head, Value, grid, label_of
from pflbench.report.render.parts import TablePart
from pflbench.report.stats import critical, statistics
from pflbench.report.tables.captions import how

ALPHA = 0.05


def tables(layout: Layout, choice: Choice) -> tuple[list[TablePart], list[str]]:
    """Tests and ranks; what the runs do not allow is a note."""
    frame = run_frame(layout, choice)
    parts, notes = [], []
    for make in (_tests, _ranks):
        part, said = make(layout, choice, frame)
        parts += [part] if part else []
        notes += said
    return parts, notes


def reference(frame: pd.DataFrame) -> str:
    """The proposed method if it is there, else the best on average, of those with the most settings."""
    means = (
        frame.groupby(["method", "setting"], sort=False)["accuracy"]
        .mean()
        .groupby(level="method", sort=False)
    )
    found = means.agg(["size", "mean"])
    return (
        PROPOSED if PROPOSED in found.index else str(found.sort_values(["size", "mean"]).index[-1])
    )


def _tests(
    layout: Layout, choice: Choice, frame: pd.DataFrame
) -> tuple[TablePart | None, list[str]]:
    against = reference(frame)
    found = statistics.paired_tests(frame, against, alpha=ALPHA)
    if isinstance(found, statistics.Refusal):
        return None, [f"No tests against {against}: {_in_settings(found.reason)}."]
    numbers = ("blocks", "difference", "wins", "losses", "p", "p_holm")
    rows: list[list[Value]] = []
    notes = []
    for line in found.to_dict("records"):
        differs = "" if line["reason"] else "yes" if line["different"] else "no"
        rows.append([str(line["other"]), *(float(line[name]) for name in numbers), differs])
        if line["reason"]:
            notes.append(f"Not tested against {line['other']}: {_in_settings(line['reason'])}.")
    heads = [Head("Method"), Head("Settings", ".0f"), Head(f"{against} is better by", "+.2f")]
    heads += [
        Head(f"{against} wins", ".0f"),
        Head("loses", ".0f"),
        Head("p", ".3g"),
        Head("p (Holm)", ".3g"),
    ]
    heads.append(Head(f"Differs at {ALPHA:g}"))
    chosen = (
        ""
        if against == PROPOSED
        else f" {against} was chosen as the best of these numbers: p is too small."
    )
    caption = (
        f"{against} against every other method: exact two-sided Wilcoxon signed-rank tests over settings (means over"
        f" common seeds), adjusted by Holm; difference in percentage points, mean over settings.{chosen}"
        f" {how(layout, choice)}"
    )
    part = grid(
        "tests",
        f"Tests against {against}",
        caption,
        heads,
        rows,
        label_of(layout.plan.name, "tests"),
    )
    return part, notes + _too_few(found)


def _too_few(found: pd.DataFrame) -> list[str]:
    """Whether Holm's adjustment leaves no method a chance to differ."""
    needed, most, tests = (
        int(found["needed"].iloc[0]),
        int(found["blocks"].max()),
        int((found["reason"] == "").sum()),
    )
    if most >= needed:
        return []
    return [
        f"With {tests} tests, Holm's p can reach {ALPHA:g} from {needed} settings on; there are {most}, so that no"
        " method can be shown to differ."
    ]


def _in_settings(reason: str) -> str:
    return reason.replace("blocks", "settings")


def _ranks(
    layout: Layout, choice: Choice, frame: pd.DataFrame
) -> tuple[TablePart | None, list[str]]:
    found = critical.friedman(frame, alpha=ALPHA)
    if isinstance(found, statistics.Refusal):
        return None, [f"No mean ranks: {found.reason}."]
    best = next(iter(found.ranks))
    with_best = {best, *(name for group in found.groups if best in group for name in group)}
    rows: list[list[Value]] = [
        [name, rank, rank - found.ranks[best], "no" if name in with_best else "yes"]
        for name, rank in found.ranks.items()
    ]
    heads = [
        Head("Method"),
        Head("Mean rank", ".2f"),
        Head("Behind the best", ".2f"),
        Head("Differs from the best"),
    ]
    shown = (
        "" if found.p <= ALPHA else f" At {ALPHA:g} this does not show that any two methods differ."
    )
    left = f" Left out, for missing runs: {', '.join(found.left_out)}." if found.left_out else ""
    if found.dropped:
        left += f" Settings and seeds left out, as not all methods have them: {len(found.dropped)}."
    caption = (
        f"Mean ranks of accuracy over {found.blocks} settings, 1 is best. Friedman: chi-square {found.statistic:.2f},"
        f" p {found.p:.3g}.{shown} Nemenyi's critical difference at {ALPHA:g}: {found.difference:.2f}.{left}"
        f" {how(layout, choice)}"
    )
    return grid(
        "ranks", "Mean ranks", caption, heads, rows, label_of(layout.plan.name, "ranks")
    ), []
