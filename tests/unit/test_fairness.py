"""Per-client fairness: gains, worst clients, Jain's index and variation by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from pflbench.errors import UserError
from pflbench.report.stats import fairness


def clients(table: dict[str, list[float]], seed: int = 0) -> pd.DataFrame:
    rows = [
        (m, "s", seed, i, value) for m, values in table.items() for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["method", "scenario", "seed", "client", "accuracy"])


def test_gains_are_those_of_the_same_client_scenario_and_seed():
    both = pd.concat(
        [
            clients({"Local": [0.5, 0.6], "FedX": [0.7, 0.5, 0.9]}),
            clients({"FedX": [0.9]}, seed=1),
        ]
    )
    table = fairness.gains(both, "Local")
    assert list(table.itertuples(index=False, name=None)) == [
        ("FedX", "s", 0, 0, 0.2),
        ("FedX", "s", 0, 1, -0.1),
    ]


def test_an_unknown_baseline_is_an_error():
    with pytest.raises(UserError, match="unknown method 'local'; did you mean 'Local'"):
        fairness.gains(clients({"Local": [0.5]}), "local")


def test_worst_decile_is_the_worst_tenth_rounded_up():
    assert fairness.worst_decile([0.9, 0.2, 0.5]) == pytest.approx(0.2)
    assert fairness.worst_decile(np.arange(20)[::-1] / 100) == pytest.approx(0.005)
    assert fairness.worst_decile(np.arange(21) / 100) == pytest.approx(0.01)  # three clients


@pytest.mark.filterwarnings("error")
def test_there_is_no_worst_decile_of_nobody():
    assert math.isnan(fairness.worst_decile([]))


def test_jain_and_variation_by_hand():
    assert fairness.jain([0.5, 0.5, 0.5]) == pytest.approx(1)
    assert fairness.jain([1, 0, 0, 0]) == pytest.approx(1 / 4)
    assert fairness.jain([0.2, 0.4]) == pytest.approx(0.36 / (2 * 0.2))
    assert fairness.variation([0.2, 0.4]) == pytest.approx(0.1 / 0.3)
    assert fairness.variation([0.0, 0.4]) == pytest.approx(1)  # some clients may have nothing
    assert math.isnan(fairness.jain([0, 0])) and math.isnan(fairness.variation([0, 0]))
    x = np.random.default_rng(0).random(30)
    assert fairness.jain(x) == pytest.approx(1 / (1 + fairness.variation(x) ** 2))


def test_client_summary_has_a_row_for_every_run():
    table = fairness.client_summary(
        clients(
            {
                "Local": [0.5, 0.6, 0.7, math.nan],
                "FedAvg": [0.2, 0.6, 0.8, 0.1],
                "FedX": [0.6, 0.6, 0.4, 0.9],
            }
        )
    ).set_index("method")
    assert [*table.index] == ["Local", "FedAvg", "FedX"]  # in order of appearance
    ours = table.loc["FedX"]
    assert (ours["scenario"], ours["seed"], ours["clients"], ours["accuracy"]) == (
        "s",
        0,
        4,
        pytest.approx(0.625),
    )
    assert ours["worst_decile"] == pytest.approx(0.4)
    assert ours["jain"] == pytest.approx(2.5**2 / (4 * 1.69))
    assert ours["gain_Local"] == pytest.approx((0.1 + 0 - 0.3) / 3)
    assert ours["harmed_Local"] == pytest.approx(1 / 3)  # an equal client is not harmed
    assert ours["gain_FedAvg"] == pytest.approx((0.4 + 0 - 0.4 + 0.8) / 4)
    assert ours["harmed_FedAvg"] == pytest.approx(1 / 4)
    assert math.isnan(table.loc["Local", "harmed_Local"])
    assert table.loc["Local", "clients"] == 3


def test_client_summary_without_its_baselines():
    table = fairness.client_summary(clients({"FedX": [0.6, 0.6]}))
    assert math.isnan(table["gain_Local"][0]) and math.isnan(table["harmed_FedAvg"][0])
