"""How the report of an experiment looks: whose paper it is for, what it shows and in which words.

An experiment says it with `proposed`, `published` and its `[report]` table. The plan on disk keeps
it, since reports read files only; options of `pflbench report` win.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pflbench.errors import UserError, unknown
from pflbench.records.published import Numbers, loaded, numbers

KEYS = ("proposed", "published", "report")  # of an experiment
Std = Literal["seeds", "clients"]
Size = Literal["", "one-column", "two-column"]
ROWS = ("mean", "majority")  # below the methods: the mean of a column, the majority class
MARKS = ("ranks", "arrows", "base")  # of a number: its rank, against the mean, against the base
TEMPLATES = {  # inches: the width of one column, and of two
    "aaai": (3.3, 7.0),
    "acm": (3.33, 7.0),
    "cvpr": (3.25, 6.875),
    "iclr": (5.5, 5.5),
    "icml": (3.25, 6.75),
    "ieee": (3.5, 7.16),
    "lncs": (4.8, 4.8),
    "neurips": (5.5, 5.5),
}
DECIMALS = 6  # at most
LABEL = r"[A-Za-z0-9:._-]+"


@dataclass(frozen=True)
class Titles:
    """What tables and figures call things, by the names that the experiment has for them."""

    methods: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    scenarios: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FigureOptions:
    """What only figures need."""

    methods: tuple[str, ...] = ()  # those that figures show; empty: those of the tables
    size: Size = ""  # of the template; "": each figure as wide as it needs
    template: str = "ieee"

    @property
    def width(self) -> float | None:
        """Inches; None where each figure has its own."""
        one, two = TEMPLATES[self.template]
        return {"": None, "one-column": one, "two-column": two}[self.size]


@dataclass(frozen=True)
class ReportOptions:
    """Methods and scenarios are named as in the experiment; scenarios also by patterns with *."""

    proposed: str = ""  # the method that the paper is about; "": nobody is special
    methods: tuple[str, ...] = ()  # to show, in this order; empty: all, in the plan's order
    scenarios: tuple[str, ...] = ()  # the same
    titles: Titles = Titles()
    caption: str = ""  # of the table of accuracies, in place of ours
    label: str = ""  # the same
    decimals: int = 2  # of percentages
    rows: tuple[str, ...] | None = None  # of ROWS; None: as the style has it
    marks: tuple[str, ...] | None = None  # of MARKS; None: as the style has it
    std: Std = "seeds"
    style: str = "plain"  # of the table of accuracies
    published: tuple[str | Numbers, ...] = ()  # to compare with: names of what ships, or numbers
    figures: FigureOptions = FigureOptions()

    def with_(self, given: Mapping[str, Any], where: str) -> "ReportOptions":
        """The same with other values instead of some; titles and figures are added to."""
        return read(_joined(self.as_json(), _with_numbers(given)), where)

    def as_json(self) -> dict[str, Any]:
        """What is not the default, as in a file."""
        return _values(self, ReportOptions())


def of_experiment(name: str, table: Mapping[str, Any]) -> ReportOptions:
    """What an experiment says of its report: its `[report]`, `proposed` and `published`."""
    own = table.get("report", {})
    where = f"experiment {name}"
    _check_names(own, ReportOptions, f"[report] of {where}")
    above = {key: table[key] for key in ("proposed", "published") if key in table}
    if twice := above.keys() & own.keys():
        raise UserError(f"{where} has {min(twice)} twice, once of them in [report]")
    return read(_with_numbers({**own, **above}), where)


def _with_numbers(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with the numbers of the files that it names."""
    if "published" not in table:
        return dict(table)
    return {**table, "published": loaded(table["published"])}


def read(table: Mapping[str, Any], where: str) -> ReportOptions:
    """Options from plain values, each of them checked; `where` is for messages."""
    _check_names(table, ReportOptions, where)
    found = {name: _READERS[name](name, value, where) for name, value in table.items()}
    return ReportOptions(**found)


