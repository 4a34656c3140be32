"""A marked table as Markdown and as CSV, and what all its renderings share: the writing of a cell and the legend."""

import csv
import io
import re
from dataclasses import dataclass

from pflbench.report.render.marks import COUNTED, MEASURES, Column, Marked, Measure, Row

AVERAGED = "Averaged"
NO_NUMBER = ("missing", "failed", "diverged")  # states of a cell


@dataclass(frozen=True)
class Notation:
    """How a markup writes the marks; `%s` is what is marked."""

    places: tuple[str, str, str]
    better: str  # than the average
    worse: str
    plus: str  # better than the base setting
    minus: str
    fewer: str
    dash: str
    letter: str
    bold: str
    underlined: str


MARKDOWN = Notation(
    places=("\\*", "\u2020", "\u2021"),
    better="\u2191",
    worse="\u2193",
    plus="+",
    minus="\u2212",
    fewer="\u00a7",
    dash="\u2013",
    letter="%s",
    bold="**%s**",
    underlined="%s",
)


def cell(marked: Marked, row: Row, column: Column, measure: Measure, notation: Notation) -> str:
    """A number with its marks: place, seeds, base, average; or a dash with the letter of the reason."""
    value = marked.table.cell(row.title, column.key).value(measure)
    if value is None:
        return _absent(marked.table.cell(row.title, column.key).state, notation)
    mark = marked.mark(row.title, column.key, measure)
    place = (
        notation.places[mark.rank - 1] if mark.rank and mark.rank <= len(notation.places) else ""
    )
    shown = notation.underlined if place else "%s"
    return "".join(
        [
            (notation.bold if row.kind == "proposed" else shown) % marked.text(value),
            place,
            notation.fewer
            if measure == "accuracy" and marked.table.fewer(row.title, column.key)
            else "",
            {"better": notation.plus, "worse": notation.minus}.get(mark.base, ""),
            {"better": notation.better, "worse": notation.worse}.get(mark.average, ""),
        ]
    )


def average(marked: Marked, column: Column, measure: Measure, notation: Notation) -> str:
    """A number of the row of averages."""
    value = marked.averages[column.key, measure]
    return notation.dash if value is None else marked.text(value)


def legend(marked: Marked, notation: Notation) -> str:
    """What the marks mean, of those that the table can have."""
    table = marked.table
    cells = [table.cell(row.title, column.key) for row in table.rows for column in table.columns]
    few = [
        table.cell(r.title, c.key).seeds
        for r in table.rows
        for c in table.columns
        if table.fewer(r.title, c.key)
    ]
    first, second, third = notation.places
    parts = [
        f"{first} {second} {third}: first, second and third of a column (highest accuracy, lowest std), equal numbers"
        " sharing a place.",
        f"{notation.better} {notation.worse}: better, worse than the average of the methods in the column.",
    ]
    if any(mark.base for mark in marked.marks.values()):
        parts.append(
            f"{notation.plus} {notation.minus}: better, worse than the same method in the base setting."
        )
    if any(row.kind == "proposed" for row in table.rows):
        parts.append(f"{notation.bold % 'Bold'}: the proposed method.")
    for state in NO_NUMBER:
        if any(cell.state == state for cell in cells):
            parts.append(f"{_absent(state, notation)}: {state}.")
    if any(cell.state in COUNTED and cell.value("std") is None for cell in cells):
        parts.append(f"{notation.dash}: no such number.")
    if few:
        span = f"{min(few)}" if min(few) == max(few) else f"{min(few)} to {max(few)}"
        parts.append(f"{notation.fewer}: of fewer seeds ({span}) than others ({table.seeds}).")
    return " ".join(parts)


def markdown(marked: Marked, caption: str = "") -> str:
    """The table with a column for every data set, accuracy and std in one cell; below it caption and legend."""
    table = marked.table
    heads = [
        f"{plain(c.group)}: {plain(c.title)}" if c.group else plain(c.title) for c in table.columns
    ]
    lines = [["Method", *heads], ["---"] * (1 + len(heads))]
    for row in (*table.methods, None, *table.baselines):
        title = MARKDOWN.bold % AVERAGED if row is None else plain(row.title)
        pairs = [
            [
                average(marked, c, m, MARKDOWN)
                if row is None
                else cell(marked, row, c, m, MARKDOWN)
                for m in MEASURES
            ]
            for c in table.columns
        ]
        title = MARKDOWN.bold % title if row and row.kind == "proposed" else title
        lines.append([title, *(" \u00b1 ".join(pair) for pair in pairs)])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{body}\n\n{' '.join(filter(None, [plain(caption), legend(marked, MARKDOWN)]))}\n"


def long_csv(marked: Marked) -> str:
    """A line for every cell, and for the averages, with all digits; marks in words, places beyond the third too."""
    table = marked.table
    names = [
        f"{m}_{what}" for what in ("rank", "against_average", "against_base") for m in MEASURES
    ]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(
        ["column", "group", "title", "method", "kind", "accuracy", "std", *names, "seeds", "state"]
    )
    for column in table.columns:
        head = [column.key, column.group, column.title]
        for row in table.rows:
            one = table.cell(row.title, column.key)
            marks = [marked.mark(row.title, column.key, measure) for measure in MEASURES]
            said = [*(m.rank for m in marks), *(m.average for m in marks), *(m.base for m in marks)]
            numbers = [one.value(measure) for measure in MEASURES]
            lines.writerow([*head, row.title, row.kind, *numbers, *said, one.seeds, one.state])
        averages = [marked.averages[column.key, measure] for measure in MEASURES]
        lines.writerow([*head, AVERAGED, "average", *averages, *[""] * (len(names) + 2)])
    return text.getvalue()


def _absent(state: str, notation: Notation) -> str:
    return notation.dash + (notation.letter % state[0] if state in NO_NUMBER else "")


def plain(text: str) -> str:
    """Text of a user in which Markdown finds no markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
