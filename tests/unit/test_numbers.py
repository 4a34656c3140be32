"""A run's numbers from its files, by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from pflbench.records.plan import Planned
from pflbench.report.load import runs
from pflbench.report.load.runs import Choice, Numbers

ABOUT = {
    "method": {"title": "Mine", "evaluation_point": "pre"},
    "partition": {"n_train": [5, 5], "n_test": [1, 3], "n_validation": [3, 1]},
}
SENT = {"down": {"theta": 493828 * 2}, "up": {"theta": 493828 * 2, "n": 8}}
# The first client is right, then the second.
LINES = [
    {"round": 0, "accuracy": {"pre": [0.0, 0.0], "pre_validation": [0.0, 0.0]}},
    {
        "round": 1,
        "cohort": [0, 1],
        "bytes": SENT,
        "loss": 2.0,
        "accuracy": {"pre": [1, 0], "pre_validation": [1, 0]},
    },
    {
        "round": 2,
        "cohort": [0, 1],
        "bytes": SENT,
        "loss": None,
        "accuracy": {"pre": [0, 1], "pre_validation": [0, 1]},
    },
]


def read(folder: Path, choice: Choice, end: str = "") -> Numbers:
    (folder / "run.json").write_text(json.dumps(ABOUT))
    (folder / "rounds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in LINES) + end)
    config: dict[str, Any] = {
        "algorithm": "mine",
        "dataset": "digits",
        "partition": "iid",
        "seed": 0,
        "rounds": 2,
    }
    return runs.read(folder, Planned("mine", "mine", "", "", config), "finished", choice)


def test_clients_are_weighted_by_the_samples_that_they_are_scored_on(tmp_path: Path):
    run = read(tmp_path, Choice("validation", weighted=True))
    assert run.curves["pre"].tolist() == [0, 1 / 4, 3 / 4]
    assert run.curves["pre_validation"].tolist() == [0, 3 / 4, 1 / 4]
    assert (run.chosen, run.clients.tolist()) == (1, [1, 0])
    assert read(tmp_path, Choice("best", weighted=True)).chosen == 2


def test_bytes_are_those_of_a_client_and_exact(tmp_path: Path):
    run = read(tmp_path, Choice())
    assert {name: series.tolist() for name, series in run.sent.items()} == {
        "down theta": [493828, 493828],
        "up n": [4, 4],
        "up theta": [493828, 493828],
    }
    assert run.loss.tolist() == pytest.approx([2.0, float("nan")], nan_ok=True)


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
    assert read(tmp_path, Choice(), end).evaluated.tolist() == [0, 1, 2]
