"""Statistics of a report: how sure a number is, whether methods differ, and whom a method serves.

A frame has one row a run (method, setting, seed, accuracy), a run and client (also client), or a run and round (also
round). A higher accuracy is better; a row without one (nan) is missing. What the data cannot answer is answered by a
`Refusal`, which is a value and not an exception.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, count

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from pflbench.errors import UserError, unknown
from pflbench.rng import numpy_stream

Floats = npt.NDArray[np.float64]
DIGITS = 9  # differences that are smaller come from the order of additions: they are ties
SEEDS_NEEDED = 3
RESAMPLES = 9999
BLOCKS = ("settings", "runs")


@dataclass(frozen=True)
class Refusal:
    """Why there is no answer, in one line."""

    reason: str


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its bootstrap confidence interval."""

    mean: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True)
class Agreement:
    """Kendall's tau-b of two orders, its two-sided p-value, and the number of methods in both."""

    tau: float
    p: float
    methods: int


def runs(frame: pd.DataFrame, *finer: str) -> pd.DataFrame:
    """The rows that have an accuracy, one for a method, setting and seed (and client, or round)."""
    keys = ["method", "setting", "seed", *finer]
    missing = [name for name in [*keys, "accuracy"] if name not in frame]
    if missing:
        raise UserError(
            f"a table of runs has no column {missing[0]!r}; it needs {', '.join([*keys, 'accuracy'])}"
        )
    kept = frame.dropna(subset=["accuracy"])
    twice = kept.loc[kept.duplicated(keys), keys].to_numpy()
    if len(twice):
        what = ", ".join(f"{key} {value}" for key, value in zip(keys, twice[0], strict=True))
        raise UserError(f"a table of runs has two accuracies for {what}; one is allowed")
    return kept


