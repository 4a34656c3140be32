"""A sweep on a Ray cluster that loses a node in the middle ends as a local one, bit for bit."""

import json
import signal
from pathlib import Path

import pytest

from .commands import done, finished, numbers, started, wait_until

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'pflbench[ray]')")

GRID = """
algorithms = ["fedavg", "fedper", "fedcosr"]
seeds = 2
dataset = "synthetic:samples=160"
clients = 4
rounds = 60
model = "mlp"
width = 16

[[scenarios]]
partition = ["dir:0.5", "path:2"]
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch):
    """Two nodes with a core each. Ray's handler of SIGTERM goes with them: it is not for other tests."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    before = signal.getsignal(signal.SIGTERM)
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()
    signal.signal(signal.SIGTERM, before)


def sweep(file: Path, out: Path, *more: str) -> list[str]:
    return f"sweep {file} --out {out} --checkpoint-every 2".split() + list(more)


def test_a_node_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    done(*sweep(file, tmp_path / "local", "--jobs", "2"))

    doomed = cluster.add_node(num_cpus=1)
    out = tmp_path / "ray"
    process = started(*sweep(file, out, "--on", "ray", "--address", cluster.address))
    wait_until(
        lambda: len(numbers(out)) >= 4 and len(list((out / "leases").glob("[!.]*"))) == 2, process
    )
    assert process.poll() is None
    done_before = finished(out)
    cluster.remove_node(doomed, allow_graceful=False)
    said, complained = process.communicate(timeout=300)
    assert process.returncode == 0, complained
    assert done_before < 12
    assert "12 runs: 12 finished" in said
    assert numbers(out) == numbers(tmp_path / "local")
    assert all(
        json.loads(path.read_text())["status"] == "finished" for path in out.glob("*/status.json")
    )


def test_no_cluster_at_the_address_is_told_in_one_line(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    process = started(*sweep(file, tmp_path / "out", "--on", "ray", "--address", "127.0.0.1:1"))
    _, complained = process.communicate(timeout=120)
    assert process.returncode == 2
    assert complained.count("\n") == 1
    assert "no Ray cluster at '127.0.0.1:1'" in complained
