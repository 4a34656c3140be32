"""A method is edited between two sweeps in one folder: what `sweep`, `status` and `report` print and show."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pflbench.data import datasets
from pflbench.methods import versions
from pflbench.methods.hyperparameters import make_run
from pflbench.records.leases import Leases
from pflbench.sweep.launchers import task
from pflbench.testing import TOY

from .commands import Call

PLUGIN = '''"""Mine (nobody, "nothing", nowhere 2025), Algorithm 1.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: none.
"""

from pflbench.api import Algorithm
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


class Mine(Algorithm):
    title = "Mine"
    family = "Standard"

    def costs(self):
        return "theta", "theta + 1"

    def client_update(self, client, message):
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {}

    def aggregate(self, server, replies):
        theta = weighted_mean(replies, "theta")
        return {"theta": theta}  # a comment

    def personal_model(self, client, message):
        return message["theta"]
'''
EXPERIMENT = """
title = "two methods"
algorithms = ["mine.py", "local"]
seeds = {seeds}
dataset = "digits"
partition = "iid"
clients = 4
max_samples = 60
rounds = 2
model = "mlp"
width = 8
"""
SWEEP = ("sweep", "two.toml", "--out", "runs", "--jobs", "1", "--quiet")
STATES = [
    "experiment",
    "scale",
    "runs",
    "finished",
    "diverged",
    "failed",
    "outdated",
    "damaged",
    "running",
    "missing",
    "left",
]


@pytest.fixture
def swept(call: Call) -> str:
    """Two seeds of two methods are swept; the version of the one that is edited later."""
    Path("mine.py").write_text(PLUGIN)
    Path("two.toml").write_text(EXPERIMENT.format(seeds=2))
    assert call(*SWEEP) == (0, "4 runs: 4 finished; records in runs\n", "")
    return versions.current("mine.py")


def edit(old: str, new: str) -> str:
    """Edit the method; its version."""
    text = Path("mine.py").read_text()
    assert old in text
    Path("mine.py").write_text(text.replace(old, new))
    return versions.current("mine.py")


def written() -> dict[str, int]:
    """When the records of all runs were written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in Path("runs").glob("*/run*.json*")}


def test_a_comment_outdates_nothing(call: Call, swept: str):
    before = written()
    assert edit("# a comment", "# another comment") == swept
    assert call(*SWEEP) == (0, "4 runs: 4 finished; records in runs\n", "")
    assert written() == before


def test_an_edited_method_is_outdated_run_again_and_never_mixed(call: Call, swept: str):
    now = edit('{"theta": theta}', '{"theta": {name: 0 * p for name, p in theta.items()}}')
    line = f"outdated: mine: 2 runs are of version {swept}, it is now {now}"

    # Before a new sweep: the old results are shown, and marked.
    assert status(call) == ["two         paper  4     2         0         0       2", line]
    assert reported(call) == [
        "two: 4 runs, of them 2 outdated",
        f"{line}; sweep runs them again",
    ]
    assert cell("Mine") == ("2", "yes", mean(accuracy(0, swept), accuracy(1, swept)))
    assert cell("Local")[:2] == ("2", "no")
    assert "¶: from an earlier version of the method" in table()

    # The old ones are kept on request. A third seed is run as the method is now: only that one counts.
    Path("two.toml").write_text(EXPERIMENT.format(seeds=3))
    assert call(*SWEEP, "--keep-outdated") == (
        0,
        f"{line}; they are kept\n6 runs: 4 finished, 2 outdated; records in runs\n",
        "",
    )
    assert status(call) == ["two         paper  6     4         0         0       2", line]
    assert reported(call)[0] == "two: 6 runs, of them 2 outdated"
    assert cell("Mine") == ("1", "no", mean(accuracy(2, now)))
    assert cell("Local")[:2] == ("3", "no")

    # Otherwise they are run again, and nothing is overwritten.
    before = written()
    assert call(*SWEEP) == (
        0,
        f"{line}; they are run again, --keep-outdated keeps them\n"
        "6 runs: 6 finished; records in runs\n",
        "",
    )
    assert written().items() >= before.items()
    assert status(call) == ["two         paper  6     6         0         0       0"]
    assert reported(call) == []
    assert cell("Mine") == ("3", "no", mean(*(accuracy(seed, now) for seed in range(3))))
    assert accuracy(0, swept) != accuracy(0, now)


def status(call: Call) -> list[str]:
    """What `status` prints: the counts up to the outdated ones, and the lines below the table."""
    code, out, err = call("status", "runs")
    header, row, *lines = out.splitlines()
    assert (code, err) == (0, "")
    assert header.split() == STATES
    return [row[: header.index("damaged")].rstrip(), *lines]


def reported(call: Call) -> list[str]:
    """What `report` says of runs that are not finished or outdated."""
    code, out, err = call("report", "runs", "--only", "tables")
    assert (code, err) == (0, "")
    return [line for line in out.splitlines() if line.startswith(("two:", "outdated:"))]


def table() -> str:
    return Path("runs/report/two/accuracy.md").read_text()


def cell(method: str) -> tuple[str, str, Any]:
    """Of a method in the table: seeds, whether they are outdated, accuracy in percent."""
    with Path("runs/report/two/accuracy.csv").open(newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["method"] == method]
    return row["seeds"], row["outdated"], pytest.approx(float(row["accuracy"]))


def accuracy(seed: int, version: str) -> float:
    """Of a run, by its record: in percent, mean over clients."""
    (folder,) = Path("runs").glob(f"mine-*-s{seed}-*-{version}")
    last = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])
    return 100 * mean(*last["accuracy"]["pre"])


def mean(*values: float) -> float:
    return sum(values) / len(values)


def test_a_method_that_changes_during_a_sweep_fails_and_is_run_again_by_the_next(call: Call):
    Path("mine.py").write_text(PLUGIN)
    run = make_run("mine.py", {**TOY, "rounds": 1}, {})
    leases = Leases(Path("runs"))
    leases.open()
    lease = leases.claim(run.id)
    assert lease
    data = datasets.load(run.dataset)
    edit("theta + 1", "theta + 2")
    assert task.do(task.Task(run, "mine.py", data, Path("runs"), lease, "paper")) is None
    assert leases.status(run.id)["reason"] == (
        "the method's code changed after the sweep started; the same command runs it as it is now"
    )
    assert not (Path("runs") / run.id / "rounds.jsonl").exists()