def _joined(table: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    joined = dict(table)
    for name, value in given.items():
        there = table.get(name)
        both = isinstance(there, dict) and isinstance(value, Mapping)
        joined[name] = _joined(there, value) if both and there else value
    return joined


def _values(options: Any, default: Any) -> dict[str, Any]:
    """The fields that differ from the default, as plain values."""
    found: dict[str, Any] = {}
    for f in dataclasses.fields(options):
        value, usual = getattr(options, f.name), getattr(default, f.name)
        if value != usual:
            nested = isinstance(value, Titles | FigureOptions)
            found[f.name] = _values(value, usual) if nested else _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Numbers):
        return value.as_json()
    return dict(value) if isinstance(value, Mapping) else value


def _check_names(table: Any, kind: type, where: str) -> None:
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table, not {table!r}")
    known = [f.name for f in dataclasses.fields(kind)]
    for name in table:
        if name not in known:
            raise unknown(f"key of {where}", name, known)


def _text(name: str, value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{name} = {value!r} in {where}: must be a text")
    return value


def _label(name: str, value: Any, where: str) -> str:
    text = _text(name, value, where)
    if text and not re.fullmatch(LABEL, text):
        allowed = "letters, digits and : . _ - are allowed"
        raise UserError(f"{name} = {text!r} in {where}: {allowed}")
    return text


def _texts(name: str, value: Any, where: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise UserError(f"{name} = {value!r} in {where}: must be a list of texts")
    return tuple(texts)


def _rows(name: str, value: Any, where: str) -> tuple[str, ...]:
    return _chosen(name, value, where, ROWS)


def _marks(name: str, value: Any, where: str) -> tuple[str, ...]:
    return _chosen(name, value, where, MARKS)


def _chosen(name: str, value: Any, where: str, known: Sequence[str]) -> tuple[str, ...]:
    texts = _texts(name, value, where)
    for text in texts:
        _one_of(name, text, where, known)
    return texts


def _one_of(name: str, value: Any, where: str, known: Sequence[str]) -> Any:
    if value not in known:
        allowed = ", ".join(map(repr, filter(None, known)))
        raise UserError(f"{name} = {value!r} in {where}: must be one of {allowed}")
    return value


def _std(name: str, value: Any, where: str) -> Any:
    return _one_of(name, value, where, get_args(Std))


def _decimals(name: str, value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= DECIMALS:
        raise UserError(f"{name} = {value!r} in {where}: must be a number from 0 to {DECIMALS}")
    return value


def _titles(name: str, value: Any, where: str) -> Titles:
    where = f"[report.{name}] of {where}"
    _check_names(value, Titles, where)
    for kind, titles in value.items():
        if not isinstance(titles, Mapping):
            raise UserError(f"{kind} in {where} must be a table of titles by name")
        for key, title in titles.items():
            _text(key, title, f"{kind} of {where}")
    return Titles(**{kind: dict(titles) for kind, titles in value.items()})


def _figures(name: str, value: Any, where: str) -> FigureOptions:
    where = f"[report.{name}] of {where}"
    _check_names(value, FigureOptions, where)
    found: dict[str, Any] = dict(value)
    if "methods" in found:
        found["methods"] = _texts("methods", found["methods"], where)
    if "size" in found:
        _one_of("size", found["size"], where, get_args(Size))
    if "template" in found:
        _one_of("template", found["template"], where, tuple(TEMPLATES))
    return FigureOptions(**found)


def _published(name: str, value: Any, where: str) -> tuple[str | Numbers, ...]:
    given = value if isinstance(value, list | tuple) else [value]
    return tuple(numbers(one, where) for one in given)


_READERS = {
    **dict.fromkeys(("proposed", "caption", "style"), _text),
    **dict.fromkeys(("methods", "scenarios"), _texts),
    "label": _label,
    "titles": _titles,
    "decimals": _decimals,
    "rows": _rows,
    "marks": _marks,
    "std": _std,
    "published": _published,
    "figures": _figures,
}
