"""What methods cost: rounds, seconds and bytes by hand, and the FedCoSR paper's numbers labelled as its own."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench import config
from pflbench.records.plan import Plan, Planned
from pflbench.report.grouping.layout import Layout, lay_out
from pflbench.report.load.runs import Experiment, Numbers
from pflbench.report.render.grid import significant
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import efficiency

DEFAULTS = config.as_json(config.Run("x"))
TITLES = {"local": "Local", "fedavg": "FedAvg", "mine": "Mine"}
FLAT = [0.1] * 10 + [0.5] * 20  # of 30 rounds; its moving average is at 0.5 from the 20th on


def run(
    algorithm: str = "fedavg",
    curve: Sequence[float] = FLAT,
    wall: Sequence[float] = (1.0, 3.0),
    *,
    seed: int = 0,
    partition: str = "dir:0.1",
    cores: int = 2,
    status: str = "finished",
    sent: Any = None,
) -> Numbers:
    values = {**DEFAULTS, "algorithm": algorithm, "seed": seed, "partition": partition}
    planned = Planned(
        f"{algorithm}-{partition}-{seed}", algorithm, f"digits {partition}", "", values
    )
    if status == "missing":
        return Numbers(planned, Path(planned.id), status)
    about = {
        "method": {
            "title": TITLES[algorithm],
            "evaluation_point": "pre",
            "down": "theta",
            "up": "theta + 1",
        },
        "data": {"title": "Digits"},
        "partition": {"digest": "d", "n_test": [1]},
        "machine": {"cores": cores},
    }
    return Numbers(
        planned,
        Path(planned.id),
        status,
        about=about,
        point="pre",
        evaluated=np.arange(1.0, len(curve) + 1),
        curves={"pre": np.array(curve)},
        clients=np.array([curve[-1]]),
        sent={name: np.array(sizes) for name, sizes in (sent or {}).items()},
        seconds={
            "wall": np.array(wall),
            "client": np.array(wall) / 2,
            "server": np.array([0.5, 0.5]),
        },
    )


def layout(*runs: Numbers) -> Layout:
    made = Experiment(
        Plan("trial", "A trial", "small", "", tuple(one.planned for one in runs)), runs
    )
    return lay_out(made, [made])


def rows(part: TablePart) -> dict[str, dict[str, str]]:
    return {
        row[part.headers.index("Method")]: dict(zip(part.headers, row, strict=True))
        for row in part.rows
    }


def tables(*runs: Numbers, margin: float = 0.01) -> tuple[dict[str, TablePart], list[str]]:
    parts, notes = efficiency.tables(layout(*runs), margin)
    return {part.name: part for part in parts}, notes


def test_rounds_to_settle_depend_on_the_margin():
    """The mean of ten is 0.5 - 0.04 (20 - i) at round i in 10..20."""
    parts, notes = tables(run())
    assert rows(parts["efficiency"])["FedAvg"]["Rounds to settle"] == "20.0"
    assert "within 0.01 of" in parts["efficiency"].caption
    assert notes == []
    parts, _ = tables(run(), margin=0.08)
    assert rows(parts["efficiency"])["FedAvg"]["Rounds to settle"] == "18.0"


def test_too_few_rounds_to_settle_are_refused_with_the_number_needed():
    parts, notes = tables(run(curve=[0.1] * 19))
    assert notes == ["No rounds to settle: 20 evaluated rounds are needed, there are 19."]
    assert "Rounds to settle" not in parts["efficiency"].headers
    assert "settle" not in parts["efficiency"].caption


def test_seconds_are_means_over_rounds_seeds_and_settings_and_ratios_within_a_setting():
    runs = [run(wall=[1, 3]), run(wall=[3, 5], seed=1), run(partition="path:2", wall=[10, 10])]
    runs += [
        run("local", wall=[6, 6]),
        run("local", partition="path:2", wall=[5, 5]),
        run("local", seed=1),
    ]
    found = rows(tables(*runs)[0]["efficiency"])
    assert found["FedAvg"]["s/round"] == "6.500"  # ((2 + 4) / 2 + 10) / 2
    assert found["FedAvg"]["s of clients"] == "3.250"
    assert found["FedAvg"]["s of server"] == "0.500"
    assert found["FedAvg"]["Time / FedAvg's"] == "1.00"
    assert found["Local"]["Time / FedAvg's"] == "0.92"  # (4 / 3 + 5 / 10) / 2


def test_settings_that_are_missing_are_counted():
    parts, _ = tables(
        run(), run(partition="path:2", status="missing"), run("local", partition="path:2")
    )
    found = rows(parts["efficiency"])
    assert found["FedAvg"]["Settings"] == "1 of 2"
    assert found["Local"]["Time / FedAvg's"] == "\u2013"
    missing = [row for row in parts["efficiency-settings"].rows if row[1:3] == ("FedAvg", "0 of 1")]
    assert [set(row[3:]) for row in missing] == [{"\u2013"}]


def test_without_fedavg_there_is_no_ratio():
    parts, notes = tables(run("local"), run("fedavg", status="missing"))
    assert "Time / FedAvg's" not in parts["efficiency"].headers
    assert notes == ["No seconds relative to FedAvg: no run of it is done."]
    assert tables(run("local"))[1] == []


def test_bytes_are_summed_over_parts_and_averaged_over_rounds():
    sent = {"down theta": [2000.0, 4000.0], "down omega": [1000.0, 0.0], "up theta": [86.0, 85.0]}
    part = tables(run(sent=sent), run("local"))[0]["communication"]
    found = rows(part)
    assert (found["FedAvg"]["kB down"], found["FedAvg"]["kB up"]) == ("3.50", "0.0855")
    assert (found["Local"]["kB down"], found["Local"]["kB up"]) == ("0", "0")
    assert (found["FedAvg"]["Formula, down"], found["FedAvg"]["Formula, up"]) == (
        "theta",
        "theta + 1",
    )
    assert "1 kB = 1000 bytes" in part.caption


def test_csv_has_bytes_to_the_last_one():
    """As float32 of 123,457 numbers, one more up: in megabytes, 0.493828 and a rounding."""
    sent = {"down theta": [493828.0] * 7, "up theta": [493828.0] * 7, "up n": [4.0] * 7}
    parts, _ = tables(run(sent=sent), run(sent=sent, partition="path:2"))
    (line,) = csv.DictReader(io.StringIO(parts["communication"].csv))
    assert (line["bytes down"], line["bytes up"]) == ("493828.0", "493832.0")
    lines = csv.DictReader(io.StringIO(parts["efficiency-settings"].csv))
    assert [line["bytes up"] for line in lines] == ["493832.0"] * 2
    assert [row[-2:] for row in parts["efficiency-settings"].rows] == [("494", "494")] * 2
    assert [row[2:4] for row in parts["communication"].numbers] == [(493828.0, 493832.0)]


@pytest.mark.parametrize(
    "value, shown",
    [
        (0.0, "0"),
        (0.0213, "0.0213"),
        (0.5, "0.500"),
        (4.9, "4.90"),
        (738.4, "738"),
        (44712.6, "44713"),
        (-1.5, "-1.50"),
    ],
)
def test_three_digits_that_count(value: float, shown: str):
    assert significant(value) == shown


def test_the_papers_numbers_are_labelled_and_only_for_its_methods():
    parts, _ = tables(run(), run("mine"))
    costs, sent = rows(parts["efficiency"]), rows(parts["communication"])
    assert (costs["FedAvg"]["The paper's rounds"], costs["FedAvg"]["The paper's s/round"]) == (
        "33.33",
        "45.17",
    )
    assert (costs["Mine"]["The paper's rounds"], costs["Mine"]["The paper's s/round"]) == (
        "\u2013",
        "\u2013",
    )
    assert (sent["FedAvg"]["The paper's claim"], sent["Mine"]["The paper's claim"]) == (
        "2 (theta)",
        "\u2013",
    )
    assert (
        "FedCoSR paper" in parts["efficiency"].caption
        and "not measured here" in parts["efficiency"].caption
    )
    assert "Scale: small." in parts["efficiency"].caption


@pytest.mark.parametrize("cores, said", [(2, False), (4, True)])
def test_seconds_of_different_machines_are_told_of(cores: int, said: bool):
    _, notes = tables(run(), run("local", cores=cores))
    assert any("2 kinds of machine" in note for note in notes) is said
