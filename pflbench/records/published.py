"""Published accuracies, to compare measured ones with: a CSV file with the columns of COLUMNS."""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflbench.errors import UserError

COLUMNS = ("method", "scenario", "accuracy", "std", "source")
OPTIONAL = ("std", "source")  # columns that a file may lack


@dataclass(frozen=True)
class Number:
    """What someone published of a method in a scenario, in percent."""

    method: str
    scenario: str
    accuracy: float
    std: float | None = None
    source: str = ""


@dataclass(frozen=True)
class Numbers:
    """The lines of a file."""

    name: str
    lines: tuple[Number, ...]

    def as_json(self) -> dict[str, Any]:
        """As it is stored in a plan."""
        lines = [[getattr(line, column) for column in COLUMNS] for line in self.lines]
        return {"name": self.name, "lines": lines}


def beside(path: Path, given: Any) -> Any:
    """What a file says is published, with whole paths: they are relative to the file."""
    if isinstance(given, list):
        return [beside(path, one) for one in given]
    if isinstance(given, str) and given.endswith(".csv"):
        return str(path.resolve().parent / given)
    return given


def loaded(given: Any) -> Any:
    """The same with the content of CSV files, as a plan keeps it."""
    if isinstance(given, list | tuple):
        return [loaded(one) for one in given]
    is_file = isinstance(given, str) and given.endswith(".csv")
    return read_csv(Path(given)).as_json() if is_file else given


def numbers(given: Any, where: str) -> str | Numbers:
    """Numbers as a plan keeps them; the name of some that ship stays as it is."""
    if isinstance(given, str):
        return given
    try:
        lines = tuple(Number(*line) for line in given["lines"])
        if all(map(_is_sound, lines)):
            return Numbers(str(given["name"]), lines)
    except (KeyError, TypeError):
        pass
    raise UserError(f"published = {given!r} in {where}: must be a CSV file or a name")


def _is_sound(line: Number) -> bool:
    """Whether the values have the types that a file gives them."""
    values = [line.accuracy, *([] if line.std is None else [line.std])]
    texts = (line.method, line.scenario, line.source)
    numeric = all(type(value) in (int, float) and math.isfinite(value) for value in values)
    return numeric and all(isinstance(text, str) for text in texts)


def read_csv(path: Path) -> Numbers:
    """The lines of a file that have an accuracy."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows, header = list(reader), reader.fieldnames or []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path} is not CSV: {error}") from error
    if missing := [name for name in COLUMNS if name not in (*header, *OPTIONAL)]:
        columns = ", ".join(COLUMNS)
        raise UserError(f"{path} has no column {missing[0]!r}; its columns must be {columns}")
    lines = [_line(path, number, row) for number, row in enumerate(rows, 2)]
    found = tuple(line for line in lines if line)
    _check_once(path, found)
    return Numbers(path.stem, found)


def _line(path: Path, number: int, row: Mapping[str, Any]) -> Number | None:
    """A line; None where it has no accuracy."""
    texts = {name: str(row.get(name) or "").strip() for name in COLUMNS}
    if not texts["accuracy"]:
        return None
    values = {}
    for name in ("accuracy", "std"):
        try:
            values[name] = float(texts[name]) if texts[name] else None
        except ValueError:
            values[name] = math.nan
        if values[name] is not None and not math.isfinite(values[name] or 0.0):
            raise UserError(f"{path}, line {number}: {name} {texts[name]!r} is no number")
    assert values["accuracy"] is not None
    place = texts["method"], texts["scenario"]
    return Number(*place, values["accuracy"], values["std"], texts["source"])


def _check_once(path: Path, lines: tuple[Number, ...]) -> None:
    seen: set[tuple[str, str, str]] = set()
    for line in lines:
        key = line.method, line.scenario, line.source
        if key in seen:
            raise UserError(f"{path} has {line.method} in {line.scenario!r} twice")
        seen.add(key)
