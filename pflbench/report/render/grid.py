"""A plain table in all its forms: text and numbers under simple headings, no marks."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pflbench.report.render import latex
from pflbench.report.render.parts import TablePart
from pflbench.report.render.text import markdown_notes, plain
from pflbench.report.words import csv_text

Value = str | float | None
DASH = "\u2013"
OUTDATED = "\u00b6"  # marks numbers of an earlier version of a method
SIGNIFICANT = "significant"  # how to show numbers of different orders
LINES = 55  # of a table on a printed page; a longer one is continued in another


@dataclass(frozen=True)
class Head:
    """A column: of text, or of numbers that are `shown` so (".2f"). Text may stand among numbers:
    why there is none.

    `width` is a share of the text's width in print, for text that is broken into lines. Numbers are
    shown in units of `unit`; CSV has them as they are, under `title_in_csv`.
    """

    title: str
    shown: str = ""
    width: float = 0.0
    unit: float = 1.0
    title_in_csv: str = ""

    def text(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        if value is None or not math.isfinite(value):
            return DASH
        if self.shown == SIGNIFICANT:
            return significant(value / self.unit)
        return format(value / self.unit, self.shown)


def grid(
    name: str,
    title: str,
    caption: str,
    heads: Sequence[Head],
    rows: Sequence[Sequence[Value]],
    label: str,
    notes: Sequence[str] = (),
) -> TablePart:
    """The table, with notes below it. CSV has all digits and no dashes, and no notes."""
    caption = " ".join(caption.split())
    texts = [
        tuple(head.text(value) for head, value in zip(heads, row, strict=True)) for row in rows
    ]
    headers = tuple(head.title for head in heads)
    printed = _pieces(caption, heads, rows, label, notes)
    row_height = 7 if any(head.width for head in heads) else 5
    return TablePart(
        name,
        title,
        caption,
        headers,
        tuple(texts),
        tuple(tuple(_number(value) for value in row) for row in rows),
        printed,
        latex.page(printed, min(len(rows), LINES), len(notes), row_height),
        _csv([head.title_in_csv or head.title for head in heads], rows),
        _markdown(headers, texts, caption) + markdown_notes(notes),
        tuple(notes),
    )


def significant(value: float, digits: int = 3) -> str:
    """So many digits that count, and all before the point: 1235, 738, 4.90, 0.0213."""
    places = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{max(places, 0)}f}"


def label_of(*words: str) -> str:
    """What LaTeX may refer to a table by."""
    return "tab:" + re.sub(r"[^A-Za-z0-9:._-]+", "-", "-".join(words))


def without_empty(
    heads: Sequence[Head], rows: Sequence[Sequence[Value]], names: Sequence[str]
) -> tuple[list[Head], list[list[Value]]]:
    """The same without those of the named columns that say nothing in any row."""
    kept = [
        place
        for place, head in enumerate(heads)
        if head.title not in names or any(_says(row[place]) for row in rows)
    ]
    return [heads[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _says(value: Value) -> bool:
    return bool(value) if isinstance(value, str) else _number(value) is not None


def _number(value: Value) -> float | None:
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    return float(value)


def _pieces(
    caption: str,
    heads: Sequence[Head],
    rows: Sequence[Sequence[Value]],
    label: str,
    notes: Sequence[str],
) -> str:
    """One or more floats, as none may exceed a page; caption and notes are on the first."""
    tables = []
    for piece, first in enumerate(range(0, max(len(rows), 1), LINES)):
        tabular = _tabular(heads, rows[first : first + LINES])
        if piece == 0:
            tables.append(latex.table_float(latex.escape(caption), label, tabular, notes))
        else:
            tables.append(latex.table_float("Continued.", f"{label}-{piece + 1}", tabular))
    return "\n".join(tables)


def _tabular(heads: Sequence[Head], rows: Sequence[Sequence[Value]]) -> str:
    spec = "".join(
        f"p{{{h.width:g}\\textwidth}}" if h.width else "r" if h.shown else "l" for h in heads
    )
    titles = [rf"\textbf{{{latex.escape(head.title)}}}" for head in heads]
    lines = [f"\\begin{{tabular}}{{{spec}}}", r"\toprule", _line(titles), r"\midrule"]
    blocks = [list(members) for _, members in groupby(rows, lambda row: row[0])]
    for place, members in enumerate(blocks):
        if place and len(blocks) < len(rows):
            lines.append(r"\midrule")
        for row in members:  # what a block shares is said once
            said = row if row is members[0] else ["", *row[1:]]
            lines.append(
                _line([_printed(head, value) for head, value in zip(heads, said, strict=True)])
            )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _printed(head: Head, value: Value) -> str:
    text = latex.escape(head.text(value))
    if head.width:
        return rf"\rightskip0pt plus1fil\relax {text}"  # \raggedright would redefine \\
    return f"$-${text[1:]}" if _number(value) is not None and text.startswith("-") else text


def _csv(headers: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(headers)
    lines.writerows(
        [
            [csv_text(value) if isinstance(value, str) else _number(value) for value in row]
            for row in rows
        ]
    )
    return text.getvalue()


def _markdown(headers: Sequence[str], texts: Sequence[Sequence[str]], caption: str) -> str:
    lines = [
        [plain(cell) for cell in headers],
        ["---"] * len(headers),
        *([plain(cell) for cell in row] for row in texts),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{plain(caption)}\n"
