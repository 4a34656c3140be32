"""What a tracker is told of a run: all of it comes from the run's records."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflbench.errors import UserError
from pflbench.records import run_folder
from pflbench.records.growing import Growing

Value = str | int | float | bool


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers show it: its id, its configuration and what else is known of it."""

    id: str
    group: str  # the folder of results that it is in, by its name
    parameters: Mapping[str, Value]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Point:
    """The numbers of a round, by name."""

    round: int
    time: float  # when it ended, in seconds since 1970
    values: Mapping[str, float]


def described(folder: Path) -> TrackedRun:
    """The run of a folder."""
    about = run_folder.read_json(folder / "run.json")
    if not about:
        raise UserError(f"{folder} holds no run (there is no run.json in it)")
    config = dict(about["config"])
    hparams = {f"hparams.{name}": value for name, value in config.pop("hparams", {}).items()}
    tags = {
        "method": about["method"]["title"],
        "family": about["method"]["family"],
        "evaluation_point": about["method"]["evaluation_point"],
        "data_digest": about["data"]["digest"],
        "partition_digest": about["partition"]["digest"],
        "device": about["machine"]["device"],
        **{f"versions.{name}": version for name, version in about["versions"].items()},
    }
    parameters = {name: _plain(value) for name, value in (config | hparams).items()}
    known = {name: value for name, value in parameters.items() if value is not None}
    named = {name: str(value) for name, value in tags.items()}
    return TrackedRun(folder.name, folder.parent.name, known, named)


def values(record: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round by name, as accuracy/pre, bytes/up or server/tau; of what clients have
    each, the mean over clients.
    """
    found: dict[str, float | None] = {"loss": record.get("loss")}
    for series, accuracies in record.get("accuracy", {}).items():
        found[f"accuracy/{series}"], found[f"accuracy_std/{series}"] = _mean_and_std(accuracies)
    for way, parts in record.get("bytes", {}).items():
        found[f"bytes/{way}"] = sum(parts.values())
    for kind, place in {"logs": "clients", "evaluated": "evaluation"}.items():
        for name, numbers in record.get(kind, {}).items():
            found[f"{place}/{name}"] = _mean_and_std(numbers)[0]
    found |= {f"server/{name}": value for name, value in record.get("server", {}).items()}
    found |= {f"seconds/{name}": took for name, took in timing.items() if name != "round"}
    return {_name(name): float(value) for name, value in found.items() if value is not None}


def points(
    records: Iterable[Mapping[str, Any]], timings: Iterable[Mapping[str, Any]], end: float
) -> list[Point]:
    """The points of consecutive rounds, the last of which ended at `end`."""
    seconds = {timing["round"]: timing for timing in timings}
    found = [(record, seconds.get(record["round"], {})) for record in records]
    made: list[Point] = []
    for record, timing in reversed(found):
        made.append(Point(int(record["round"]), end, values(record, timing)))
        end -= timing.get("wall", timing.get("evaluation", 0.0))
    return made[::-1]


class Reader:
    """Reads the points of a run as its records grow, each round once."""

    def __init__(self, folder: Path) -> None:
        self.records = Growing(folder)

    def new(self) -> list[Point]:
        """The rounds since the last call."""
        if not (found := self.records.new()):
            return []
        end = (self.records.folder / "rounds.jsonl").stat().st_mtime
        timings = [timing for _, timing in found if timing]
        return points([record for record, _ in found], timings, end)


def _plain(value: Any) -> Value | None:
    return value if isinstance(value, Value | None) else "-".join(map(str, value))


def _mean_and_std(numbers: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Over the clients that have a number."""
    known = [number for number in numbers if number is not None]
    if not known:
        return None, None
    mean = math.fsum(known) / len(known)
    return mean, math.sqrt(math.fsum((number - mean) ** 2 for number in known) / len(known))


def _name(name: str) -> str:
    """A name that all trackers take."""
    return re.sub(r"[^\w/. -]", "_", name, flags=re.ASCII)
