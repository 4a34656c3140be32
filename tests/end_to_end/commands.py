"""How tests give commands, and what they read of the folders that these leave behind."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pflbench import testing

PFLBENCH = [sys.executable, "-m", "pflbench"]
Call = Callable[..., tuple[int, str, str]]  # the fixture `call`: exit code, stdout, stderr


# The small problem as options: without and with the number of its clients.
TOY = f"--dataset {testing.TOY['dataset']} --model mlp --width 8 --min-samples 8".split()
SMALL = [*TOY, "--clients", "4", "--workers", "1"]


def fine(call: Call, *words: str) -> str:
    """What a command says that has nothing to complain about."""
    code, out, err = call(*words)
    assert (code, err) == (0, "")
    return out


def started(*words: object) -> subprocess.Popen[str]:
    """A command in a process, and in a process group, of its own."""
    pipe = subprocess.PIPE
    command = [*PFLBENCH, *map(str, words)]
    return subprocess.Popen(command, text=True, start_new_session=True, stdout=pipe, stderr=pipe)


def wait_until(condition: Callable[[], object], process: subprocess.Popen[Any]) -> None:
    """Wait until something is so, or the process has ended."""
    deadline = time.monotonic() + 300
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def numbers(out: Path) -> dict[str, bytes]:
    """The records of every run."""
    return {path.parent.name: path.read_bytes() for path in out.glob("*/rounds.jsonl")}


def history(out: Path) -> dict[str, list[str]]:
    """The events of every run, in order."""
    return {
        path.parent.name: [json.loads(line)["event"] for line in path.read_text().splitlines()]
        for path in out.glob("*/attempts.jsonl")
    }


def finished(out: Path) -> int:
    """How many runs have ended."""
    return len(list(out.glob("*/status.json")))
