"""What methods cost: rounds to convergence, seconds and bytes by hand, from made-up runs."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest

from pflbench.report.load.runs import Numbers
from pflbench.report.render.grid import significant
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import efficiency
from tests.factories.runs import by_method, layout, run

RISING = [0.1] * 10 + [0.5] * 20  # of 30 rounds; its moving average is at 0.5 from the 20th on
ROUNDS = "Rounds to convergence"


def costly(
    algorithm: str = "fedavg",
    curve: Sequence[float] = RISING,
    wall: Sequence[float] = (1.0, 3.0),
    **options: Any,
) -> Numbers:
    half = [seconds / 2 for seconds in wall]
    seconds = {"wall": wall, "client": half, "server": [0.5, 0.5]}
    return run(algorithm, [curve[-1]], curves={"pre": curve}, seconds=seconds, **options)


def tables(*runs: Numbers, margin: float = 0.01) -> tuple[dict[str, TablePart], list[str]]:
    parts, notes = efficiency.tables(layout(*runs, scale="small"), margin)
    return {part.name: part for part in parts}, notes


# Rounds to convergence


def test_rounds_to_convergence_depend_on_the_margin():
    """The mean of ten is 0.5 - 0.04 (20 - i) at round i in 10..20."""
    parts, notes = tables(costly())
    assert by_method(parts["efficiency"])["FedAvg"][ROUNDS] == "20.0"
    assert "within 0.01 of" in parts["efficiency"].caption
    assert notes == []
    parts, _ = tables(costly(), margin=0.08)
    assert by_method(parts["efficiency"])["FedAvg"][ROUNDS] == "18.0"


@pytest.mark.parametrize("point, expected", [("pre", "20.0"), ("post", "25.0")])
def test_convergence_is_that_of_the_curve_at_the_evaluation_point(point: str, expected: str):
    late = [0.1] * 15 + [0.5] * 15
    for curves in ({"pre": RISING, "post": late}, {"post": late, "pre": RISING}):
        parts, _ = tables(run(curves=curves, about={"point": point}))
        assert by_method(parts["efficiency"])["FedAvg"][ROUNDS] == expected


def test_pre_and_post_count_from_round_1():
    """Only `pre` has a round 0; the same curve from round 1 on gives the same round."""
    nineteen = [0.1] * 5 + [0.5] * 14
    pre, post = {"pre": [0.0, *nineteen]}, {"post": nineteen}
    runs = [run(curves=pre, first=0), run("local", curves=post, about={"point": "post"})]
    parts, notes = tables(*runs)
    assert ROUNDS not in parts["efficiency"].headers
    lack = "20 evaluated rounds from round 1 on are needed, there are 19"
    assert notes == [f"No rounds to convergence: {lack}."]
    pre, post = {"pre": [0.0, *RISING]}, {"post": RISING}
    runs = [run(curves=pre, first=0), run("local", curves=post, about={"point": "post"})]
    rows = by_method(tables(*runs)[0]["efficiency"])
    assert rows["FedAvg"][ROUNDS] == rows["Local"][ROUNDS] == "20.0"


def test_too_few_rounds_are_refused_with_the_number_needed():
    parts, notes = tables(costly(curve=[0.1] * 19))
    lack = "20 evaluated rounds from round 1 on are needed, there are 19"
    assert notes == [f"No rounds to convergence: {lack}."]
    assert ROUNDS not in parts["efficiency"].headers
    assert ROUNDS not in parts["efficiency"].caption


def test_a_run_that_is_stuck_at_its_start_did_not_improve():
    parts, notes = tables(costly(curve=[0.5] * 30), costly("local"))
    rows = by_method(parts["efficiency"])
    assert rows["FedAvg"][ROUNDS] == "did not improve"
    assert rows["Local"][ROUNDS] == "20.0"
    assert notes == [] and parts["efficiency"].notes == ()
    only_stuck, notes = tables(costly(curve=[0.5] * 30))
    assert by_method(only_stuck["efficiency"])["FedAvg"][ROUNDS] == "did not improve"
    assert "did not improve: " in only_stuck["efficiency"].caption and notes == []


def test_the_mean_is_of_the_runs_that_improved_and_a_note_counts_the_others():
    runs = [costly(), costly(curve=[0.5] * 30, seed=1), costly(seed=2)]
    part = tables(*runs)[0]["efficiency"]
    assert by_method(part)["FedAvg"][ROUNDS] == "20.0"
    said = "FedAvg: 1 of 3 runs did not improve, the rounds to convergence are of the others"
    assert part.notes == (f"{said}.",)
    parts, _ = tables(*runs, costly(curve=[0.5] * 30, partition="dir:1"))
    rest = "1 of 1 run did not improve, the rounds to convergence are of the others"
    first, second = (f"Digits, Dirichlet {beta}, N=20" for beta in (0.1, 1))
    for name in ("efficiency", "efficiency-scenarios"):
        assert parts[name].notes == (f"{said} ({first}); {rest} ({second}).",)
    assert by_method(parts["efficiency"])["FedAvg"][ROUNDS] == "20.0"


# Seconds


def test_seconds_are_means_over_rounds_seeds_and_scenarios_and_ratios_within_a_scenario():
    runs = [costly(wall=[1, 3]), costly(wall=[3, 5], seed=1)]
    runs += [costly(partition="path:2", wall=[10, 10]), costly("local", wall=[6, 6])]
    runs += [costly("local", partition="path:2", wall=[5, 5]), costly("local", seed=1)]
    found = by_method(tables(*runs)[0]["efficiency"])
    assert found["FedAvg"]["s per round"] == "6.500"  # ((2 + 4) / 2 + 10) / 2
    assert found["FedAvg"]["Clients (s)"] == "3.250"
    assert found["FedAvg"]["Server (s)"] == "0.500"
    assert found["FedAvg"]["Time / FedAvg"] == "1.00"
    assert found["Local"]["Time / FedAvg"] == "0.92"  # (4 / 3 + 5 / 10) / 2


def test_missing_scenarios_are_counted():
    missing = costly(partition="path:2", status="missing")
    parts, _ = tables(costly(), missing, costly("local", partition="path:2"))
    found = by_method(parts["efficiency"])
    assert found["FedAvg"]["Scenarios"] == "1 of 2"
    assert found["Local"]["Time / FedAvg"] == "\u2013"
    rows = [row for row in parts["efficiency-scenarios"].rows if row[1:3] == ("FedAvg", "0 of 1")]
    assert [set(row[3:]) for row in rows] == [{"\u2013"}]


def test_without_fedavg_there_is_no_ratio():
    parts, notes = tables(costly("local"), costly("fedavg", status="missing"))
    assert "Time / FedAvg" not in parts["efficiency"].headers
    assert notes == ["No seconds relative to FedAvg: it has no finished run."]
    assert tables(costly("local"))[1] == []


@pytest.mark.parametrize("cores, said", [(2, False), (4, True)])
def test_seconds_of_different_machines_are_noted(cores: int, said: bool):
    _, notes = tables(costly(), costly("local", about={"cores": cores}))
    assert any("2 kinds of machine" in note for note in notes) is said


# Communication


def test_bytes_are_summed_over_parts_and_means_over_rounds():
    sent = {"down theta": [2000.0, 4000.0], "down omega": [1000.0, 0.0], "up theta": [86.0, 85.0]}
    part = tables(costly(sent=sent), costly("local"))[0]["communication"]
    found = by_method(part)
    assert (found["FedAvg"]["kB down"], found["FedAvg"]["kB up"]) == ("3.50", "0.0855")
    assert (found["Local"]["kB down"], found["Local"]["kB up"]) == ("0", "0")
    assert found["FedAvg"]["Counted"] == "per round"
    formulas = (found["FedAvg"]["Formula, down"], found["FedAvg"]["Formula, up"])
    assert formulas == ("theta", "theta + 1")
    assert "1 kB = 1000 bytes" in part.caption


def test_a_one_shot_method_shows_its_total():
    sent = {"down W": [0.0, 3000.0, 0.0, 0.0], "up W": [8000.0, 0.0, 0.0, 0.0]}
    runs = [run("feddbl", sent=sent, about={"one_shot": True}, partition=p) for p in "ab"]
    parts, _ = tables(*runs, costly(sent=sent, partition="a"))
    for part in (parts["communication"], parts["efficiency-scenarios"]):
        found = by_method(part)
        once = [found["FedDBL"][name] for name in ("kB down", "kB up", "Counted")]
        assert once == ["3.00", "8.00", "total"]
        assert [found["FedAvg"][name] for name in ("kB down", "Counted")] == ["0.750", "per round"]
    (line, _) = csv.DictReader(io.StringIO(parts["communication"].csv))
    assert line["Counted"] == "per round"


def test_a_one_shot_method_has_no_rounds_to_convergence():
    runs = [run("feddbl", curves={"pre": RISING}, about={"one_shot": True}), costly()]
    assert by_method(tables(*runs)[0]["efficiency"])["FedDBL"][ROUNDS] == "one-shot"


def test_formulas_are_those_of_the_hyperparameters_that_were_used():
    runs = [run("feddbl", about={"costs": (f"{k} * C", "C")}, partition=f"dir:{k}") for k in (1, 2)]
    found = by_method(tables(*runs)[0]["communication"])
    assert found["FedDBL"]["Formula, down"] == "1 * C; 2 * C"
    assert found["FedDBL"]["Formula, up"] == "C"


def test_csv_has_bytes_to_the_last_one():
    """As float32 of 123,457 numbers, one more up: in megabytes, 0.493828 and a rounding."""
    sent = {"down theta": [493828.0] * 7, "up theta": [493828.0] * 7, "up n": [4.0] * 7}
    parts, _ = tables(costly(sent=sent), costly(sent=sent, partition="path:2"))
    (line,) = csv.DictReader(io.StringIO(parts["communication"].csv))
    assert (line["bytes down"], line["bytes up"]) == ("493828.0", "493832.0")
    lines = csv.DictReader(io.StringIO(parts["efficiency-scenarios"].csv))
    assert [line["bytes up"] for line in lines] == ["493832.0"] * 2
    assert [row[-3:-1] for row in parts["efficiency-scenarios"].rows] == [("494", "494")] * 2
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
def test_three_significant_digits(value: float, shown: str):
    assert significant(value) == shown
