"""Whether the records of a run are those that it wrote.

`status.json` of a run that has ended, and every checkpoint, carry the number of lines and bytes and
the checksum of the record files. Sizes are compared whenever a state is read, checksums when
numbers are.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pflbench.config import read_run

LINES = ("rounds.jsonl", "timing.jsonl")  # one line per round
WHOLE = "run.json"

Sum = dict[str, Any]
"""Of a file: `bytes`, `lines` and `sha256`."""


class RunningSum:
    """The checksum of a file that grows by lines, without reading it again."""

    def __init__(self, content: bytes = b"") -> None:
        self.bytes = 0
        self.lines = 0
        self._hash = hashlib.sha256()
        self.add(content)

    def add(self, content: bytes) -> None:
        """Take what is appended."""
        self.bytes += len(content)
        self.lines += content.count(b"\n")
        self._hash.update(content)

    def value(self) -> Sum:
        return {"bytes": self.bytes, "lines": self.lines, "sha256": self._hash.hexdigest()}


def sum_of(path: Path) -> Sum:
    """The checksum of a file as it is now; of one that cannot be read, that of no bytes."""
    try:
        return RunningSum(path.read_bytes()).value()
    except OSError:
        return RunningSum().value()


def sums(folder: Path) -> dict[str, Sum]:
    """The checksums of the record files of a folder."""
    return {name: sum_of(folder / name) for name in (*LINES, WHOLE)}


def wrong_size(folder: Path, status: Mapping[str, Any]) -> str:
    """What is wrong with the sizes of the files of a run that has ended, in words; "" if nothing
    is.
    """
    for name, expected in _expected(status):
        path = folder / name
        size = path.stat().st_size if path.is_file() else 0
        if size != expected.get("bytes"):
            return f"{name} has {size} bytes, and had {expected.get('bytes')} when the run ended"
    return "" if status.get("records") else "status.json has no checksums"


def wrong_bytes(folder: Path, status: Mapping[str, Any]) -> str:
    """The same for their content."""
    for name, expected in _expected(status):
        if sum_of(folder / name) != expected:
            return f"{name} was changed after the run had ended"
    return ""


def wrong_numbers(lines: Iterable[Mapping[str, Any]], status: Mapping[str, Any]) -> str:
    """What is wrong with the lines of a run: a round is missing, or an accuracy is impossible."""
    numbers = []
    for line in lines:
        numbers.append(line["round"])
        for values in line.get("accuracy", {}).values():
            known = [value for value in values if value is not None] if None in values else values
            if known and not (min(known) >= 0 and max(known) <= 1):
                return f"an accuracy of round {line['round']} is not between 0 and 1"
    last = status.get("round") if status.get("status") == "finished" else len(numbers) - 1
    if numbers != list(range(len(numbers))) or len(numbers) - 1 != last:
        return f"rounds.jsonl does not have all rounds from 0 to {last}"
    return ""


def wrong_clients(about: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> str:
    """Where the records of a run disagree about its clients or classes, in words; "" if nowhere."""
    clients, classes = about["config"]["clients"], about["data"]["classes"]
    for name, values in about["partition"].items():
        if name != "digest" and len(values) != clients:
            return f"partition.{name} in {WHOLE} is not of {clients} clients"
        if name.endswith("_classes") and any(int(c) >= classes for row in values for c in row):
            return f"partition.{name} in {WHOLE} has more than {classes} classes"
    for line in lines:
        for values in (*line.get("accuracy", {}).values(), *line.get("evaluated", {}).values()):
            if len(values) != clients:
                return f"round {line['round']} is not of {clients} clients"
    return ""


def wrong_id(about: Mapping[str, Any]) -> str:
    """Whether a run has another configuration than its id says, in words; unknown where the
    configuration names files, whose content counts.
    """
    run = read_run(about["config"])
    if run.names_files or run.id == about["id"]:
        return ""
    return f"{WHOLE} has the configuration of {run.id}, and is of {about['id']}"


def _expected(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The files that the status of a run names, but only those that it may name."""
    records = status.get("records")
    if not isinstance(records, dict):
        return []
    return [
        (name, records[name]) for name in (*LINES, WHOLE) if isinstance(records.get(name), dict)
    ]
