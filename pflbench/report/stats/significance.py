"""Whether methods differ: exact signed-rank tests over scenarios, adjusted by Holm."""

from collections.abc import Iterable
from itertools import combinations, count

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from pflbench.errors import unknown
from pflbench.report.stats.frames import DIGITS, Floats, Refusal, in_blocks, wide


def signed_rank(differences: npt.ArrayLike) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test, exact for any number of differences, ties
    and zeros.

    Ties have average ranks. Zeros are ranked, then left out of both sums (Pratt 1959, scipy's
    zero_method="pratt"). scipy's "exact" is exact only without ties and zeros, so the distribution
    of W+ is built here: every rank r that is left has either sign with probability 1/2, hence P(w)
    <- (P(w) + P(w - r)) / 2, rank by rank.
    """
    d = np.round(np.asarray(differences, dtype=float), DIGITS)
    ranks = stats.rankdata(np.abs(d))  # multiples of 1/2
    doubled = np.rint(2 * ranks).astype(int)
    positive, negative = (int(doubled[side].sum()) for side in (d > 0, d < 0))
    chance = np.zeros(positive + negative + 1)  # P(2 W+ = index)
    chance[0] = 1.0
    for rank in doubled[d != 0]:
        chance[rank:] = (chance[rank:] + chance[:-rank]) / 2
        chance[:rank] /= 2
    return min(1.0, 2 * float(chance[: min(positive, negative) + 1].sum()))


def holm(p: npt.ArrayLike) -> Floats:
    """Holm: the i-th smallest of m becomes max over j <= i of (m - j + 1) p_j, at most 1."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    raised = values[order] * np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return adjusted


def blocks_needed(alpha: float, tests: int = 1) -> int:
    """The fewest blocks with which one of several signed-rank tests can reach alpha by Holm: 2
    tests / 2^n <= alpha.
    """
    return next(n for n in count(1) if tests * 2.0 ** (1 - n) <= alpha)


def paired_tests(
    frame: pd.DataFrame,
    reference: str | None = None,
    blocks: str = "scenarios",
    alpha: float = 0.05,
) -> pd.DataFrame | Refusal:
    """`signed_rank` for every pair of methods, or for the reference against every other, adjusted
    by Holm.

    A pair is compared over the scenarios and seeds that both methods have. The test takes blocks
    for independent, and runs of one scenario are not: they share data and mostly agree on who wins.
    Hence blocks="scenarios" (the mean over the common seeds first; Demsar 2006). With blocks="runs"
    every seed counts as a block of its own, p-values are too small, and the claim is about these
    scenarios only, not about new ones.

    Columns: method, other, blocks, difference (mean of method - other), wins, losses (blocks that
    the method won, and lost), p, p_holm, different (p_holm <= alpha), needed (if all pairs have
    fewer blocks than this, no p_holm can reach alpha, whatever the accuracies) and reason. A pair
    with too few blocks to reach alpha even before Holm is not tested: it has a reason, no p, and
    does not count for Holm. If that is every pair, a `Refusal`.
    """
    table = wide(frame)
    names = list(table)
    if reference is not None and reference not in names:
        raise unknown("method", reference, names)
    pairs: Iterable[tuple[str, str]] = combinations(names, 2)
    if reference is not None:
        pairs = ((reference, name) for name in names if name != reference)
    found = [_pair(in_blocks(table[[*pair]].dropna(), blocks), alpha) for pair in pairs]
    rows = pd.DataFrame(found)
    if rows.empty:
        return Refusal(f"a paired test needs 2 methods, there are {len(names)}")
    tested = rows["reason"] == ""
    if not tested.any():
        return Refusal(str(rows.loc[rows["blocks"].idxmax(), "reason"]))
    rows.loc[tested, "p_holm"] = holm(rows.loc[tested, "p"])
    rows["different"] = rows["p_holm"] <= alpha
    rows["needed"] = blocks_needed(alpha, int(tested.sum()))
    return rows[[*rows.columns[:6], "p", "p_holm", "different", "needed", "reason"]]


def _pair(both: pd.DataFrame, alpha: float) -> dict[str, object]:
    """Two methods over their common blocks."""
    d = np.round(both.iloc[:, 0].to_numpy() - both.iloc[:, 1].to_numpy(), DIGITS)
    needed = blocks_needed(alpha)
    enough = len(d) >= needed
    lack = f"needs {needed} blocks that both methods have, there are {len(d)}"
    return {
        "method": both.columns[0],
        "other": both.columns[1],
        "blocks": len(d),
        "difference": d.mean() if len(d) else np.nan,
        "wins": int((d > 0).sum()),
        "losses": int((d < 0).sum()),
        "p": signed_rank(d) if enough else np.nan,
        "p_holm": np.nan,
        "reason": "" if enough else f"a signed-rank test at {alpha:g} {lack}",
    }
