"""Mean ranks of methods over settings, which of them differ, and the critical-difference diagram (Demsar 2006)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from pflbench.errors import UserError
from pflbench.report.stats.statistics import DIGITS, Refusal, in_blocks, wide

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS_NEEDED, BLOCKS_NEEDED = 3, 2
FONT = 8  # points
LINE, BAR, PAD = 0.165, 0.085, 0.08  # inches: a label, a bar of a group, a gap
STEM, THICK = "0.35", "#0173b2"


@dataclass(frozen=True)
class Ranking:
    """Friedman's test and Nemenyi's critical difference."""

    ranks: dict[str, float]  # mean rank of every method, best (1) first
    blocks: int
    kind: str  # what a block is: settings or runs
    statistic: float  # Friedman's chi-square, with k - 1 degrees of freedom
    p: float
    alpha: float
    difference: float  # mean ranks that are at least so far apart differ
    groups: tuple[
        tuple[str, ...], ...
    ]  # largest sets of methods of which no two differ, best first
    left_out: tuple[str, ...]  # methods without a complete set of runs
    dropped: tuple[tuple[Any, Any], ...]  # (setting, seed) that not all other methods have


def friedman(
    frame: pd.DataFrame, blocks: str = "settings", alpha: float = 0.05
) -> Ranking | Refusal:
    """Ranks of the methods in every block (1 is the highest accuracy; ties have average ranks) and what they show.

    Blocks are as in `paired_tests`, and so is the warning: blocks="runs" takes runs of one setting for independent.
    Every block needs every method; see `complete` for what is left out. Friedman's chi-square is corrected for ties.
    Nemenyi: two methods differ if their mean ranks are at least CD = q sqrt(k (k + 1) / (6 N)) apart, with k methods,
    N blocks, and q the 1 - alpha quantile of the studentized range (k, infinitely many degrees of freedom) over sqrt 2.
    Where Friedman's test does not reject that all methods are equal, no two are said to differ: one group.
    """
    every = wide(frame)
    table = complete(every, blocks)
    cells = in_blocks(table, blocks).round(DIGITS)
    number, methods = cells.shape
    if methods < METHODS_NEEDED:
        return Refusal(f"Friedman's test needs {METHODS_NEEDED} methods, there are {methods}")
    if number < BLOCKS_NEEDED:
        return Refusal(
            f"Friedman's test needs {BLOCKS_NEEDED} {blocks} that all methods have, there are {number}"
        )
    mean = cells.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    ranks = {str(name): float(rank) for name, rank in mean.items()}
    statistic, p = 0.0, 1.0  # where all methods are equal in every block; scipy divides by zero
    if (cells.nunique(axis=1) > 1).any():
        statistic, p = map(float, stats.friedmanchisquare(*(cells[name] for name in cells)))
    difference = critical_difference(methods, number, alpha)
    return Ranking(
        ranks=ranks,
        blocks=number,
        kind=blocks,
        statistic=statistic,
        p=p,
        alpha=alpha,
        difference=difference,
        groups=_groups(ranks, difference) if p <= alpha else (tuple(ranks),),
        left_out=tuple(str(name) for name in frame["method"].unique() if name not in table),
        dropped=tuple(every.index.difference(table.index, sort=False)),
    )


def complete(table: pd.DataFrame, blocks: str) -> pd.DataFrame:
    """The part of a `wide` table without missing cells that keeps most cells: fewer methods, or fewer rows.

    To leave out the method without which most rows are whole (of equals, that with the fewest runs), again and again,
    gives a sequence of sets of methods; of these, that with the most cells in whole rows is taken (with much missing at
    random, another set may keep a few more). A part that is large enough for the test comes before one that is not.
    """
    present = table.notna()

    def whole(names: list[Any]) -> "pd.Series[bool]":
        return present[names].all(axis=1)

    def size(names: list[Any]) -> tuple[bool, int]:
        rows = table.loc[whole(names), names]
        return len(in_blocks(rows, blocks)) >= BLOCKS_NEEDED, rows.size

    names = list(table)
    best = names
    while len(names) > METHODS_NEEDED and not whole(names).all():
        without = {name: [other for other in names if other != name] for name in names}
        worst = max(names, key=lambda name: (whole(without[name]).sum(), -present[name].sum()))
        names = without[worst]
        best = max(best, names, key=size)
    return table.loc[whole(best), best]


def critical_difference(methods: int, blocks: int, alpha: float = 0.05) -> float:
    """Nemenyi's q sqrt(k (k + 1) / (6 N))."""
    q = float(stats.studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))


def _groups(ranks: dict[str, float], difference: float) -> tuple[tuple[str, ...], ...]:
    """Runs of neighbours that span less than the difference and are not part of a longer one; two methods or more."""
    names, places = list(ranks), np.array(list(ranks.values()))
    ends = [int(np.sum(places - start < difference - 10.0**-DIGITS)) for start in places]
    longest = [end for i, end in enumerate(ends) if end > max([i + 1, *ends[:i]])]
    return tuple(tuple(names[ends.index(end) : end]) for end in longest)


