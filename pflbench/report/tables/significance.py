"""Whether methods differ: signed-rank tests against one of them, and mean ranks. Blocks are
scenarios.
"""

from collections.abc import Mapping

import pandas as pd

from pflbench.report.grouping.layout import Layout, run_frame
from pflbench.report.load.runs import Choice
from pflbench.report.render.grid import Head, Value, grid, label_of
from pflbench.report.render.parts import TablePart
from pflbench.report.stats.frames import Refusal
from pflbench.report.stats.ranks import Ranking, friedman
from pflbench.report.stats.significance import paired_tests
from pflbench.report.tables.captions import how
from pflbench.report.tables.notes import below_tables, title_of

ALPHA = 0.05
Made = tuple[list[TablePart], list[str]]


def tables(layout: Layout, choice: Choice) -> Made:
    """Tests and ranks; what the runs do not allow is a note."""
    frame = run_frame(layout, choice)
    tests, notes = _tests(layout, choice, frame)
    ranks, more = _ranks(layout, choice, frame)
    return [*tests, *ranks], [*notes, *more]


def reference(frame: pd.DataFrame, proposed: str) -> str:
    """The proposed method if it has runs, else the best on average, of those with the most
    scenarios.
    """
    cells = frame.groupby(["method", "scenario"], sort=False)["accuracy"].mean()
    found = cells.groupby(level="method", sort=False).agg(["size", "mean"])
    best = str(found.sort_values(["size", "mean"]).index[-1])
    return proposed if proposed in found.index else best


def _tests(layout: Layout, choice: Choice, frame: pd.DataFrame) -> Made:
    against = reference(frame, layout.proposed)
    found = paired_tests(frame, against, alpha=ALPHA)
    if isinstance(found, Refusal):
        return [], [f"No tests against {against}: {_in_scenarios(found.reason)}."]
    titles = _titles(layout)
    rows: list[list[Value]] = []
    notes = []
    for line in found.to_dict("records"):
        differs = "" if line["reason"] else "yes" if line["different"] else "no"
        names = ("blocks", "difference", "wins", "losses", "p", "p_holm")
        rows.append([titles[str(line["other"])], *(float(line[name]) for name in names), differs])
        if line["reason"]:
            notes.append(f"Not tested against {line['other']}: {_in_scenarios(line['reason'])}.")
    heads = [Head("Method"), Head("Scenarios", ".0f"), Head(f"{against} is better by", "+.2f")]
    heads += [Head(f"{against} wins", ".0f"), Head("loses", ".0f")]
    heads += [Head("p", ".3g"), Head("p (Holm)", ".3g"), Head(f"Differs at {ALPHA:g}")]
    name, title = "tests", f"Tests against {against}"
    caption = _caption_of_tests(layout, choice, against)
    label = label_of(layout.plan.name, name)
    part = grid(name, title, caption, heads, rows, label, below_tables(layout))
    return [part], [*notes, *_too_few(found)]


def _caption_of_tests(layout: Layout, choice: Choice, against: str) -> str:
    chosen = ""
    if against != layout.proposed:
        chosen = f" {against} was chosen as the best of these numbers: p is too small."
    return (
        f"{against} against every other method: exact two-sided Wilcoxon signed-rank tests over"
        " scenarios (means over common seeds), adjusted by Holm; difference in percentage points,"
        f" mean over scenarios.{chosen} {how(layout, choice)}"
    )


def _too_few(found: pd.DataFrame) -> list[str]:
    """Whether Holm's adjustment leaves no method a chance to differ."""
    needed, most = int(found["needed"].iloc[0]), int(found["blocks"].max())
    tests = int((found["reason"] == "").sum())
    if most >= needed:
        return []
    reach = f"Holm's p can reach {ALPHA:g} from {needed} scenarios on"
    return [
        f"With {tests} tests, {reach}; there are {most}, so that no method can be shown to differ."
    ]


def _in_scenarios(reason: str) -> str:
    return reason.replace("blocks", "scenarios")


def _titles(layout: Layout) -> Mapping[str, str]:
    """Methods as shown, by title: marked where a number of theirs is of an earlier version."""
    found = {}
    for row in layout.rows:
        runs = [run for (other, _), runs in layout.cells.items() if other == row for run in runs]
        found[row.title] = title_of(row, runs)
    return found


def _ranks(layout: Layout, choice: Choice, frame: pd.DataFrame) -> Made:
    found = friedman(frame, alpha=ALPHA)
    if isinstance(found, Refusal):
        return [], [f"No mean ranks: {found.reason}."]
    titles = _titles(layout)
    best = next(iter(found.ranks))
    with_best = {best, *(name for group in found.groups if best in group for name in group)}
    rows: list[list[Value]] = []
    for method, rank in found.ranks.items():
        differs = "no" if method in with_best else "yes"
        rows.append([titles[method], rank, rank - found.ranks[best], differs])
    heads = [Head("Method"), Head("Mean rank", ".2f"), Head("Gap to the best", ".2f")]
    heads.append(Head("Differs from the best"))
    name = "ranks"
    caption = f"{_caption_of_ranks(found)} {how(layout, choice)}"
    label = label_of(layout.plan.name, name)
    return [grid(name, "Mean ranks", caption, heads, rows, label, below_tables(layout))], []


def _caption_of_ranks(found: Ranking) -> str:
    said = [
        f"Mean ranks of accuracy over {found.blocks} scenarios, 1 is best.",
        f"Friedman: chi-square {found.statistic:.2f}, p {found.p:.3g}.",
    ]
    if found.p > ALPHA:
        said.append(f"At {ALPHA:g} this does not show that any two methods differ.")
    said.append(f"Nemenyi's critical difference at {ALPHA:g}: {found.difference:.2f}.")
    if found.left_out:
        said.append(f"Left out, for missing runs: {', '.join(found.left_out)}.")
    if found.dropped:
        number = len(found.dropped)
        said.append(f"Scenarios and seeds left out, since not all methods have them: {number}.")
    return " ".join(said)
