"""What a person waits for: the help, and the first round of a run on the embedded data."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .interleave import Finding, at_most, spread

PFLBENCH = [sys.executable, "-m", "pflbench"]


def measure(turns: int) -> list[Finding]:
    """Seconds until the help is there; until the first round starts, the untrained models being scored; and ends."""
    help_seconds, starts, ends = [], [], []
    for _ in range(turns):
        start = time.perf_counter()
        subprocess.run([*PFLBENCH, "--help"], check=True, capture_output=True)
        help_seconds.append(time.perf_counter() - start)
        start_of_round, end = _first_round()
        starts.append(start_of_round)
        ends.append(end)
    return [
        at_most("seconds of pflbench --help", spread(help_seconds), 0.3),
        Finding("seconds from pflbench run to the start of round 1, digits", spread(starts)),
        at_most("seconds from pflbench run to the end of round 1, digits", spread(ends), 4.0),
    ]


def _first_round() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *PFLBENCH,
            "run",
            "fedavg",
            "--dataset",
            "digits",
            "--rounds",
            "100",
            "--out",
            folder,
        ]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen: list[float] = []  # when there was a record of round 0, of round 1
        try:
            while len(seen) < 2:
                if sum(
                    path.read_text().count("\n") for path in Path(folder).glob("*/rounds.jsonl")
                ) > len(seen):
                    seen.append(time.perf_counter() - start)
                elif process.poll() is not None:
                    raise subprocess.CalledProcessError(process.returncode, command)
                time.sleep(0.01)
        finally:
            process.kill()
            process.wait()
        return seen[0], seen[1]
