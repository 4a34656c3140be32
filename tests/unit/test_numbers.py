"""A run's numbers from its files, by hand."""

from pathlib import Path
from typing import Any

import pytest

from pflbench.report.load import runs
from pflbench.report.load.runs import Choice, Numbers
from tests.factories.run_files import write_run
from tests.factories.runs import about_run, planned

PARTITION = {"n_train": [5, 5], "n_test": [1, 3], "n_validation": [3, 1]}
SENT = {"down": {"theta": 493828 * 2}, "up": {"theta": 493828 * 2, "n": 8}}
PLAYED = {"cohort": [0, 1], "bytes": SENT}
# The first client is right, then the second.
LINES: list[dict[str, Any]] = [
    {"round": 0, "accuracy": {"pre": [0.0, 0.0], "pre_validation": [0.0, 0.0]}},
    {
        **{"round": 1, **PLAYED, "loss": 2.0, "notes": ["of round 1"]},
        "accuracy": {"pre": [1, 0], "post": [1, 1], "pre_validation": [1, 0]},
    },
    {
        **{"round": 2, **PLAYED, "loss": None, "notes": ["of round 2", "twice", "twice"]},
        "accuracy": {"pre": [0, 1], "post": [0, 0], "pre_validation": [0, 1]},
    },
]


def read(folder: Path, choice: Choice, *later: Any, end: str = "", **method: Any) -> Numbers:
    """The run after the lines of LINES and `later`; its last line is `end`."""
    run = planned("mine", rounds=2, clients=2)
    about = about_run(run.config, 2)
    about["method"].update(method)
    about["partition"].update(PARTITION)
    path = write_run(folder, run, "" if end else "finished", about=about, lines=[*LINES, *later])
    with (path / "rounds.jsonl").open("a") as file:
        file.write(end)
    return runs.read(path, run, choice)


def test_clients_are_weighted_by_the_samples_that_they_are_evaluated_on(tmp_path: Path):
    run = read(tmp_path, Choice("validation", weighted=True))
    assert run.curves["pre"].tolist() == [0, 1 / 4, 3 / 4]
    assert run.curves["pre_validation"].tolist() == [0, 3 / 4, 1 / 4]
    assert (run.chosen, run.clients.tolist()) == (1, [1, 0])
    assert read(tmp_path, Choice("best", weighted=True)).chosen == 2


@pytest.mark.parametrize(
    "choice, chosen, clients",
    [
        (Choice(), 2, [0, 1]),
        (Choice("last10"), 2, [1 / 3, 1 / 3]),
        (Choice(point="post"), 2, [0, 0]),
        (Choice("best", "post"), 1, [1, 1]),
        (Choice("validation"), 1, [1, 0]),  # both rounds are equally good: the first
    ],
)
def test_the_choice_of_a_round_and_an_evaluation_point(
    tmp_path: Path, choice: Choice, chosen: int, clients: list[float]
):
    run = read(tmp_path, choice)
    assert (run.chosen, run.clients.tolist()) == (chosen, clients)


def test_the_mean_of_the_last_ten_evaluated_rounds(tmp_path: Path):
    """Rounds 3 to 12 follow, the accuracy of round r is r / 100."""
    later = [{"round": r, **PLAYED, "accuracy": {"pre": [r / 100, r / 100]}} for r in range(3, 13)]
    run = read(tmp_path, Choice("last10"), *later)
    assert run.clients.tolist() == pytest.approx([0.075, 0.075])
    assert run.chosen == 12


def test_a_client_without_an_accuracy_is_in_no_mean(tmp_path: Path):
    line = {"round": 3, **PLAYED, "accuracy": {"pre": [None, 0.5]}}
    run = read(tmp_path, Choice(), line)
    assert run.curves["pre"][-1] == 0.5
    assert run.clients.tolist() == pytest.approx([float("nan"), 0.5], nan_ok=True)


def test_bytes_are_those_of_a_client_and_exact(tmp_path: Path):
    run = read(tmp_path, Choice())
    assert {name: series.tolist() for name, series in run.sent.items()} == {
        "down theta": [493828, 493828],
        "up n": [4, 4],
        "up theta": [493828, 493828],
    }
    assert (run.traffic("down"), run.traffic("up")) == (493828, 493832)
    assert run.loss.tolist() == pytest.approx([2.0, float("nan")], nan_ok=True)


def test_logs_are_means_over_the_clients_that_logged_them(tmp_path: Path):
    logs = {"logs": {"tau": [0.25, 0.75]}, "server": {"moved": 3.0}}
    later = {"logs": {"tau": [None, 1.0]}, "server": {}, "evaluated": {"beta": [0.5, None]}}
    lines = [{"round": 3, **PLAYED, **logs}, {"round": 4, **PLAYED, **later}]
    nan = float("nan")
    found = {name: curve.tolist() for name, curve in read(tmp_path, Choice(), *lines).logs.items()}
    assert list(found) == ["tau", "moved (server)", "beta (evaluation)"]
    assert found["tau"] == pytest.approx([nan, nan, 0.5, 1.0], nan_ok=True)
    assert found["moved (server)"] == pytest.approx([nan, nan, 3.0, nan], nan_ok=True)
    assert found["beta (evaluation)"] == pytest.approx([nan, nan, nan, 0.5], nan_ok=True)


def test_the_traffic_of_a_one_shot_method_is_its_total(tmp_path: Path):
    run = read(tmp_path, Choice(), one_shot=True)
    assert (run.traffic("down"), run.traffic("up")) == (2 * 493828, 2 * 493832)


def test_notes_are_those_of_the_chosen_round(tmp_path: Path):
    assert read(tmp_path, Choice()).notes == ("of round 2", "twice")
    assert read(tmp_path, Choice("last10")).notes == ("of round 2", "twice")
    assert read(tmp_path, Choice("validation")).notes == ("of round 1",)


@pytest.mark.parametrize(
    "end",
    [
        '{"round": 3, "accu',
        '{"round": 3, "accuracy": {"pre": [NaN',
        "\x00\x00",
        '{"round": "\u00e9',
    ],
)
def test_a_line_that_is_half_written_is_left_out(tmp_path: Path, end: str):
    assert read(tmp_path, Choice(), end=end).evaluated.tolist() == [0, 1, 2]
