"""The records of a run that is at work, read as they grow."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pflbench.errors import UserError
from pflbench.records import schema

Record = dict[str, Any]


class Growing:
    """Reads each round of a run once. Records that were cut, as by an attempt that goes on from a
    checkpoint, bring the same rounds again, which are passed over.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last = -1  # the last round that was read
        self._read = {"timing.jsonl": 0, "rounds.jsonl": 0}  # bytes
        self._timings: dict[int, Record] = {}

    def new(self) -> list[tuple[Record, Record]]:
        """The rounds since the last call: their records and their timings."""
        records = [one for one in self._lines("rounds.jsonl") if one["round"] > self.last]
        self._timings |= {one["round"]: one for one in self._lines("timing.jsonl")}
        if not records:
            return []
        self.last = records[-1]["round"]
        found = [(record, self._timings.get(record["round"], {})) for record in records]
        self._timings = {n: one for n, one in self._timings.items() if n > self.last}
        return found

    def _lines(self, file: str) -> Iterator[Record]:
        """The whole lines of a file that were not read yet; all of them, if it was cut."""
        path = self.folder / file
        if not path.is_file():
            return
        with path.open("rb") as lines:
            if lines.seek(0, 2) < self._read[file]:
                self._read[file] = 0
            lines.seek(self._read[file])
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                self._read[file] += len(line)
                with contextlib.suppress(ValueError, UserError):
                    yield schema.line(line, file)  # else a file was cut, and has grown again
