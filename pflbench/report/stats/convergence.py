"""Rounds to convergence."""

import math

import numpy as np
import numpy.typing as npt

from pflbench.report.stats.frames import DIGITS

DID_NOT_IMPROVE = math.inf


def convergence_round(
    rounds: npt.ArrayLike, accuracy: npt.ArrayLike, length: int = 10, margin: float = 0.01
) -> float:
    """The first round from which the smoothed accuracy stays within the margin of its final level
    until the end.

    Of the n evaluated rounds from round 1 on (round 0 is before any training, and only `pre` has
    it), x_i is the mean accuracy and s_i the mean of x_i and the length - 1 before it, i =
    length..n. The final level is s_n. The answer is the number of the earliest round i with |s_j -
    s_n| <= margin for all j >= i: at the earliest the length-th evaluated round, and later than the
    raw curve by up to length - 1 evaluated rounds. The margin is a fraction (0.01: a percentage
    point). A curve that still moves at the end gives a round near the end.

    DID_NOT_IMPROVE if no s_i is above x_1 by more than the margin: such a run has not converged, it
    is stuck at its start. nan if n < 2 length: the first window would share rounds with the last,
    and their distance would say little.
    """
    when, x = np.asarray(rounds, dtype=float), np.asarray(accuracy, dtype=float)
    order = np.argsort(when)
    order = order[(when[order] >= 1) & ~np.isnan(x[order])]
    if len(order) < 2 * length:
        return math.nan
    smooth = np.convolve(x[order], np.full(length, 1 / length), mode="valid")
    tolerance = margin + 10.0**-DIGITS
    if smooth.max() - x[order[0]] <= tolerance:
        return DID_NOT_IMPROVE
    outside = np.flatnonzero(np.abs(smooth - smooth[-1]) > tolerance)
    first = int(outside[-1]) + 1 if len(outside) else 0
    return float(when[order][length - 1 + first])
