"""Styles of the table of accuracies: a file of this folder with a `STYLE`, or a paper's own."""

import dataclasses
import importlib
from pathlib import Path

from pflbench.errors import unknown
from pflbench.papers import papers
from pflbench.papers.paper import Paper
from pflbench.records.report_options import ReportOptions
from pflbench.report.render.notation import Style


def names() -> list[str]:
    """All styles."""
    files = Path(__file__).parent.glob("[!_]*.py")
    return sorted([*(path.stem for path in files), *(paper.key for paper in papers())])


def style_of(options: ReportOptions) -> Style:
    """The style that a report asks for, with its own choice of rows and marks."""
    if options.style not in names():
        raise unknown("style of tables", options.style, names())
    paper = paper_of(options)
    if paper:
        style: Style = paper.style
    else:
        style = importlib.import_module(f"{__name__}.{options.style}").STYLE
    rows = style.rows if options.rows is None else options.rows
    marks = style.marks if options.marks is None else options.marks
    return dataclasses.replace(style, rows=rows, marks=marks)


def paper_of(options: ReportOptions) -> Paper | None:
    """The paper in whose style a report is, which then has its words and its order of methods."""
    return next((paper for paper in papers() if paper.key == options.style), None)
