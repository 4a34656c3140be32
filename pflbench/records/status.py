"""How far the runs of a plan are, read from their folders, and how long the rest will take."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflbench.records import run_folder
from pflbench.records.leases import Leases
from pflbench.records.plan import Planned

ENDED = ("finished", "diverged", "failed")
STATES = (*ENDED, "running", "missing")
TAILS = (
    1 << 18,
    1 << 23,
)  # bytes at the end of a file that hold what we look for; of runs of thousands of clients


@dataclass(frozen=True)
class RunStatus:
    """A run: its state, the rounds that it has behind it, and what they cost."""

    planned: Planned
    state: str
    round: int = 0
    seconds: float | None = None  # of a round
    accuracy: float | None = None  # mean over clients, of the newest evaluation
    point: str = ""
    reason: str = ""
    owner: str = ""  # who is at work on it

    @property
    def rounds(self) -> int:
        """The rounds of the whole run."""
        return int(self.planned.config["rounds"])


def look(ledger: Leases, planned: Planned, leases: Mapping[str, Path]) -> RunStatus:
    """A run as it stands now; `leases` are the ledger's."""
    status = ledger.status(planned.id)
    state, owner = status.get("status", "missing"), ""
    if state not in ENDED:
        state = "missing"
    if state not in ("finished", "diverged") and planned.id in leases:
        path = leases[planned.id]
        if not ledger.abandoned(path):
            state, owner = "running", ledger.owner(path)
    folder = ledger.folder / planned.id
    timing, record = _last(folder / "timing.jsonl"), _last(folder / "rounds.jsonl", b'"accuracy"')
    about = run_folder.read_json(folder / "run.json") if record else {}
    point = about.get("method", {}).get("evaluation_point", "")
    known = [value for value in (record.get("accuracy") or {}).get(point, []) if value is not None]
    return RunStatus(
        planned,
        state,
        int(timing.get("round", 0)),
        timing.get("wall"),
        sum(known) / len(known) if known else None,
        point,
        str(status.get("reason", "")) if state in ("failed", "diverged") else "",
        owner,
    )


def left(standings: Iterable[RunStatus], at_once: int) -> float | None:
    """Seconds until all is done, `at_once` runs at a time, if a round of a method costs what it did so far; of a method
    that nothing is known of, what the others cost on average. None where nothing is known at all.
    """
    known: dict[Any, list[float]] = {}
    everything = list(standings)
    for standing in everything:
        if standing.seconds is not None:
            for key in _kin(standing.planned):
                known.setdefault(key, []).append(standing.seconds)
    if not known:
        return None
    total = 0.0
    for standing in everything:
        if standing.state not in ENDED:
            costs = next(known[key] for key in _kin(standing.planned) if key in known)
            total += (standing.rounds - standing.round) * sum(costs) / len(costs)
    return total / max(at_once, 1)


def _kin(planned: Planned) -> tuple[Any, ...]:
    """Groups of runs that cost alike, the closest first."""
    method, setting = planned.config["algorithm"], planned.setting
    return ((method, setting), (method,), ())


def _last(path: Path, word: bytes = b"") -> dict[str, Any]:
    """The last whole line of a file of JSON lines that has this word; empty if there is none near the end."""
    for reach in TAILS:
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - reach))
                tail = file.read()
        except OSError:
            return {}
        for line in reversed(tail.splitlines(keepends=True)):
            if line.endswith(b"\n") and word in line:
                with contextlib.suppress(ValueError):  # of a line that is not whole
                    found: dict[str, Any] = json.loads(line)
                    return found
        if size <= reach:
            break
    return {}
