"""What wandb wrote in its offline mode, read with its own messages."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER = 7  # bytes of the file, and of every piece: checksum (4), length (2), type (1)
BLOCK = 32768  # no piece crosses the border of two blocks; the rest of a block may be empty
WHOLE_OR_LAST = (1, 4)  # types of pieces that end a record
PATIENCE = 60  # seconds: wandb's own process may still be writing when `finish` has returned


def history(file: Path) -> dict[int, dict[str, float]]:
    """The logged numbers by step, without wandb's own."""
    found = {}
    for record in _records(file):
        if record.HasField("history"):
            items = record.history.item
            row = {".".join(i.nested_key) or i.key: json.loads(i.value_json) for i in items}
            own = {name: value for name, value in row.items() if not name.startswith("_")}
            assert row["_step"] not in found
            found[row["_step"]] = own
    return found


def config(file: Path) -> dict[str, Any]:
    """The configuration of the run."""
    (run,) = [record.run for record in _records(file) if record.HasField("run")]
    return {update.key: json.loads(update.value_json) for update in run.config.update}


def _records(file: Path) -> list[Any]:
    """All records, the last of which says that the run has ended."""
    deadline = time.monotonic() + PATIENCE
    while True:
        written = list(_written(file))
        if written and written[-1].HasField("exit"):
            return written
        assert time.monotonic() < deadline, f"the end is missing in {file.name}"
        time.sleep(0.05)


def _written(file: Path) -> Iterator[Any]:
    """The whole records that the file has by now."""
    from wandb.proto import wandb_internal_pb2

    message: Any = wandb_internal_pb2.Record  # type: ignore[attr-defined]
    content, place, record = file.read_bytes(), HEADER, b""
    while place + HEADER <= len(content):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        length = int.from_bytes(content[place + 4 : place + 6], "little")
        kind = content[place + 6]
        if place + HEADER + length > len(content):
            return
        record += content[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in WHOLE_OR_LAST:
            yield message.FromString(record)
            record = b""
