"""What a person waits for: the help, and the first round of a run on the embedded data."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .interleave import Finding, at_most, spread

PFLBENCH = [sys.executable, "-m", "pflbench"]


def measure(turns: int) -> list[Finding]:
    """Seconds until the help is there, and until the record of the first round is."""
    help_seconds, first_round = [], []
    for _ in range(turns):
        start = time.perf_counter()
        subprocess.run([*PFLBENCH, "--help"], check=True, capture_output=True)
        help_seconds.append(time.perf_counter() - start)
        first_round.append(_first_round())
    return [
        at_most("seconds of pflbench --help", spread(help_seconds), 0.5),
        at_most("seconds from pflbench run to the end of round 1, digits", spread(first_round), 5.0),
    ]


def _first_round() -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [*PFLBENCH, "run", "fedavg", "--dataset", "digits", "--rounds", "100", "--out", folder]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not any(path.read_text().count("\n") > 1 for path in Path(folder).glob("*/rounds.jsonl")):
                if process.poll() is not None:
                    raise subprocess.CalledProcessError(process.returncode, command)
                time.sleep(0.01)
        finally:
            process.kill()
            process.wait()
        return time.perf_counter() - start
