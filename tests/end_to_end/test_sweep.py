"""Sweeps that are killed, shared, broken by a plugin or by a full disk end as the sweep that was not."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pflbench.records.leases import Leases

from .commands import Call, done, fine, finished, history, numbers, started, wait_until

GRID = """
title = "a grid for tests"
algorithms = ["fedavg", "local", "fedper", "fedcosr"]
seeds = {seeds}
dataset = "synthetic:samples=160"
clients = 4
rounds = {rounds}
model = "mlp"
width = 16

[[scenarios]]
partition = ["dir:0.5", "path:2"]
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 runs of 8 rounds, a fraction of a second each."""
    path = tmp_path_factory.mktemp("grid") / "grid.toml"
    path.write_text(GRID.format(seeds=5, rounds=8))
    return path


@pytest.fixture(scope="module")
def whole(grid: Path) -> dict[str, bytes]:
    """The records of an unbroken sweep."""
    done(*sweep(grid, grid.parent / "whole"))
    return numbers(grid.parent / "whole")


def sweep(file: Path, out: Path, *more: str) -> list[str]:
    return f"sweep {file} --out {out} --checkpoint-every 2 --jobs 2".split() + list(more)


def done_twice(out: Path) -> list[str]:
    """Runs that were started again after they had ended."""
    bad = []
    for path in out.glob("*/attempts.jsonl"):
        started = [
            e["time"]
            for e in map(json.loads, path.read_text().splitlines())
            if e["event"] == "started"
        ]
        if max(started) > (path.parent / "status.json").stat().st_mtime + 0.05:
            bad.append(path.parent.name)
    return bad


def test_forty_runs_killed_five_times_equal_an_unbroken_sweep_and_none_is_done_twice(
    call: Call, grid, whole, tmp_path
):
    assert len(whole) == 40
    broken, moments, killed = tmp_path / "broken", random.Random(4), 0
    for target in (3, 10, 18, 26, 33):
        process = started(*sweep(grid, broken))
        wait_until(lambda: finished(broken) >= target, process)  # noqa: B023
        time.sleep(moments.random() * 0.2)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    code, said, _ = call(*sweep(grid, broken))
    assert (killed, code) == (5, 0)
    assert "40 runs: 40 finished" in said
    assert numbers(broken) == whole
    assert done_twice(broken) == []
    events = history(broken)
    assert all(tries.count("finished") <= 1 and tries[0] == "started" for tries in events.values())
    # the five kills hit runs at work
    assert sum(tries.count("started") for tries in events.values()) > 40
    assert list((broken / "leases").iterdir()) == []


def test_two_sweeps_at_once_share_the_runs(grid, tmp_path):
    out = tmp_path / "shared"
    both = [started(*sweep(grid, out, "--jobs", "1")) for _ in range(2)]
    ends = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert all("40 runs: 40 finished" in said for said in ends)
    assert len(numbers(out)) == 40
    assert set(map(tuple, history(out).values())) == {("started", "finished")}
    owners = {
        json.loads(path.read_text().splitlines()[0])["owner"]["pid"]
        for path in out.glob("*/attempts.jsonl")
    }
    assert len(owners) == 2


def test_a_finished_sweep_runs_nothing_again(call: Call, grid, tmp_path):
    out, few = tmp_path / "out", ("--only", "local", "--only", "seed=0")
    fine(call, *sweep(grid, out, *few))
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*")}
    said = fine(call, *sweep(grid, out, *few))
    assert "2 runs: 2 finished" in said
    assert {
        path: path.stat().st_mtime_ns for path in out.glob("*/*") if path.parent.name != "plans"
    }.items() <= (before.items())


BROKEN = '''"""Broken (nobody, nowhere). Algorithm 1.

Down: theta. Up: theta. Private: nothing. Evaluated: the global model.
Deviations: none.
"""

from pathlib import Path

from pflbench.api import Algorithm
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


class Broken(Algorithm):
    title = "Broken"
    family = "Standard"

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client, message):
        {trouble}
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        return {{"theta": theta, "n": client.n}}, {{}}

    def aggregate(self, server, replies):
        return {{"theta": weighted_mean(replies, "theta")}}

    def personal_model(self, client, message):
        return message["theta"]
'''
TROUBLE = """
        if client.round == 2 and len(client.y.unique()) == 1 and Path({marker!r}).exists():
            raise ZeroDivisionError("one class")
