"""How sure a mean over seeds is."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from pflbench.report.stats.frames import Refusal, runs
from pflbench.rng import numpy_stream

SEEDS_NEEDED = 3
RESAMPLES = 9999


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its bootstrap confidence interval."""

    mean: float
    low: float
    high: float
    seeds: int


def interval(values: npt.ArrayLike, level: float = 0.95) -> Interval | Refusal:
    """Percentile bootstrap of the mean of one value per seed; the resamples are the same in every
    call.

    Few seeds make it too narrow: for three and a level of 0.95 it is the range of the values, which
    covers the mean of a symmetric distribution three times in four. It never leaves the range of
    the values.
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
    """`interval` of every method and scenario: seeds, mean, low, high; the bounds are nan where
    there is a reason.
    """
    rows = []
    for (method, scenario), group in runs(frame).groupby(["method", "scenario"], sort=False):
        found = interval(group["accuracy"], level)
        low, high = (found.low, found.high) if isinstance(found, Interval) else (np.nan, np.nan)
        reason = found.reason if isinstance(found, Refusal) else ""
        rows.append((method, scenario, len(group), group["accuracy"].mean(), low, high, reason))
    return pd.DataFrame(
        rows, columns=["method", "scenario", "seeds", "mean", "low", "high", "reason"]
    )
