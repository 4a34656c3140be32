"""A sweep on a Ray cluster that loses a node in the middle ends as a local one, bit for bit."""

import json
import os
import signal
from pathlib import Path

import pytest

from pflbench.cli import main
from pflbench.sweep.launchers.ray import _do_in

from .commands import Started, done, finished, numbers, started, wait_until

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

FAILING = """
from pflbench.api import Algorithm


class Failing(Algorithm):
    title = "Failing"
    family = "Standard"

    def client_update(self, client, message):
        raise ValueError("ran out of luck")

    def aggregate(self, server, replies):
        return server

    def personal_model(self, client, message):
        return message["theta"]
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


def _deaf_to_ctrl_c(*words: str) -> None:
    """The command line as a shell starts it in the background: SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main.main(words)


def test_sigterm_lets_runs_save_a_checkpoint_even_if_sigint_is_ignored(tmp_path):
    out = tmp_path / "out"
    words = f"sweep --out {out} --on ray --jobs 1 --quiet --algorithms fedavg --clients 4".split()
    words += ["--datasets", "synthetic:samples=160", "--model", "mlp", "--rounds", "100000"]
    process = Started(_deaf_to_ctrl_c, *words, "--checkpoint-every", "100000")
    wait_until(lambda: any(text.count(b"\n") > 5 for text in numbers(out).values()), process)
    os.kill(process.pid, signal.SIGTERM)
    _, complained = process.communicate(timeout=120)
    assert process.returncode == 143
    assert complained == "stopped; 1 of 1 runs are left, the same command continues\n"
    (status,) = out.glob("*/status.json")
    assert json.loads(status.read_text())["status"] == "stopped"
    assert len(list(out.glob("*/checkpoint-*.pt"))) == 1


def test_a_failed_run_ends_with_the_exit_code_of_local_runs(tmp_path):
    plugin = tmp_path / "failing.py"
    plugin.write_text(FAILING)
    small = [
        "--datasets",
        "synthetic:samples=160",
        "--model",
        "mlp",
        "--rounds",
        "2",
        "--clients",
        "4",
        "--quiet",
    ]
    ends = []
    for more in ([], ["--on", "ray"]):
        out = tmp_path / f"out{len(more)}"
        words = ["sweep", "--algorithms", str(plugin), *small, "--out", str(out), "--jobs", "1"]
        process = started(*words, *more)
        said, complained = process.communicate(timeout=120)
        ends.append((process.returncode, (said + complained).replace(str(out), "OUT")))
    assert ends[0] == ends[1]
    assert ends[0][0] == 1
    assert "ran out of luck" in ends[0][1]


def test_a_machine_that_does_not_see_the_files_says_what_is_needed(tmp_path):
    said = _do_in(tmp_path, tmp_path / "nowhere", b"")
    assert said is not None
    assert f"does not see all files ({tmp_path}/nowhere/leases)" in said
    assert "on one shared file system" in said
