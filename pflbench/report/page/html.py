"""The report as one HTML page that needs nothing else: no network, no other file, no server."""

import base64
import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pflbench import __version__
from pflbench.output import plural
from pflbench.records import json_text
from pflbench.records.status import OUTDATED, STATES
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.page.chart import chart
from pflbench.report.page.run_data import embedded
from pflbench.report.render.parts import Section, TablePart
from pflbench.report.summary import caption

TEMPLATE = Path(__file__).parent / "template"
SCRIPTS = ("charts.js", "page.js")
WIDTH = 1600  # pixels
INCH = 130  # pixels of a screen for an inch in print: letters of 8 points are 14 pixels high
FORMS = ("latex", "csv", "markdown")  # of a table, to copy or to save
TAGS = {"bold": "b", "underlined": "u"}
PLUS_MINUS = " \u00b1"  # between an accuracy and its std
SHORT = 44  # letters of a cell that stay on one line
NAME = 20  # letters that leave room for numbers on a phone


@dataclass(frozen=True)
class Picture:
    """A figure that has been drawn, small enough for the page."""

    name: str
    title: str
    caption: str
    width: float  # inches in print
    png: bytes
    narrow: bytes = b""  # the same for a phone, where the first is too wide for it
    pdf: bytes = b""  # to save


@dataclass(frozen=True)
class Sheet:
    """A section of the page; without an experiment it is not about runs."""

    section: Section
    pictures: tuple[Picture, ...] = ()
    experiment: Experiment | None = None

    @property
    def anchor(self) -> str:
        """Its address within the page; different names have different ones."""
        name = re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found[0]):x}_", self.section.name)
        return f"{'experiment' if self.experiment else 'about'}-{name}"


def render(sheets: Sequence[Sheet], title: str, choice: Choice, newest: float) -> str:
    """The page; `newest` is the time of the newest record, in seconds since 1970."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    experiments = [sheet.experiment for sheet in sheets if sheet.experiment]
    script = "".join(_file(name) for name in SCRIPTS)
    return environment.get_template("page.html").render(
        title=title,
        sheets=[_sheet(sheet, experiments, choice) for sheet in sheets],
        meaning=caption(choice),
        time=datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        style=Markup(_file("page.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=as_script({**embedded(experiments, choice.weighted), "files": _files(sheets)}),
    )


def card(experiment: Experiment) -> dict[str, Any]:
    """An experiment at a glance; every run counts once."""
    plan = experiment.plan
    runs = {run.planned.id: run for run in experiment.runs}.values()
    counts = Counter(OUTDATED if run.outdated else run.status for run in runs)
    seeds = sorted({run.planned.config["seed"] for run in runs})
    sizes = {
        "method": len({run.planned.config["algorithm"] for run in runs}),
        "scenario": len({run.planned.scenario for run in runs}),
        "variant": len({run.planned.variant for run in runs} - {""}),
    }
    words = [plural(number, name) for name, number in sizes.items() if number]
    words.append(f"{'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}")
    return {
        "name": plan.name,
        "scale": plan.scale,
        "command": plan.command,
        "size": "; ".join(words),
        "total": len(runs),
        "counts": {label: counts[label] for label in STATES if counts[label]},
    }


def as_script(value: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element or open a comment."""
    text = json_text.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def small(png: bytes) -> bytes:
    """A picture for a screen: at most WIDTH wide, with 256 colours, enough for lines and text."""
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.thumbnail((WIDTH, 10 * WIDTH))
    buffer = io.BytesIO()
    picture.quantize(256, Image.Quantize.FASTOCTREE).save(buffer, "png")
    return buffer.getvalue()


def _file(name: str) -> str:
    return (TEMPLATE / name).read_text(encoding="utf-8")


def _files(sheets: Sequence[Sheet]) -> dict[str, Any]:
    """Section -> table -> form -> text: what the page copies and saves."""
    found: dict[str, Any] = {}
    for sheet in sheets:
        tables = {table.name: vars(table) for table in sheet.section.tables}
        found[sheet.anchor] = {
            name: {form: parts[form] for form in FORMS} for name, parts in tables.items()
        }
    return found


def _sheet(sheet: Sheet, experiments: Sequence[Experiment], choice: Choice) -> dict[str, Any]:
    """As the template takes it; `place` is that of its experiment in the data of the page. The
    first table of an experiment is its main one.
    """
    section, experiment = sheet.section, sheet.experiment
    places = [place for place, one in enumerate(experiments) if one is experiment]
    tables = [_table(table) for table in section.tables]
    return {
        "anchor": sheet.anchor,
        "name": section.name,
        "title": section.title,
        "card": card(experiment) if experiment else None,
        "chart": chart(experiment, choice) if experiment else None,
        "main": tables.pop(0) if experiment and tables else None,
        "notes": section.notes,
        "pictures": _by_kind(sheet.pictures),
        "tables": tables,
        "place": places[0] if places else None,
        "runs": len(experiment.runs) if experiment else 0,
    }


def _by_kind(pictures: Sequence[Picture]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Neighbours whose titles differ in the scenario only, under one heading: "Learning curves,
    Digits" and "Learning curves, CIFAR-10" are learning curves. One alone keeps its title.
    """
    found = []
    for kind, members in groupby(pictures, key=lambda picture: picture.title.partition(", ")[0]):
        together = [_picture(picture) for picture in members]
        found.append((kind if len(together) > 1 else together[0]["title"], together))
    return found


def _picture(picture: Picture) -> dict[str, Any]:
    addresses = {
        "source": _address(picture.png, "image/png"),
        "narrow": _address(picture.narrow, "image/png") if picture.narrow else "",
        "pdf": _address(picture.pdf, "application/pdf") if picture.pdf else "",
    }
    return {**vars(picture), **addresses, "shown": round(INCH * picture.width)}


def _address(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _table(table: TablePart) -> dict[str, Any]:
    """Cells with the number to sort them by and the kind of their column; one column stays in sight
    when the others are scrolled: the first of short names.
    """
    numbers = [
        [None if x is None or not math.isfinite(x) else x for x in row] for row in table.numbers
    ]
    kinds = [
        _kind([row[place] for row in table.rows], [row[place] for row in numbers])
        for place in range(len(table.headers))
    ]
    names = [place for place, kind in enumerate(kinds) if kind == "text" and _short(table, place)]
    if names:
        kinds[names[0]] += " stuck"
    plain = [[""] * len(table.headers)] * len(table.rows)
    rows = [
        list(zip(map(_written, cells, looks), keys, kinds, strict=True))
        for cells, looks, keys in zip(table.rows, table.looks or plain, numbers, strict=True)
    ]
    return {**vars(table), "heads": list(zip(table.headers, kinds, strict=True)), "cells": rows}


def _short(table: TablePart, place: int) -> bool:
    return all(len(row[place]) <= NAME for row in table.rows)


def _written(text: str, look: str) -> str:
    """A cell; what is bold or underlined in it is the first number, or all of a name."""
    tag = TAGS.get(look)
    number, sign, rest = text.partition(PLUS_MINUS)
    return Markup(f"<{tag}>%s</{tag}>%s") % (number, sign + rest) if tag else text


def _kind(texts: Sequence[str], numbers: Sequence[float | None]) -> str:
    """Of a column: n, numbers; long, text that is broken into lines; text, on one line."""
    if any(number is not None for number in numbers):
        return "n"
    return "long" if any(len(text) > SHORT for text in texts) else "text"
