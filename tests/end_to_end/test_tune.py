"""Tuning as a user types it: the same result however it is done, and never a look at a test sample's accuracy."""

import csv
import json
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from pflbench.records import integrity

from .commands import done, finished, history, numbers, started, wait_until

TINY = """
title = "two methods"
algorithms = ["fedprox", "local"]
seeds = 2
dataset = "digits"
partition = "dir:0.5"
max_samples = 60
clients = 4
rounds = 2
model = "mlp"
width = 16
"""
TRIALS = 6  # two generations, the second of them cut short


def tune(file: Path, out: Path, *more: str) -> list[str]:
    return f"tune {file} --out {out} --trials {TRIALS}".split() + list(more)


def results(out: Path) -> dict[str, bytes]:
    """What tuning writes, and the numbers of its runs."""
    files = {name: (out / name).read_bytes() for name in ("tuned.toml", "tuning.md", "tuning.csv")}
    return files | numbers(out)


def starts(out: Path) -> list[int]:
    """How often every run was started."""
    return [events.count("started") for events in history(out).values()]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def whole(file: Path) -> Path:
    """The folder of an unbroken search, two runs at a time."""
    out = file.parent / "whole"
    said = done(*tune(file, out, "--jobs", "2"))
    assert "finished: fedprox, digits dir:0.5, trial 0, seed 1000: " in said
    assert "(validation)" in said
    assert f"next: pflbench sweep {out}/tuned.toml" in said
    assert starts(out) == [1] * 2 * TRIALS
    return out


