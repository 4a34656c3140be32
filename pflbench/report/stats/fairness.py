"""Per-client fairness: gains of single clients over a baseline, the worst clients, and how even all
are.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from pflbench.errors import unknown
from pflbench.report.stats.frames import DIGITS, runs

KEYS = ["method", "scenario", "seed"]


def gains(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Accuracy of every client minus its accuracy under the baseline, in the same scenario and
    seed.

    Columns: method, scenario, seed, client, gain; clients that both have, and no rows for the
    baseline itself.
    """
    kept = runs(frame, "client")
    if baseline not in set(kept["method"]):
        raise unknown("method", baseline, kept["method"].unique())
    keys = ["scenario", "seed", "client"]
    base = kept[kept["method"] == baseline].set_index(keys)["accuracy"].rename("base")
    both = kept[kept["method"] != baseline].join(base, on=keys, how="inner")
    both["gain"] = np.round(both["accuracy"] - both["base"], DIGITS)
    return both[["method", *keys, "gain"]].reset_index(drop=True)


def worst_decile(accuracy: npt.ArrayLike) -> float:
    """Mean accuracy of the worst tenth of clients, rounded up to whole clients."""
    x = np.sort(np.asarray(accuracy, dtype=float))
    return float(x[: math.ceil(len(x) / 10)].mean()) if len(x) else math.nan


def jain(accuracy: npt.ArrayLike) -> float:
    """Jain's index (sum x)^2 / (n sum x^2): 1 if all clients are equal, 1/n if one has all; nan if
    all are zero.
    """
    x = np.asarray(accuracy, dtype=float)
    squares = len(x) * float((x**2).sum())
    return float(x.sum()) ** 2 / squares if squares else math.nan


def variation(accuracy: npt.ArrayLike) -> float:
    """Coefficient of variation over clients, std / mean (std of all clients, not of a sample); nan
    if all are zero.
    """
    x = np.asarray(accuracy, dtype=float)
    return float(x.std() / x.mean()) if x.any() else math.nan


def client_summary(
    frame: pd.DataFrame, baselines: Sequence[str] = ("Local", "FedAvg")
) -> pd.DataFrame:
    """A row per run: method, scenario, seed, clients, accuracy (mean), worst_decile, jain,
    variation.

    If the table says which clients are `scarce`: their mean accuracy, and that of the others; nan
    where none is. And for every baseline gain_NAME (mean over clients) and harmed_NAME (share of
    clients with a gain below 0), nan for the baseline itself and where it was not run.
    """
    kept = runs(frame, "client")
    grouped = kept.groupby(KEYS, sort=False)["accuracy"]
    table = grouped.agg(["size", "mean"]).set_axis(["clients", "accuracy"], axis=1)
    for measure in (worst_decile, jain, variation):
        table[measure.__name__] = grouped.agg(measure)
    if "scarce" in kept:
        scarce, others = kept[kept["scarce"]], kept[~kept["scarce"]]
        table["scarce"] = scarce.groupby(KEYS)["accuracy"].mean()
        table["others"] = others.groupby(KEYS)["accuracy"].mean()
        table.loc[table["scarce"].isna(), "others"] = np.nan
    for name in baselines:
        table[[f"gain_{name}", f"harmed_{name}"]] = _against(kept, name).reindex(table.index)
    return table.reset_index()


def _against(kept: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """By run: the mean gain over a baseline, and the share of clients that lose; empty where it was
    not run.
    """
    if baseline not in set(kept["method"]):
        return pd.DataFrame({"gain": [], "harmed": []})
    found = gains(kept, baseline)
    found["harmed"] = found["gain"] < 0
    return found.groupby(KEYS)[["gain", "harmed"]].mean()
