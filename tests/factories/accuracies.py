"""Accuracies of made-up runs as statistics take them: a row per run."""

import pandas as pd


def by_method(table: dict[str, list[float]], seeds: int = 1) -> pd.DataFrame:
    """Runs from a list of accuracies per method: scenario by scenario, and in a scenario seed by
    seed.
    """
    return pd.DataFrame(
        [
            {"method": method, "scenario": f"s{i // seeds}", "seed": i % seeds, "accuracy": value}
            for method, values in table.items()
            for i, value in enumerate(values)
        ]
    )


def by_scenario(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Runs from a table with a row per scenario and a column per method."""
    long = table.rename_axis("scenario").reset_index()
    return long.melt("scenario", var_name="method", value_name="accuracy").assign(seed=seed)
