"""Ray on hosts of their own: one that is cut off in the middle, and a cluster that asks for a token."""

import contextlib
import re
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

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'pflbench[ray]')")

SWEEP = "sweep --algorithms fedavg,fedper --datasets synthetic:samples=160 --partitions dir:0.5"
GRID = f"{SWEEP} --clients 4 --model mlp --width 16 --seeds 2 --rounds 300 --checkpoint-every 20".split()


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
        wait_for(lambda: hosts.listens(0, ADDRESSES[0], PORT), 90, "the first host")
        processes.append(start(hosts.inside(1, node), settings, folder / "node.log"))
        wait_for(lambda: "Ray runtime started" in log(folder, "node"), 90, "the second host")
        processes.append(start(hosts.inside(0, sweep), settings, folder / "sweep.log"))
        wait_for(lambda: len({host for _, host in attempts(out)}) == 2, 120, "a run on each host")
        begun = attempts(out)
        hosts.cut()
        in_the_middle = begun & attempts(out)
        wait_for(lambda: processes[-1].poll() is not None, 300, "the end of the sweep")
    finally:
        for process in reversed(processes):
            end(process)
    said = log(folder, "sweep")
    print(said)
    assert processes[-1].returncode == 0, said
    assert "4 runs: 4 finished" in said
    assert numbers(out) == numbers(folder / "local")
    lost = set(re.findall(r"node with node id: (\w+) .*marked dead", said))
    assert len(lost) == 1, said
    assert lost <= {host for _, host in in_the_middle}, "the cable was cut too late"


def log(folder: Path, name: str) -> str:
    path = folder / f"{name}.log"
    return path.read_text() if path.exists() else ""


def attempts(out: Path) -> set[tuple[str, str]]:
    """The runs at work that have a record, and the host of the newest attempt at each."""
    found = set()
    for path in out.glob("leases/.*.attempt"):
        run = path.name[1:].partition(".0000")[0]
        with contextlib.suppress(FileNotFoundError):  # of a run that has just ended
            host = path.read_text().partition(" ")[2]
            if (out / run / "rounds.jsonl").stat().st_size:
                found.add((run, host))
    return found


@pytest.mark.skipif(
    not hasattr(ray.exceptions, "AuthenticationError"), reason="this version of Ray has no tokens"
)
def test_a_cluster_that_asks_for_a_token_is_told_in_one_line(folder):
    settings, port = ray_settings(), free_port()
    cluster = f"127.0.0.1:{port}"
    command = head("127.0.0.1", port, folder / "r")
    first = start(command, settings, folder / "head.log")
    try:
        wait_for(lambda: "Ray runtime started" in log(folder, "head"), 90, "the cluster")
        sweep = [*PFLBENCH, *GRID, "--out", str(folder / "out"), "--on", "ray", "--quiet"]
        without = {**settings, "RAY_AUTH_MODE": "disabled"}
        asking = start([*sweep, "--address", cluster], without, folder / "sweep.log")
        asking.wait(timeout=120)
    finally:
        end(first)
    said = log(folder, "sweep")
    assert asking.returncode == 2
    assert said.count("\n") == 1, said
    assert f"the Ray cluster at '{cluster}' asks for a token: set RAY_AUTH_MODE=token" in said
    assert not (folder / "out").exists()
