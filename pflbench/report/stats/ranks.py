"""Orders of methods: mean ranks and which differ (Demsar 2006); agreement of two orders."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pflbench.errors import UserError
from pflbench.report.stats.frames import DIGITS, Refusal, in_blocks, wide

METHODS_NEEDED, BLOCKS_NEEDED = 3, 2


@dataclass(frozen=True)
class Ranking:
    """Friedman's test and Nemenyi's critical difference."""

    ranks: dict[str, float]  # mean rank of every method, best (1) first
    blocks: int
    kind: str  # what a block is: scenarios or runs
    statistic: float  # Friedman's chi-square, with k - 1 degrees of freedom
    p: float
    alpha: float
    difference: float  # mean ranks that are at least so far apart differ
    groups: tuple[tuple[str, ...], ...]  # largest sets of which no two differ, best first
    left_out: tuple[str, ...]  # methods without a complete set of runs
    dropped: tuple[tuple[Any, Any], ...]  # (scenario, seed) that not all other methods have


def friedman(
    frame: pd.DataFrame, blocks: str = "scenarios", alpha: float = 0.05
) -> Ranking | Refusal:
    """Ranks of the methods in every block (1 is the highest accuracy; ties have average ranks) and
    what they show.

    Blocks are as in `paired_tests`, and so is the warning: blocks="runs" takes runs of one scenario
    for independent. Every block needs every method; see `complete` for what is left out. Friedman's
    chi-square is corrected for ties. Nemenyi: two methods differ if their mean ranks are at least
    CD = q sqrt(k (k + 1) / (6 N)) apart, with k methods, N blocks, and q the 1 - alpha quantile of
    the studentized range (k, infinitely many degrees of freedom) over sqrt 2. Where Friedman's test
    does not reject that all methods are equal, no two are said to differ: one group.
    """
    every = wide(frame)
    table = complete(every, blocks)
    cells = in_blocks(table, blocks).round(DIGITS)
    number, methods = cells.shape
    if methods < METHODS_NEEDED:
        return Refusal(f"Friedman's test needs {METHODS_NEEDED} methods, there are {methods}")
    if number < BLOCKS_NEEDED:
        lack = f"{BLOCKS_NEEDED} {blocks} that all methods have, there are {number}"
        return Refusal(f"Friedman's test needs {lack}")
    mean = cells.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    ranks = {str(name): float(rank) for name, rank in mean.items()}
    statistic, p = _chi_square(cells)
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


def _chi_square(cells: pd.DataFrame) -> tuple[float, float]:
    """Friedman's statistic and p; where all methods are always equal scipy divides by zero."""
    if not (cells.nunique(axis=1) > 1).any():
        return 0.0, 1.0
    found = stats.friedmanchisquare(*(cells[name] for name in cells))
    return float(found.statistic), float(found.pvalue)


def complete(table: pd.DataFrame, blocks: str) -> pd.DataFrame:
    """The part of a `wide` table without missing cells that keeps most cells: fewer methods, or
    fewer rows.

    To leave out the method without which most rows are whole (of equals, that with the fewest
    runs), again and again, gives a sequence of sets of methods; of these, that with the most cells
    in whole rows is taken (with much missing at random, another set may keep a few more). A part
    that is large enough for the test comes before one that is not.
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
    """Runs of neighbours that span less than the difference and are not part of a longer one; two
    methods or more.
    """
    names, places = list(ranks), np.array(list(ranks.values()))
    ends = [int(np.sum(places - start < difference - 10.0**-DIGITS)) for start in places]
    longest = [end for i, end in enumerate(ends) if end > max([i + 1, *ends[:i]])]
    return tuple(tuple(names[ends.index(end) : end]) for end in longest)


@dataclass(frozen=True)
class Agreement:
    """Kendall's tau-b of two orders, its two-sided p-value, and the number of methods in both."""

    tau: float
    p: float
    methods: int


def agreement(measured: "pd.Series[float]", published: "pd.Series[float]") -> Agreement | Refusal:
    """Kendall's tau-b of two scores by method (the index), over the methods in both; 1 is the same
    order.

    The p-value (that the orders have nothing to do with each other) is exact without ties, else a
    normal approximation.
    """
    for name, scores in (("measured", measured), ("published", published)):
        if scores.index.has_duplicates:
            twice = scores.index[scores.index.duplicated()][0]
            raise UserError(f"the {name} order has {twice!r} twice; once is allowed")
    both = pd.concat([measured.rename("a"), published.rename("b")], axis=1, join="inner")
    both = both.dropna().round(DIGITS)
    if len(both) < 3:
        return Refusal(f"a comparison of orders needs 3 methods in both, there are {len(both)}")
    if (both.nunique() == 1).any():
        reason = "needs methods that differ; in one order all are equal"
        return Refusal(f"a comparison of orders {reason}")
    found = stats.kendalltau(both["a"], both["b"])
    return Agreement(float(found.statistic), float(found.pvalue), len(both))
