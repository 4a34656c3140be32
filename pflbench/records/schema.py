"""What the files of a folder of results say: the shape of every kind of file, checked where it is
read. A file of another shape is named, and what it stands for counts as damaged.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from pflbench.config import STORED
from pflbench.errors import UserError
from pflbench.shapes import (
    ANYTHING,
    COUNT,
    LARGEST,
    NOTHING,
    NUMBER,
    NUMBERS,
    SOME,
    TEXT,
    TEXTS,
    TRUTH,
    WHOLE,
    WHOLES,
    Each,
    Leaf,
    Shape,
    checker,
    wrong,
)

_SUM = {"bytes": COUNT, "lines": COUNT, "sha256": TEXT}
_SIZES = [COUNT]


def _has_counts(row: Any) -> bool:
    """Whether a value is a table of labels to samples: in one pass, for there is one per client."""
    if type(row) is not dict or not all(map(str.isdecimal, row)):
        return False
    counts = row.values()
    whole = set(map(type, counts)) <= {int}
    return whole and min(counts, default=1) >= 1 and max(counts, default=1) <= LARGEST


_CLASSES = [Leaf("a table of labels to numbers of samples", _has_counts)]  # of every client
_METHOD = {
    "title": TEXT,
    "family": TEXT,
    "evaluated_model?": TEXT,
    "evaluation_point": TEXT,
    "one_shot?": TRUTH,
    "costs": {"down": TEXT, "up": TEXT},
    "defaults": Each(ANYTHING),
    "source?": TEXT,
}
_PARTITION = {
    "digest": TEXT,
    "n_train": _SIZES,
    "n_test": _SIZES,
    "n_validation?": _SIZES,
    "train_classes?": _CLASSES,
    "test_classes?": _CLASSES,
    "validation_classes?": _CLASSES,
}
RUN: Shape = {
    "id": TEXT,
    "config": STORED,
    "scale?": (TEXT, NOTHING),
    "method": _METHOD,
    "data": {"title": TEXT, "digest": TEXT, "classes": COUNT},
    "partition": _PARTITION,
    "code?": Each(ANYTHING),
    "versions": Each(TEXT),
    "machine": {"device": TEXT},
    "extended_from?": {"id": TEXT, "round": COUNT},
}
STATUS: Shape = {
    "status?": TEXT,
    "round?": WHOLE,
    "reason?": TEXT,
    "details?": TEXT,
    "models?": TEXT,
    "mixed?": TEXTS,
    "records?": {"rounds.jsonl": _SUM, "timing.jsonl": _SUM, "run.json": _SUM},
}
_EVALUATED = {
    "round": COUNT,
    "accuracy?": Each(NUMBERS),
    "evaluated?": Each(NUMBERS),
    "notes?": TEXTS,
}
_PLAYED = {
    **_EVALUATED,
    "cohort": WHOLES,
    "bytes": Each(Each(COUNT)),
    "loss?": (NUMBER, NOTHING),
    "logs?": Each(NUMBERS),
    "server?": Each((NUMBER, NOTHING)),
}
PLAN: Shape = {
    "name": TEXT,
    "title": TEXT,
    "scale": TEXT,
    "command": TEXT,
    "runs": [{"id": TEXT, "plugin": TEXT, "scenario": TEXT, "variant": TEXT, "config": STORED}],
    "report?": Each(ANYTHING),
}
LEASE: Shape = {
    "token": TEXT,
    "owner": {"host": TEXT, "pid": SOME, "started": TEXT, "space": TEXT},
}
_BY_NAME = {"run.json": checker(RUN), "status.json": checker(STATUS)}
_wrong_start = checker(_EVALUATED)
_wrong_round = checker(_PLAYED)
_wrong_times = checker(Each((NUMBER, NOTHING)))
_wrong_time = checker({"round": COUNT, "wall": NUMBER})


def wrong_content(content: Any, name: str, shape: Shape | None = None) -> str:
    """What is wrong with the content of a file, in words, by this shape or that of the file's name;
    "" if nothing is.
    """
    if shape is not None:
        return wrong(content, shape)
    return _BY_NAME[name](content) if name in _BY_NAME else ""


def line(text: bytes, file: str, trusted: bool = False) -> dict[str, Any]:
    """A line of rounds.jsonl or timing.jsonl; a ValueError if it is not whole, a UserError if it has
    another shape, unless it is trusted.
    """
    content = orjson.loads(text)  # several times as fast as json
    if found := "" if trusted else _wrong_line(content, file):
        raise UserError(found)
    record: dict[str, Any] = content
    return record


def _wrong_line(content: Any, file: str) -> str:
    first = isinstance(content, dict) and content.get("round") == 0
    if file == "timing.jsonl":
        if found := _wrong_times(content):
            return found
        return "" if first else _wrong_time(content)
    if first:
        return _wrong_start(content)
    return _wrong_round(content) or _uneven_logs(content)


def _uneven_logs(record: Mapping[str, Any]) -> str:
    """Clients log one by one, as the cohort names them."""
    for name, values in record.get("logs", {}).items():
        if len(values) != len(record["cohort"]):
            return f"logs.{name} must have a value for every client of the cohort"
    return ""