"""


def test_a_method_that_fails_in_one_scenario_fails_alone_and_is_retried_alone(call: Call, tmp_path):
    plugin, out, marker = tmp_path / "broken.py", tmp_path / "out", tmp_path / "trouble"
    marker.touch()
    plugin.write_text(BROKEN.format(trouble=TROUBLE.format(marker=str(marker))))
    file = tmp_path / "grid.toml"
    text = GRID.format(seeds=1, rounds=4).replace('"fedper", "fedcosr"', f'"{plugin}"')
    file.write_text(text.replace('["dir:0.5", "path:2"]', '["iid", "path:1"]'))
    code, said, complained = call(*sweep(file, out))
    assert code == 1
    assert "6 runs: " in said and "5 finished" in said and "1 failed" in said
    assert (
        "broken, synthetic:samples=160 path:1, seed 0: Broken failed in round 3, client"
        in complained
    )
    line = 1 + plugin.read_text().splitlines().index(
        '            raise ZeroDivisionError("one class")'
    )
    assert f"ZeroDivisionError: one class (broken.py, line {line}); its traceback" in complained
    assert "--retry-failed" in complained
    (failed,) = [
        path.parent for path in out.glob("*/status.json") if '"failed"' in path.read_text()
    ]
    assert "in client_update" in json.loads((failed / "status.json").read_text())["details"]

    again, _, complained = call(*sweep(file, out))
    assert again == 1  # it is not run again by itself
    assert history(out)[failed.name] == ["started", "failed"]

    marker.unlink()
    said = fine(call, *sweep(file, out, "--retry-failed"))
    assert "6 runs: 6 finished" in said
    assert history(out)[failed.name] == ["started", "failed", "started", "finished"]
    assert all(
        tries == ["started", "finished"]
        for run, tries in history(out).items()
        if run != failed.name
    )
    assert [
        json.loads(line)["round"] for line in (failed / "rounds.jsonl").read_text().splitlines()
    ] == [0, 1, 2, 3, 4]


def test_ctrl_c_saves_checkpoints_and_the_same_command_goes_on(tmp_path):
    file, out = tmp_path / "grid.toml", tmp_path / "out"
    file.write_text(GRID.format(seeds=1, rounds=400))
    process = started(*sweep(file, out, "--only", "fedcosr", "--checkpoint-every", "1000"))
    wait_until(
        lambda: [text.count(b"\n") > 10 for text in numbers(out).values()] == [True, True], process
    )
    os.kill(process.pid, signal.SIGINT)
    _, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; 2 of 2 runs are left, the same command continues" in complained
    assert len(list(out.glob("*/checkpoint-*.pt"))) == 2
    assert list((out / "leases").iterdir()) == []
    assert set(map(tuple, history(out).values())) == {("started", "stopped")}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_worker_fails_its_own_run_only(tmp_path):
    file, out = tmp_path / "grid.toml", tmp_path / "out"
    file.write_text(GRID.format(seeds=1, rounds=100))
    process = started(*sweep(file, out, "--only", "fedcosr,local", "--jobs", "1"))
    wait_until(lambda: finished(out) >= 1, process)
    [server] = [
        pid
        for pid in children(process.pid)
        if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    [worker] = children(server)
    os.kill(worker, signal.SIGKILL)
    said, complained = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "3 finished" in said and "1 failed" in said
    assert "its process died (killed, out of memory?)" in complained


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mount = subprocess.run(command, capture_output=True, check=False)
    if mount.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_in_one_line_and_the_sweep_goes_on_when_there_is_space(
    call: Call, grid, whole, small_disk
):
    first_seed = sweep(grid, small_disk / "out", "--only", "seed=0")
    out, ballast = small_disk / "out", small_disk / "ballast"
    ballast.write_bytes(bytes(800_000))
    code, _, complained = call(*first_seed)
    assert code == 2
    assert complained.count("\n") == 1
    assert "No space left on device; make space; the same command then goes on" in complained
    for path in out.glob("*/*.json"):
        json.loads(path.read_text())
    ballast.unlink()
    assert "8 runs: 8 finished" in fine(call, *first_seed)
    assert len(numbers(out)) == 8
    assert numbers(out).items() <= whole.items()


def test_a_read_only_folder_is_told_in_one_line(call: Call, grid, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    code, said, complained = call(*sweep(grid, small_disk / "out"))
    assert (code, said) == (2, "")
    assert complained.count("\n") == 1
    assert "Read-only file system; choose another --out" in complained


def test_status_counts_runs_by_state_while_a_sweep_is_at_work(call: Call, grid, tmp_path):
    out = tmp_path / "out"
    process = started(*sweep(grid, out))
    wait_until(lambda: finished(out) >= 2 and Leases(out).leases(), process)
    shown = json.loads(fine(call, "status", str(out), "--json"))
    process.kill()
    process.communicate()
    (row,) = shown["experiments"]
    assert row["experiment"] == "grid"
    assert row["runs"] == 40 == row["finished"] + row["running"] + row["missing"]
    assert row["finished"] >= 2
    assert row["running"] >= 1
    assert row["seconds_left"] > 0
    assert "running:" not in fine(call, "status", str(out))  # the owner is dead
