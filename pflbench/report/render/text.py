"""A marked table as Markdown and as CSV, and what all its renderings share: the writing of a cell
and the legend.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pflbench.report.render.marks import COUNTED, MEASURES, Column, Marked, Measure, Row, Table
from pflbench.report.words import span

MEAN = "Mean"
NO_NUMBER = ("missing", "failed", "diverged")  # states of a cell
CSV = ("scenario", "group", "title", "method", "variant", "kind")


@dataclass(frozen=True)
class Notation:
    """How a markup writes the marks; `%s` is what is marked."""

    places: tuple[str, str, str]
    better: str  # than the mean
    worse: str
    plus: str  # better than in the base scenario
    minus: str
    fewer: str  # seeds
    outdated: str
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
    outdated="\u00b6",
    dash="\u2013",
    letter="%s",
    bold="**%s**",
    underlined="%s",
)


def cell(marked: Marked, row: Row, column: Column, measure: Measure, notation: Notation) -> str:
    """A number with its marks: place, seeds, version, base, mean; or a dash with the letter of the
    reason.
    """
    found = marked.table.cell(row.title, column.key)
    value = found.value(measure)
    if value is None:
        return _absent(found.state, notation)
    mark = marked.mark(row.title, column.key, measure)
    ranked = mark.rank is not None and mark.rank <= len(notation.places)
    place = notation.places[mark.rank - 1] if ranked and mark.rank else ""
    shown = notation.underlined if place else "%s"
    number = (notation.bold if row.kind == "proposed" else shown) % marked.text(value)
    if measure == "accuracy":
        place += notation.fewer if marked.table.fewer(row.title, column.key) else ""
        place += notation.outdated if found.outdated else ""
    base = {"better": notation.plus, "worse": notation.minus}.get(mark.base, "")
    mean = {"better": notation.better, "worse": notation.worse}.get(mark.mean, "")
    return number + place + base + mean


def mean(marked: Marked, column: Column, measure: Measure, notation: Notation) -> str:
    """A number of the row of means."""
    value = marked.means[column.key, measure]
    return notation.dash if value is None else marked.text(value)


def legend(marked: Marked, notation: Notation) -> str:
    """What the marks mean, of those that the table can have."""
    table = marked.table
    first, second, third = notation.places
    parts = [
        f"{first} {second} {third}: first, second and third of a column (highest accuracy, lowest"
        " std), equal numbers sharing a rank.",
        f"{notation.better} {notation.worse}: better, worse than the mean of the methods in the"
        " column.",
    ]
    if any(mark.base for mark in marked.marks.values()):
        said = "better, worse than the same method in the base scenario"
        parts.append(f"{notation.plus} {notation.minus}: {said}.")
    if any(row.kind == "proposed" for row in table.rows):
        parts.append(f"{notation.bold % 'Bold'}: the proposed method.")
    return " ".join([*parts, *_exceptions(table, notation)])


def _exceptions(table: Table, notation: Notation) -> list[str]:
    """What is said of cells without a number, of fewer seeds, of an earlier version."""
    places = [(row.title, column.key) for row in table.rows for column in table.columns]
    cells = [table.cell(*place) for place in places]
    parts = []
    for state in NO_NUMBER:
        if any(cell.state == state for cell in cells):
            parts.append(f"{_absent(state, notation)}: {state}.")
    if any(cell.state in COUNTED and cell.value("std") is None for cell in cells):
        parts.append(f"{notation.dash}: no such number.")
    if few := [table.cell(*place).seeds for place in places if table.fewer(*place)]:
        number = span(few)
        parts.append(f"{notation.fewer}: of fewer seeds ({number}) than others ({table.seeds}).")
    if any(cell.outdated for cell in cells):
        parts.append(f"{notation.outdated}: of an earlier version of the method.")
    return parts


def markdown(marked: Marked, caption: str = "", notes: Sequence[str] = ()) -> str:
    """The table with a column for every scenario, accuracy and std in one cell; below it caption
    and legend.
    """
    table = marked.table
    heads = [": ".join(filter(None, [plain(c.group), plain(c.title)])) for c in table.columns]
    lines = [["Method", *heads], ["---"] * (1 + len(heads))]
    for row in (*table.methods, None, *table.baselines):
        title = MARKDOWN.bold % MEAN if row is None else plain(row.title)
        title = MARKDOWN.bold % title if row and row.kind == "proposed" else title
        lines.append([title, *(pair(marked, row, column, MARKDOWN) for column in table.columns)])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    below = " ".join(filter(None, [plain(caption), legend(marked, MARKDOWN)]))
    return f"{body}\n\n{below}\n{markdown_notes(notes)}"


def markdown_notes(notes: Sequence[str]) -> str:
    """A list below a table; nothing where there are none."""
    return "\n" + "".join(f"- {plain(note)}\n" for note in notes) if notes else ""


def pair(marked: Marked, row: Row | None, column: Column, notation: Notation) -> str:
    """Accuracy and std of a method, or (None) the means."""
    if row is None:
        texts = [mean(marked, column, measure, notation) for measure in MEASURES]
    else:
        texts = [cell(marked, row, column, measure, notation) for measure in MEASURES]
    return " \u00b1 ".join(texts)


def long_csv(marked: Marked) -> str:
    """A line for every cell, and for the means, with all digits; marks in words, places beyond the
    third too.
    """
    table = marked.table
    kinds = ("rank", "against_mean", "against_base")
    names = [f"{measure}_{kind}" for kind in kinds for measure in MEASURES]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*CSV, *MEASURES, *names, "seeds", "state", "outdated", "notes"])
    for column in table.columns:
        head = [column.key, column.group, column.title]
        for row in table.rows:
            one = table.cell(row.title, column.key)
            marks = [marked.mark(row.title, column.key, measure) for measure in MEASURES]
            said = [*(m.rank for m in marks), *(m.mean for m in marks), *(m.base for m in marks)]
            numbers = [one.value(measure) for measure in MEASURES]
            version = "yes" if one.outdated else "no"
            end = [one.seeds, one.state, version, "; ".join(one.notes)]
            lines.writerow([*head, row.method, row.variant, row.kind, *numbers, *said, *end])
        means = [marked.means[column.key, measure] for measure in MEASURES]
        lines.writerow([*head, MEAN, "", "mean", *means, *[""] * (len(names) + 4)])
    return text.getvalue()


def _absent(state: str, notation: Notation) -> str:
    return notation.dash + (notation.letter % state[0] if state in NO_NUMBER else "")


def plain(text: str) -> str:
    """Text of a user in which Markdown finds no markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