def wide(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy with a row for every setting and seed, and a column for every method, in order of appearance."""
    kept = runs(frame)
    return kept.pivot(index=["setting", "seed"], columns="method", values="accuracy")[
        list(kept["method"].unique())
    ]


def in_blocks(table: pd.DataFrame, blocks: str) -> pd.DataFrame:
    """The rows of a `wide` table as `blocks`: the means over seeds of every setting, or all runs."""
    if blocks not in BLOCKS:
        raise unknown("kind of blocks", blocks, BLOCKS)
    return table.groupby(level="setting", sort=False).mean() if blocks == "settings" else table


def interval(values: npt.ArrayLike, level: float = 0.95) -> Interval | Refusal:
    """Percentile bootstrap of the mean of one value a seed; the resamples are the same in every call.

    Few seeds make it too narrow: for three and a level of 0.95 it is the range of the values, which covers the mean of
    a symmetric distribution three times in four. It never leaves the range of the values.
    """
    x = np.asarray(values, dtype=float)
    x = x[~np.isnan(x)]
    if len(x) < SEEDS_NEEDED:
        return Refusal(f"an interval over seeds needs {SEEDS_NEEDED} seeds, there are {len(x)}")
    generator = numpy_stream("report", "bootstrap")
    found = stats.bootstrap(
        (x,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=level,
        method="percentile",
        random_state=generator,
    ).confidence_interval
    return Interval(float(x.mean()), float(found.low), float(found.high), len(x))


def intervals(frame: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """`interval` of every method and setting: seeds, mean, low, high; the bounds are nan where there is a reason."""
    rows = []
    for (method, setting), group in runs(frame).groupby(["method", "setting"], sort=False):
        found = interval(group["accuracy"], level)
        low, high = (found.low, found.high) if isinstance(found, Interval) else (np.nan, np.nan)
        reason = found.reason if isinstance(found, Refusal) else ""
        rows.append((method, setting, len(group), group["accuracy"].mean(), low, high, reason))
    return pd.DataFrame(
        rows, columns=["method", "setting", "seeds", "mean", "low", "high", "reason"]
    )


def signed_rank(differences: npt.ArrayLike) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test, exact for any number of differences, ties and zeros.

    Ties have average ranks. Zeros are ranked, then left out of both sums (Pratt 1959, scipy's zero_method="pratt").
    scipy's "exact" is exact only without ties and zeros, so the distribution of W+ is built here: every rank r that is
    left has either sign with probability 1/2, hence P(w) <- (P(w) + P(w - r)) / 2, rank by rank.
    """
    d = np.round(np.asarray(differences, dtype=float), DIGITS)
    doubled = np.rint(2 * stats.rankdata(np.abs(d))).astype(
        int
    )  # an average rank is a multiple of 1/2
    positive, negative = (int(doubled[side].sum()) for side in (d > 0, d < 0))
    chance = np.zeros(positive + negative + 1)  # P(2 W+ = index)
    chance[0] = 1.0
    for rank in doubled[d != 0]:
        chance[rank:] = (chance[rank:] + chance[:-rank]) / 2
        chance[:rank] /= 2
    return min(1.0, 2 * float(chance[: min(positive, negative) + 1].sum()))


def holm(p: npt.ArrayLike) -> Floats:
    """Holm's adjustment: the i-th smallest of m is max over j <= i of (m - j + 1) p_j, at most 1."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(
        1.0, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    )
    return adjusted


def blocks_needed(alpha: float, tests: int = 1) -> int:
    """The fewest blocks with which one of several signed-rank tests can reach alpha by Holm: 2 tests / 2^n <= alpha."""
    return next(n for n in count(1) if tests * 2.0 ** (1 - n) <= alpha)


def paired_tests(
    frame: pd.DataFrame, reference: str | None = None, blocks: str = "settings", alpha: float = 0.05
) -> pd.DataFrame | Refusal:
    """`signed_rank` for every pair of methods, or for the reference against every other, adjusted by Holm.

    A pair is compared over the settings and seeds that both methods have. The test takes blocks for independent, and
    runs of one setting are not: they share data and mostly agree on who wins. Hence blocks="settings" (the mean over
    the common seeds first; Demsar 2006). With blocks="runs" every seed counts as a block of its own, p-values are too
    small, and the claim is about these settings only, not about new ones.

    Columns: method, other, blocks, difference (mean of method - other), wins, losses (blocks that the method won, and
    lost), p, p_holm, different (p_holm <= alpha), needed (if all pairs have fewer blocks than this, no p_holm can reach
    alpha, whatever the accuracies) and reason. A pair with too few blocks to reach alpha even before Holm is not
    tested: it has a reason, no p, and does not count for Holm. If that is every pair, a `Refusal`.
    """
    table = wide(frame)
    names = list(table)
    if reference is not None and reference not in names:
        raise unknown("method", reference, names)
    pairs = (
        combinations(names, 2)
        if reference is None
        else ((reference, name) for name in names if name != reference)
    )
    rows = pd.DataFrame(
        [_pair(in_blocks(table[[*pair]].dropna(), blocks), alpha) for pair in pairs]
    )
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
    row = {"method": both.columns[0], "other": both.columns[1], "blocks": len(d)}
    row |= {
        "difference": d.mean() if len(d) else np.nan,
        "wins": int((d > 0).sum()),
        "losses": int((d < 0).sum()),
    }
    if len(d) >= needed:
        return {**row, "p": signed_rank(d), "p_holm": np.nan, "reason": ""}
    reason = f"a signed-rank test at {alpha:g} needs {needed} blocks that both methods have, there are {len(d)}"
    return {**row, "p": np.nan, "p_holm": np.nan, "reason": reason}


def gains(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Accuracy of every client minus its accuracy under the baseline, in the same setting and seed.

    Columns: method, setting, seed, client, gain; clients that both have, and no rows for the baseline itself.
    """
    kept = runs(frame, "client")
    if baseline not in set(kept["method"]):
        raise unknown("method", baseline, kept["method"].unique())
    keys = ["setting", "seed", "client"]
    base = kept[kept["method"] == baseline].set_index(keys)["accuracy"].rename("base")
    both = kept[kept["method"] != baseline].join(base, on=keys, how="inner")
    both["gain"] = np.round(both["accuracy"] - both["base"], DIGITS)
    return both[["method", *keys, "gain"]].reset_index(drop=True)


def worst_decile(accuracy: npt.ArrayLike) -> float:
    """Mean accuracy of the worst tenth of clients, rounded up to whole clients."""
    x = np.sort(np.asarray(accuracy, dtype=float))
    return float(x[: math.ceil(len(x) / 10)].mean()) if len(x) else math.nan


def jain(accuracy: npt.ArrayLike) -> float:
    """Jain's index (sum x)^2 / (n sum x^2): 1 if all clients are equal, 1/n if one has all; nan if all are zero."""
    x = np.asarray(accuracy, dtype=float)
    squares = len(x) * float((x**2).sum())
    return float(x.sum()) ** 2 / squares if squares else math.nan


def variation(accuracy: npt.ArrayLike) -> float:
    """Coefficient of variation over clients, std / mean (std of all clients, not of a sample); nan if all are zero."""
    x = np.asarray(accuracy, dtype=float)
    return float(x.std() / x.mean()) if x.any() else math.nan


def client_summary(
    frame: pd.DataFrame, baselines: Sequence[str] = ("Local", "FedAvg")
) -> pd.DataFrame:
    """A row for every run: method, setting, seed, clients, accuracy (mean), worst_decile, jain, variation.

    If the table says which clients are `scarce`: their mean accuracy, and that of the others; nan where none is. And
    for every baseline gain_NAME (mean over clients) and harmed_NAME (share of clients with a gain below 0), nan for
    the baseline itself and where it was not run.
    """
    keys = ["method", "setting", "seed"]
    kept = runs(frame, "client")
    grouped = kept.groupby(keys, sort=False)["accuracy"]
    table = grouped.agg(["size", "mean"]).set_axis(["clients", "accuracy"], axis=1)
    for measure in (worst_decile, jain, variation):
        table[measure.__name__] = grouped.agg(measure)
    if "scarce" in kept:
        for name, few in (("scarce", True), ("others", False)):
            table[name] = kept[kept["scarce"] == few].groupby(keys)["accuracy"].mean()
        table.loc[table["scarce"].isna(), "others"] = np.nan
    for name in baselines:
        known = name in set(kept["method"])
        gain = gains(kept, name).groupby(keys)["gain"] if known else None
        table[f"gain_{name}"] = np.nan if gain is None else gain.mean()
        table[f"harmed_{name}"] = (
            np.nan if gain is None else gain.agg(lambda values: (values < 0).mean())
        )
    return table.reset_index()


def agreement(measured: "pd.Series[float]", published: "pd.Series[float]") -> Agreement | Refusal:
    """Kendall's tau-b of two scores by method (the index), over the methods in both; 1 is the same order.

    The p-value (that the orders have nothing to do with each other) is exact without ties, else a normal approximation.
    """
    for name, scores in (("measured", measured), ("published", published)):
        if scores.index.has_duplicates:
            twice = scores.index[scores.index.duplicated()][0]
            raise UserError(f"the {name} order has {twice!r} twice; once is allowed")
    both = (
        pd.concat([measured.rename("a"), published.rename("b")], axis=1, join="inner")
        .dropna()
        .round(DIGITS)
    )
    if len(both) < 3:
        return Refusal(f"a comparison of orders needs 3 methods in both, there are {len(both)}")
    if (both.nunique() == 1).any():
        return Refusal(
            "a comparison of orders needs methods that differ; in one order all are equal"
        )
    found = stats.kendalltau(both["a"], both["b"])
    return Agreement(float(found.statistic), float(found.pvalue), len(both))


def convergence_round(
    rounds: npt.ArrayLike, accuracy: npt.ArrayLike, length: int = 10, margin: float = 0.01
) -> float:
    """The first round from which the smoothed accuracy stays within the margin of its final level until the end.

    Of the n evaluated rounds (those with an accuracy, in order), s_i is the mean accuracy of the i-th and the
    length - 1 before it, i = length..n. The final level is s_n. The answer is the number of the earliest round i with
    |s_j - s_n| <= margin for all j >= i: at the earliest the length-th evaluated round, and later than the raw curve
    settles by up to length - 1 evaluated rounds. The margin is a fraction (0.01: a percentage point). A curve that
    still moves at the end gives a round near the end. nan if n < 2 length: the first window would share rounds with
    the last, and their distance would say little.
    """
    when, x = np.asarray(rounds), np.asarray(accuracy, dtype=float)
    order = np.argsort(when)
    order = order[~np.isnan(x[order])]
    if len(order) < 2 * length:
        return math.nan
    smooth = np.convolve(x[order], np.full(length, 1 / length), mode="valid")
    outside = np.flatnonzero(np.abs(smooth - smooth[-1]) > margin + 10.0**-DIGITS)
    first = int(outside[-1]) + 1 if len(outside) else 0
    return float(when[order][length - 1 + first])


def convergence(frame: pd.DataFrame, length: int = 10, margin: float = 0.01) -> pd.DataFrame:
    """`convergence_round` of every run: method, setting, seed, round."""
    keys = ["method", "setting", "seed"]
    rows = [
        (*key, convergence_round(group["round"], group["accuracy"], length, margin))
        for key, group in runs(frame, "round").groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*keys, "round"])