def caption(ranking: Ranking) -> str:
    """What the diagram shows, in words."""
    tested = f"Friedman: chi-square {ranking.statistic:.2f}, p {_p(ranking.p)}"
    text = f"Mean ranks over {ranking.blocks} {ranking.kind}, 1 is best. {tested}."
    if ranking.p > ranking.alpha:
        text += f" At {ranking.alpha:g} this does not show that any two methods differ: one bar joins all."
    else:
        text += f" A bar joins methods that do not differ (Nemenyi, {ranking.alpha:g}, CD {ranking.difference:.2f})."
    if ranking.kind == "runs":
        text += " Runs of one setting are not independent: p is too small."
    if ranking.left_out:
        text += f" Left out, for missing runs: {', '.join(ranking.left_out)}."
    if ranking.dropped:
        text += (
            f" Settings and seeds left out, as not all methods have them: {len(ranking.dropped)}."
        )
    return text


def diagram(ranking: Ranking, width: float = 7.0) -> "Figure":
    """The critical-difference diagram, `width` inches wide: best on the left, a bar for every group.

    The better half is labelled on the left, the other on the right, outermost on top, so that no line crosses another.
    """
    from matplotlib.figure import Figure

    number = len(ranking.ranks)
    labels = [f"{name}  {rank:.2f}" for name, rank in ranking.ranks.items()]
    half = -(-number // 2)
    left, right = (_widest(side) + 2 * PAD for side in (labels[:half], labels[half:]))
    if width < left + right + 1:
        raise UserError(
            f"a diagram of {width:g} inches is too narrow for its labels; {left + right + 1:.1f} are enough"
        )
    inch = (number - 1) / (width - left - right)  # in ranks
    spans = [(ranking.ranks[group[0]], ranking.ranks[group[-1]]) for group in ranking.groups]
    levels = _levels(spans, PAD * inch)
    above = 4.4 * LINE  # the critical difference, ticks and their numbers
    first = PAD + BAR * (1 + max(levels, default=-1)) + LINE / 2  # of the labels
    below = first + LINE * half
    figure = Figure(figsize=(width, above + below), dpi=200)
    axes = figure.add_axes((left / width, 0, 1 - (left + right) / width, 1))
    axes.set(xlim=(1, number), ylim=(below, -above))  # ranks; inches below the axis of ranks
    axes.axis("off")
    _scale(axes, number, inch)
    _difference(axes, ranking.difference, number)
    for i, (label, rank) in enumerate(zip(labels, ranking.ranks.values(), strict=True)):
        y = first + LINE * (i if i < half else number - 1 - i)
        edge, out, side = (1, -PAD * inch, "right") if i < half else (number, PAD * inch, "left")
        axes.plot(
            [rank, rank, edge + out], [0, y, y], color=STEM, lw=0.7, clip_on=False, gid="stem"
        )
        axes.text(edge + 1.5 * out, y, label, ha=side, va="center", fontsize=FONT, gid="label")
    for span, level in zip(spans, levels, strict=True):
        y = PAD + BAR * (level + 0.25)
        axes.plot(
            span, [y, y], color=THICK, lw=3, solid_capstyle="round", clip_on=False, gid="group"
        )
    return figure


def _levels(spans: Sequence[tuple[float, float]], gap: float) -> list[int]:
    """The row of every bar: the first in which it is clear of the bars before it."""
    ends: list[float] = []
    levels = []
    for start, end in spans:
        level = next((i for i, last in enumerate(ends) if last < start - gap), len(ends))
        ends[level : level + 1] = [end]
        levels.append(level)
    return levels


def _scale(axes: Any, methods: int, inch: float) -> None:
    """The axis of ranks, with a number wherever it fits."""
    axes.plot([1, methods], [0, 0], color="black", lw=1, clip_on=False, solid_capstyle="projecting")
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step / inch >= 0.22 or step == 100)
    for tick in range(1, methods + 1):
        shown = tick == 1 or tick % step == (1 if step == 2 else 0)
        axes.plot(
            [tick, tick], [0, -0.06 if shown else -0.03], color="black", lw=0.8, clip_on=False
        )
        if shown:
            axes.text(tick, -0.09, str(tick), ha="center", va="bottom", fontsize=FONT, gid="tick")
    axes.text(
        (1 + methods) / 2,
        -0.09 - LINE,
        "mean rank",
        ha="center",
        va="bottom",
        fontsize=FONT,
        gid="title",
    )


def _difference(axes: Any, difference: float, methods: int) -> None:
    """The critical difference, as long as it is on the axis; a longer one goes over the whole axis and says so."""
    end, y = min(1 + difference, methods), -0.09 - 2.6 * LINE
    fits = 1 + difference <= methods
    axes.plot([1, end], [y, y], color="black", lw=1.4, clip_on=False, gid="difference")
    for x in [1, end] if fits else [1]:
        axes.plot([x, x], [y - 0.04, y + 0.04], color="black", lw=1.4, clip_on=False)
    told = f"CD = {difference:.2f}" + ("" if fits else ", longer than the axis")
    axes.text((1 + end) / 2, y - 0.05, told, ha="center", va="bottom", fontsize=FONT, gid="CD")


def _widest(labels: Sequence[str]) -> float:
    """Inches."""
    from matplotlib.textpath import TextPath

    return (
        max(float(TextPath((0, 0), label, size=FONT).get_extents().width) for label in labels) / 72
    )


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"