def test_killed_and_gone_on_with_one_job_it_is_the_same(file: Path, whole: Path, tmp_path: Path):
    broken = tmp_path / "broken"
    process = started(*tune(file, broken, "--jobs", "1"))
    wait_until(lambda: finished(broken) >= 5, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    ended = {path: path.stat().st_mtime_ns for path in broken.glob("*/status.json")}
    assert 5 <= len(ended) < 2 * TRIALS
    assert not (broken / "tuned.toml").exists()
    done(*tune(file, broken, "--jobs", "1"))
    assert results(broken) == results(whole)
    assert {path: path.stat().st_mtime_ns for path in ended} == ended


def test_two_at_once_share_the_runs(file: Path, whole: Path, tmp_path: Path):
    out = tmp_path / "shared"
    both = [started(*tune(file, out, "--jobs", "1")) for _ in range(2)]
    ends = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert results(out) == results(whole)
    assert starts(out) == [1] * 2 * TRIALS


def test_accuracies_on_test_samples_change_nothing(file: Path, whole: Path, tmp_path: Path, call):
    out = tmp_path / "noise"
    shutil.copytree(whole, out)
    noise = random.Random(3)
    changed = 0
    for path in out.glob("*/rounds.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            for series, values in line["accuracy"].items():
                if not series.endswith("_validation"):
                    line["accuracy"][series] = [noise.random() for _ in values]
                    changed += 1
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        status = json.loads((path.parent / "status.json").read_text())
        status["records"] = integrity.sums(path.parent)  # or the run would count as damaged
        (path.parent / "status.json").write_text(json.dumps(status))
    assert changed > 2 * TRIALS
    for name in ("tuned.toml", "tuning.md", "tuning.csv"):
        (out / name).unlink()
    code, _, _ = call(*tune(file, out))
    assert code == 0
    after, before = results(out), results(whole)
    assert [after[name] == before[name] for name in ("tuned.toml", "tuning.md", "tuning.csv")] == [
        True
    ] * 3
    assert after != before  # the noise is there


def test_the_first_trial_is_the_default_and_all_methods_have_as_many(file: Path, whole: Path, call):
    code, out, _ = call(*tune(file, whole, "--json"))
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [(row["method"], row["scenario"], row["trials"]) for row in rows] == [
        ("FedProx", "digits dir:0.5", TRIALS),
        ("Local", "digits dir:0.5", TRIALS),
    ]
    for row, method, point in zip(rows, ("fedprox", "local"), ("pre", "post"), strict=True):
        settings = "--dataset digits --partition dir:0.5 --max-samples 60 --clients 4 --rounds 2 --model mlp --width 16"
        words = [
            *settings.split(),
            "--seed",
            "1000",
            "--validation",
            "0.2",
            "--out",
            str(whole),
            "--json",
        ]
        code, out, _ = call("run", method, *words)
        shown = json.loads(out)  # the run with all defaults was there: the same id
        records = (whole / shown["id"] / "rounds.jsonl").read_text().splitlines()
        known = [
            value
            for value in json.loads(records[-1])["accuracy"][f"{point}_validation"]
            if value is not None
        ]
        assert row["default"] == pytest.approx(sum(known) / len(known))
        assert row["best"] >= row["default"]
    assert starts(whole) == [1] * 2 * TRIALS


def test_a_sweep_of_the_tuned_experiment_runs(whole: Path, tmp_path: Path, call):
    swept = tmp_path / "swept"
    code, out, complained = call(
        "sweep", str(whole / "tuned.toml"), "--out", str(swept), "--jobs", "1", "--quiet"
    )
    assert (code, out.split(";")[0]) == (0, "4 runs: 4 finished"), complained
    best = {row["algorithm"]: row for row in _best(whole)}
    found = [json.loads(path.read_text())["config"] for path in swept.glob("*/run.json")]
    for run in found:
        assert best[run["algorithm"]]["values"].items() <= run["hparams"].items()
        assert (run["validation"], run["rounds"]) == (0.0, 2)
    assert sorted((run["algorithm"], run["seed"]) for run in found) == [
        (method, seed) for method in ("fedprox", "local") for seed in (0, 1)
    ]
    code, out, _ = call("report", str(swept), "--only", "tables")
    assert code == 0
    tables = "".join(path.read_text() for path in (swept / "report").rglob("*.csv"))
    assert "FedProx: tuned" in tables


def _best(folder: Path) -> list[dict[str, Any]]:
    """The rows of tuning.csv with their values as numbers."""
    rows = [line.split(",") for line in (folder / "tuning.csv").read_text().splitlines()[1:]]
    pairs = [[word.split("=") for word in row[-1].split()] for row in rows]
    values = [{name: float(value) for name, value in pair} for pair in pairs]
    return [
        {"algorithm": row[0].lower(), "values": one} for row, one in zip(rows, values, strict=True)
    ]


def test_a_dry_run_shows_what_is_searched_and_writes_nothing(file: Path, tmp_path: Path, call):
    code, out, _ = call(
        "tune",
        str(file),
        "--out",
        "none",
        "--dry-run",
        "--trials",
        "8",
        "--seed",
        "5",
        "--seed",
        "6",
    )
    assert code == 0
    assert [line.split() for line in out.splitlines()[:4]] == [
        ["method", "hyperparameter", "first", "searched"],
        ["FedProx", "lr", "0.01", "0.0001", "..", "1.0,", "log"],
        ["FedProx", "mu", "0.01", "0.0001", "..", "10.0,", "log"],
        ["Local", "lr", "0.003", "0.0001", "..", "1.0,", "log"],
    ]
    assert "2 methods x 1 scenario x 8 trials x 2 seeds: 32 runs\nabout " in out
    assert not (tmp_path / "none").exists()


def test_a_grid_is_tried_as_it_is_written(file: Path, tmp_path: Path, call):
    code, said, _ = call(
        "tune", str(file), "--grid", "lr=0.01,0.1", "--methods", "fedavg", "--out", "out"
    )
    assert code == 0
    assert [line.split(": ")[0] for line in said.splitlines()][:2] == ["finished"] * 2
    (row,) = csv.DictReader((tmp_path / "out/tuning.csv").read_text().splitlines())
    assert (row["trials"], row["values"]) == ("2", f"lr={0.1 if row['trial'] == '1' else 0.01}")
    code, said, _ = call("tune", str(file), "--grid", "lr=0.01,0.1", "--dry-run", "--no-probe")
    assert (code, said.splitlines()[-1]) == (0, "2 methods x 1 scenario x 2 or 3 trials: 5 runs")
    more = ["--grid", "lr=0.01,0.1", "--grid", "fedprox.mu=0.1,1"]
    code, said, _ = call("tune", str(file), *more, "--dry-run", "--no-probe")
    assert [line.split()[:2] for line in said.splitlines()[1:4]] == [
        ["FedProx", "lr"],
        ["FedProx", "mu"],
        ["Local", "lr"],
    ]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--grid", "lr"], "--grid lr: must be NAME=VALUES"),
        (["--grid", "lr=0.1,"], "--grid lr=0.1,: must be NAME=VALUES"),
        (["--grid", "lr=1", "--grid", "lr=2"], "each name once"),
        (["--grid", "lr=1", "--trials", "5"], "leave out --tune and --trials"),
        (["--grid", "lr=1", "--tune", "lr"], "leave out --tune and --trials"),
    ],
)
def test_a_grid_that_makes_no_sense_is_told_in_one_line(
    file: Path, words: list[str], message: str, call
):
    code, said, complained = call("tune", str(file), *words)
    assert (code, said, complained.count("\n")) == (2, "", 1)
    assert message in complained


def test_a_method_that_fails_leaves_no_tuned_file_and_exit_code_1(tmp_path: Path, call):
    Path("broken.py").write_text(BROKEN)
    Path("mine.toml").write_text(TINY.replace('"fedprox"', '"broken.py"'))
    code, out, complained = call(
        "tune", "mine.toml", "--out", "out", "--trials", "1", "--jobs", "1", "--quiet"
    )
    assert code == 1
    assert "failed: broken, digits dir:0.5, trial 0, seed 1000: " in complained
    assert "1 of 2 searches could not be completed, so nothing is tuned" in complained
    assert [line.split()[:4] for line in out.splitlines()[1:3]] == [
        ["Broken", "digits", "dir:0.5", "0"],
        ["Local", "digits", "dir:0.5", "1"],
    ]
    assert not (tmp_path / "out" / "tuned.toml").exists()


BROKEN = '''"""Broken (nobody, nowhere). Algorithm 1.

Down: theta. Up: theta. Private: nothing. Evaluated: the global model.
Deviations: none.
"""

from pflbench.api import Algorithm

class Broken(Algorithm):
    title = "Broken"
    family = "none"
    def client_update(self, client, message):
        raise RuntimeError("no")
    def personal_model(self, client, message):
        return message["theta"]
'''
