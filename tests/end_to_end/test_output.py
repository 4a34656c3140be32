"""Nobody reads the output any more, the terminal closes, the disk under it is full."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.commands import PFLBENCH, SMALL, finished, numbers, started, wait_until

LONG = ["run", "fedavg", *SMALL, "--rounds", "4000", "--checkpoint-every", "100000"]


def checkpoints(folder: Path) -> int:
    return len(list(folder.glob("*/checkpoint-*.pt")))


def test_a_closed_pipe_lets_a_run_save_and_end(tmp_path: Path):
    process = subprocess.Popen(
        [*PFLBENCH, *LONG, "--out", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    complained = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 130
    assert checkpoints(tmp_path) == 1
    assert "Traceback" not in complained and "the same command resumes" in complained


def test_a_closed_pipe_of_a_list_is_no_traceback():
    done = subprocess.run(
        f"{' '.join(PFLBENCH)} algorithms | true", shell=True, capture_output=True, check=False
    )
    assert done.stderr == b""


def test_a_closed_terminal_lets_a_run_save_and_end(tmp_path: Path):
    process = started(*LONG, "--out", tmp_path)
    wait_until(lambda: any(text.count(b"\n") > 3 for text in numbers(tmp_path).values()), process)
    os.kill(process.pid, signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert checkpoints(tmp_path) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a full disk")
def test_a_full_disk_under_the_output_does_not_end_a_run(tmp_path: Path):
    with open("/dev/full", "w") as full:
        words = [*PFLBENCH, "run", "fedavg", *SMALL, "--rounds", "3", "--out", str(tmp_path)]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert finished(tmp_path) == 1
    assert "Traceback" not in done.stderr
    assert done.stderr == "pflbench: error: cannot write the output: No space left on device\n"
