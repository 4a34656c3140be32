"""Ray on hosts of their own: one that is cut off in the middle, and a cluster that asks for a token."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.commands import PFLBENCH, done, numbers
from tests.factories.two_hosts import (
    ADDRESSES,
    PORT,
    RAY,
    TwoHosts,
    end,
    free_port,
    head,
    ray_settings,
    start,
    wait_for,
)

pytest.importorskip("ray", reason="Ray is not installed (pip install 'pflbench[ray]')")

SWEEP = (
    "sweep --algorithms fedavg,fedper,local --datasets synthetic:samples=160 --partitions dir:0.5"
)
GRID = f"{SWEEP} --clients 4 --model mlp --width 16 --rounds 300 --checkpoint-every 20".split()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: Ray puts sockets into it."""
    made = Path(tempfile.mkdtemp(prefix="two-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    made = TwoHosts()
    yield made
    made.remove()


def test_a_host_that_is_cut_off_in_the_middle_changes_nothing(hosts, folder):
    done(*GRID, "--jobs", "2", "--out", str(folder / "local"))
    settings, out, cluster = ray_settings(), folder / "ray", f"{ADDRESSES[0]}:{PORT}"
    node = [*RAY, f"--address={cluster}", f"--node-ip-address={ADDRESSES[1]}", "--num-cpus=1"]
    sweep = [*PFLBENCH, *GRID, "--out", str(out), "--on", "ray", "--address", cluster]
    processes = []
    try:
        first = hosts.inside(0, head(ADDRESSES[0], PORT, folder / "r"))
        processes.append(start(first, settings, folder / "head.log"))
        wait_for(lambda: hosts.listens(0, ADDRESSES[0], PORT), 30, "the first host")
        processes.append(start(hosts.inside(1, node), settings, folder / "node.log"))
        wait_for(lambda: "Ray runtime started" in log(folder, "node"), 30, "the second host")
        processes.append(start(hosts.inside(0, sweep), settings, folder / "sweep.log"))
        wait_for(lambda: len(at_work(out)) == 2, 60, "a run on each host")
        hosts.cut()
        left = at_work(out)
        processes[-1].wait(timeout=60)
    finally:
        for process in reversed(processes):
            end(process)
    said = log(folder, "sweep")
    print(said)
    assert processes[-1].returncode == 0, said
    assert len(left) == 2  # neither had ended when the second host was cut off
    assert "3 runs: 3 finished" in said
    assert numbers(out) == numbers(folder / "local")


def log(folder: Path, name: str) -> str:
    path = folder / f"{name}.log"
    return path.read_text() if path.exists() else ""


def at_work(out: Path) -> dict[str, str]:
    """The hosts at work, by run: those that have a record and no end."""
    found = {}
    for path in out.glob("leases/.*.attempt"):
        run = path.name[1:].rpartition(".000001")[0]
        records = out / run / "rounds.jsonl"
        if records.exists() and records.stat().st_size and not (out / run / "status.json").exists():
            found[run] = path.read_text().partition(" ")[2]
    return found if len(set(found.values())) == len(found) else {}


def test_a_cluster_that_asks_for_a_token_is_told_in_one_line(folder):
    settings, port = ray_settings(), free_port()
    cluster = f"127.0.0.1:{port}"
    command = head("127.0.0.1", port, folder / "r")
    first = start(command, settings, folder / "head.log")
    try:
        wait_for(lambda: "Ray runtime started" in log(folder, "head"), 60, "the cluster")
        sweep = [*PFLBENCH, *GRID, "--out", str(folder / "out"), "--on", "ray", "--quiet"]
        without = {**settings, "RAY_AUTH_MODE": "disabled"}
        asking = start([*sweep, "--address", cluster], without, folder / "sweep.log")
        asking.wait(timeout=60)
    finally:
        end(first)
    said = log(folder, "sweep")
    assert asking.returncode == 2
    assert said.count("\n") == 1, said
    assert f"the Ray cluster at '{cluster}' asks for a token: set RAY_AUTH_MODE=token" in said
    assert not (folder / "out").exists()
