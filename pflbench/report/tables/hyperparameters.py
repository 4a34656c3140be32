"""The hyperparameters that the runs of a report had, and where they are not the defaults."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pflbench.report.grouping.layout import Layout, counted
from pflbench.report.render.grid import Head, Value, grid, label_of, without_empty
from pflbench.report.render.marks import Row
from pflbench.report.render.parts import TablePart

CHANGED = "*"  # marks a value that is not the default
SHORT = 20  # letters of values that need no second line


@dataclass(frozen=True)
class Used:
    """The value of a hyperparameter in a scenario, and the default there, both as text."""

    line: str  # the scenario
    value: str
    default: str  # equal to the value where it is not known

    @property
    def changed(self) -> bool:
        return self.value != self.default

    @property
    def text(self) -> str:
        return f"{self.value}{CHANGED if self.changed else ''}"


Values = dict[str, list[Used]]  # of a method, by name


def tables(layout: Layout) -> tuple[list[TablePart], list[str]]:
    """A row for every method and hyperparameter; what all methods have alike is in the caption."""
    found = {row: _used(layout, row) for row in layout.rows}
    used = {row: values for row, values in found.items() if values}
    shared = _shared(list(used.values()))
    rows: list[list[Value]] = []
    for row, values in used.items():
        for name, entries in values.items():
            if name not in shared:
                rows.append([row.title, name, _said(entries), _defaults(entries)])
    if not used:
        return [], []
    if not rows:
        common = {name: _of_all(used, name) for name in shared}
        rows = [["All methods", name, _said(of), _defaults(of)] for name, of in common.items()]
        shared = {}
    longest = max(len(str(row[2])) for row in rows)
    heads = [Head("Method"), Head("Hyperparameter")]
    heads += [Head("Value", width=0.3 if longest > SHORT else 0.0), Head("Default")]
    heads, rows = without_empty(heads, rows, ["Default"])
    every = [entry for values in used.values() for entries in values.values() for entry in entries]
    caption = _caption(shared, used, any(entry.changed for entry in every))
    name = "hyperparameters"
    label = label_of(layout.plan.name, name)
    return [grid(name, "Hyperparameters", caption, heads, rows, label)], []


def _used(layout: Layout, row: Row) -> Values:
    """What the runs that count had, from their records. All runs of a cell have the same."""
    found: Values = {}
    for column in layout.columns:
        for run in counted(layout.cell(row, column.key))[:1]:
            config: Mapping[str, Any] = run.about.get("config", run.planned.config)
            defaults = run.about.get("method", {}).get("defaults", {})
            for name, value in config.get("hparams", {}).items():
                entry = Used(column.line, _text(value), _text(defaults.get(name, value)))
                found.setdefault(name, []).append(entry)
    return found


def _shared(used: Sequence[Values]) -> dict[str, str]:
    """Hyperparameters that all of several methods have, with one value everywhere."""
    if len(used) < 2:
        return {}
    found = {}
    for name, first in used[0].items():
        values = {entry.value for one in used for entry in one.get(name, [])}
        if all(name in one for one in used) and len(values) == 1:
            found[name] = first[0].value
    return found


def _of_all(used: Mapping[Row, Values], name: str) -> list[Used]:
    return [entry for values in used.values() for entry in values[name]]


def _said(entries: Sequence[Used]) -> str:
    """The value, or values with their scenarios where they differ."""
    lines: dict[str, list[str]] = {}
    for entry in entries:
        lines.setdefault(entry.text, []).append(entry.line)
    if len(lines) == 1:
        return entries[0].text
    return "; ".join(f"{value} ({', '.join(where)})" for value, where in lines.items())


def _defaults(entries: Sequence[Used]) -> str:
    """The default, where the value is another."""
    return ", ".join(dict.fromkeys(entry.default for entry in entries if entry.changed))


def _caption(shared: Mapping[str, str], used: Mapping[Row, Values], marked: bool) -> str:
    words = []
    for name, value in shared.items():
        default = _defaults(_of_all(used, name))
        words.append(
            f"{name} {value}{CHANGED} (default {default})" if default else f"{name} {value}"
        )
    said = ["Hyperparameters of the runs that the tables show."]
    said += [f"The same for all methods: {', '.join(words)}."] if words else []
    said += [f"{CHANGED}: not the method's default."] if marked else []
    return " ".join(said)


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value).replace("null", "none")
    return f"{value:g}" if isinstance(value, float) else str(value)
