"""Tables of runs, as all statistics take them.

A frame has one row per run (method, scenario, seed, accuracy) or per run and client (also client).
A higher accuracy is better; a row without one (nan) is missing. What the data cannot answer is
answered by a `Refusal`, which is a value and not an exception.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from pflbench.errors import UserError, unknown

Floats = npt.NDArray[np.float64]
DIGITS = 9  # differences that are smaller come from the order of additions: they are ties
BLOCKS = ("scenarios", "runs")


@dataclass(frozen=True)
class Refusal:
    """Why there is no answer, in one line."""

    reason: str


def runs(frame: pd.DataFrame, *finer: str) -> pd.DataFrame:
    """The rows that have an accuracy, one for a method, scenario and seed (and client)."""
    keys = ["method", "scenario", "seed", *finer]
    missing = [name for name in [*keys, "accuracy"] if name not in frame]
    if missing:
        needed = ", ".join([*keys, "accuracy"])
        raise UserError(f"a table of runs has no column {missing[0]!r}; it needs {needed}")
    kept = frame.dropna(subset=["accuracy"])
    twice = kept.loc[kept.duplicated(keys), keys].to_numpy()
    if len(twice):
        what = ", ".join(f"{key} {value}" for key, value in zip(keys, twice[0], strict=True))
        raise UserError(f"a table of runs has two accuracies for {what}; one is allowed")
    return kept


def wide(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy with a row for every scenario and seed, and a column for every method, in order of
    appearance.
    """
    kept = runs(frame)
    table = kept.pivot(index=["scenario", "seed"], columns="method", values="accuracy")
    return table[list(kept["method"].unique())]


def in_blocks(table: pd.DataFrame, blocks: str) -> pd.DataFrame:
    """The rows of a `wide` table as `blocks`: means over seeds per scenario, or all runs."""
    if blocks not in BLOCKS:
        raise unknown("kind of blocks", blocks, BLOCKS)
    return table.groupby(level="scenario", sort=False).mean() if blocks == "scenarios" else table
