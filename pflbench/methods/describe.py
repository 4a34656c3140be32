"""What is known of the methods, as plain values: the rows of `pflbench algorithms`, and all of one
method.
"""

import dataclasses
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from pflbench.api import OPTIONS, Algorithm, Hparams
from pflbench.errors import UserError
from pflbench.methods import costs, given, registry

PARTS = ("Idea", "Paper", "Code", "Down", "Up", "Private", "Evaluated", "Deviations")
"""What a plugin's docstring says after the citation, each word with a colon."""
COLUMNS = ("family", "name", "evaluated", "idea")
"""What a person sees of a method in the list."""


def row(cls: type[Algorithm]) -> dict[str, str]:
    """A method's line in the list."""
    _, parts = documented(docstring(cls))
    return {
        "name": registry.name_of(cls),
        "title": cls.title,
        "family": cls.family,
        "evaluated": cls.evaluation_point,
        "idea": parts.get("Idea", ""),
    }


def rows(methods: Iterable[str]) -> list[dict[str, str]]:
    """These methods, by family; one that cannot be loaded is warned of and does not hide the
    others.
    """
    found = []
    for name in methods:
        try:
            found.append(row(registry.load(name)))
        except UserError as error:
            warnings.warn(str(error), stacklevel=2)
    return sorted(found, key=lambda row: (row["family"], row["title"].lower()))


def by_family(rows: Iterable[Mapping[str, str]]) -> list[list[str]]:
    """The cells of the list for a person, in which a family is named once."""
    cells = []
    above = ""
    for row in rows:
        family, *others = (row[column] for column in COLUMNS)
        cells.append(["" if family == above else family, *others])
        above = family
    return cells


def details(cls: type[Algorithm]) -> dict[str, Any]:
    """All that a method says of itself."""
    citation, parts = documented(docstring(cls))
    down, up = costs.by_default(cls)
    return {
        **row(cls),
        "version": registry.version_of(cls),
        "citation": citation,
        "paper": parts.get("Paper", ""),
        "code": parts.get("Code", ""),
        "down": {"what": parts.get("Down", ""), "numbers": down},
        "up": {"what": parts.get("Up", ""), "numbers": up},
        "private": parts.get("Private", ""),
        "evaluated_model": parts.get("Evaluated", ""),
        "deviations": parts.get("Deviations", ""),
        "hyperparameters": [
            hyperparameter(f)
            for f in dataclasses.fields(registry.hparams_type(cls))
            if not is_common_option(f)
        ],
        "options": [
            f.name for f in dataclasses.fields(registry.hparams_type(cls)) if is_common_option(f)
        ],
    }


def is_common_option(f: "dataclasses.Field[Any]") -> bool:
    """Whether a method has an option of training as all methods do, and says nothing of it."""
    common = Hparams.__dataclass_fields__[f.name] if f.name in OPTIONS else None
    return common is not None and (f.default, f.metadata) == (common.default, common.metadata)


def common_options() -> dict[str, Any]:
    """The options of training, as `hyperparameter_table` takes them."""
    fields = [f for f in dataclasses.fields(Hparams) if f.name in OPTIONS]
    return {"hyperparameters": [hyperparameter(f) for f in fields]}


def hyperparameter(f: "dataclasses.Field[Any]") -> dict[str, Any]:
    """A hyperparameter's default (for some data sets another one), range or choices, and
    meaning.
    """
    allowed = f.metadata["allowed"]
    return {
        "name": f.name,
        "default": f.default,
        "per_dataset": f.metadata["per_dataset"],
        "choices" if isinstance(allowed, list) else "range": list(allowed),
        "meaning": f.metadata["meaning"],
    }


def docstring(cls: type[Algorithm]) -> str:
    """What a plugin says of itself: its file's docstring, or its class's."""
    own = None if given.version_of(cls) else sys.modules[cls.__module__].__doc__
    return own or cls.__doc__ or ""


def documented(text: str) -> tuple[str, dict[str, str]]:
    """The citation (first paragraph) and the parts of a plugin's docstring, each on one line."""
    first, _, rest = text.strip().partition("\n\n")
    pieces = re.split(rf"\b({'|'.join(PARTS)}):", rest)
    parts = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return " ".join(first.split()), {name: " ".join(part.split()) for name, part in parts.items()}


def lines(details: dict[str, Any]) -> list[str]:
    """A method as it is shown to a person, but for its hyperparameters."""
    said = {
        "idea": details["idea"],
        "paper": details["paper"],
        "code": details["code"],
        "family": details["family"],
        "version": details["version"],
        "down": f"{details['down']['what']} [{details['down']['numbers']} numbers of 4 bytes]",
        "up": f"{details['up']['what']} [{details['up']['numbers']} numbers of 4 bytes]",
        "private": details["private"],
        "evaluated": f"{details['evaluated']}: {details['evaluated_model']}",
        "deviations": details["deviations"],
    }
    texts = [f"{name:<12}{text or '(not stated)'}" for name, text in said.items()]
    indented = [
        textwrap.fill(text, 110, subsequent_indent=" " * 12, break_long_words=False)
        for text in texts
    ]
    return [textwrap.fill(f"{details['name']}: {details['citation']}", 110), "", *indented, ""]


def hyperparameter_table(details: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headers and rows for a person."""
    rows: list[tuple[str, ...]] = []
    for found in details["hyperparameters"]:
        others = "".join(f", {dataset}: {value}" for dataset, value in found["per_dataset"].items())
        between, values = (
            (" | ", found["choices"]) if "choices" in found else (" .. ", found["range"])
        )
        allowed = between.join(map(str, values))
        rows.append((found["name"], f"{found['default']}{others}", allowed, found["meaning"]))
    return ("hyperparameter", "default", "range", "meaning"), rows
