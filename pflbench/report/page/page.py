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
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pflbench import __version__
from pflbench.records import json_text
from pflbench.records.status import STATES
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.page.runs import embedded
from pflbench.report.render.parts import Section, TablePart
from pflbench.report.summary import caption

TEMPLATE = Path(__file__).parent / "template"
WIDTH = 1600  # points
FORMS = ("latex", "csv", "markdown")  # of a table, to copy or to save


@dataclass(frozen=True)
class Picture:
    """A figure that has been drawn, small enough for the page."""

    name: str
    title: str
    caption: str
    png: bytes


@dataclass(frozen=True)
class Sheet:
    """A section of the page; without an experiment it is not about runs."""

    section: Section
    pictures: tuple[Picture, ...] = ()
    experiment: Experiment | None = None


def render(sheets: Sequence[Sheet], title: str, choice: Choice, newest: float) -> str:
    """The page; `newest` is the time of the newest record, in seconds since 1970."""
    charts, page, style = (
        (TEMPLATE / name).read_text(encoding="utf-8")
        for name in ("charts.js", "page.js", "page.css")
    )
    script = charts + page
    template = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html")
    experiments = [sheet.experiment for sheet in sheets if sheet.experiment is not None]
    files = {
        anchor(sheet): {
            table.name: {form: vars(table)[form] for form in FORMS}
            for table in sheet.section.tables
        }
        for sheet in sheets
    }
    return template.render(
        title=title,
        sheets=[_sheet(sheet, experiments) for sheet in sheets],
        cards=[card(sheet.experiment, anchor(sheet)) for sheet in sheets if sheet.experiment],
        said=caption(choice),
        time=datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=as_script({**embedded(experiments, choice.weighted), "files": files}),
    )


def card(experiment: Experiment, address: str) -> dict[str, Any]:
    """An experiment at a glance, whose section has this address; a run that has two places in it counts once."""
    plan = experiment.plan
    runs = {run.planned.id: run for run in experiment.runs}.values()
    counts = Counter(run.status if run.status in STATES else "missing" for run in runs)
    seeds = sorted({run.planned.config["seed"] for run in runs})
    sizes = {
        "method": len({run.method for run in runs}),
        "setting": len({run.planned.setting for run in runs}),
        "variant": len({run.planned.variant for run in runs} - {""}),
    }
    words = [f"{number} {name}{'s' * (number != 1)}" for name, number in sizes.items() if number]
    words.append(f"{'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}")
    return {
        "anchor": address,
        "name": plan.name,
        "title": plan.title,
        "scale": plan.scale,
        "command": plan.command,
        "size": "; ".join(words),
        "total": len(runs),
        "counts": {state: counts[state] for state in STATES if counts[state]},
    }


def anchor(sheet: Sheet) -> str:
    """The address of a section within the page; different names have different ones."""
    name = re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found[0]):x}_", sheet.section.name)
    return f"{'experiment' if sheet.experiment else 'about'}-{name}"


def as_script(value: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it can end the element or open a comment."""
    text = json_text.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def small(png: bytes) -> bytes:
    """A picture for a screen: at most WIDTH points wide, and with 256 colours, which are enough for lines and text."""
    from PIL import Image  # comes with matplotlib

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.thumbnail((WIDTH, 10 * WIDTH))
    buffer = io.BytesIO()
    picture.quantize(256, Image.Quantize.FASTOCTREE).save(buffer, "png")
    return buffer.getvalue()


def _sheet(sheet: Sheet, experiments: Sequence[Experiment]) -> dict[str, Any]:
    section, runs = sheet.section, sheet.experiment.runs if sheet.experiment else ()
    return {
        "anchor": anchor(sheet),
        "name": section.name,
        "title": section.title,
        "notes": section.notes,
        "tables": [_table(table) for table in section.tables],
        "pictures": [
            {
                **vars(picture),
                "source": "data:image/png;base64," + base64.b64encode(picture.png).decode(),
            }
            for picture in sheet.pictures
        ],
        "place": [experiment is sheet.experiment for experiment in experiments].index(True)
        if runs
        else None,
        "runs": len(runs),
    }


def _table(table: TablePart) -> dict[str, Any]:
    """Cells with the number to sort them by; a column with any number is set as numbers are."""
    numbers = [
        [None if x is None or not math.isfinite(x) else x for x in row] for row in table.numbers
    ]
    numeric = [
        any(row[place] is not None for row in numbers) for place in range(len(table.headers))
    ]
    rows = [
        list(zip(cells, keys, numeric, strict=True))
        for cells, keys in zip(table.rows, numbers, strict=True)
    ]
    return {**vars(table), "heads": list(zip(table.headers, numeric, strict=True)), "cells": rows}
