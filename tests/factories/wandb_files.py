"""What wandb wrote in its offline mode, read with its own messages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER = 7  # bytes of the file, and of every piece: checksum (4), length (2), type (1)
BLOCK = 32768  # no piece crosses the border of two blocks; the rest of a block may be empty
WHOLE_OR_LAST = (1, 4)  # types of pieces that end a record


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


def _records(file: Path) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    message: Any = wandb_internal_pb2.Record  # type: ignore[attr-defined]
    content, place, record = file.read_bytes(), HEADER, b""
    while place + HEADER <= len(content):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        length = int.from_bytes(content[place + 4 : place + 6], "little")
        kind = content[place + 6]
        record += content[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in WHOLE_OR_LAST:
            yield message.FromString(record)
            record = b""
