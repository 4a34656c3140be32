"""A marked table as Markdown and as CSV, and what all its renderings share: the writing of a cell
and the legend.
"""

import csv
import io
import re
from collections.abc import Sequence

from pflbench.report.render.marks import (
    COUNTED,
    MEASURES,
    Column,
    Mark,
    Marked,
    Measure,
    Row,
    Table,
)
from pflbench.report.render.notation import Notation, Place, Style
from pflbench.report.words import csv_text, span

MEAN = "Mean"
# States of a cell that has no number, and their letters.
NO_NUMBER = {"missing": "m", "failed": "f", "diverged": "d", "damaged": "x"}
CSV = ("scenario", "group", "title", "method", "variant", "kind")


def cell(
    marked: Marked, row: Row, column: Column, measure: Measure, style: Style, notation: Notation
) -> str:
    """A number with its marks: place, seeds, version, base, mean; or a dash with the letter of the
    reason.
    """
    found = marked.table.cell(row.title, column.key)
    value = found.value(measure)
    if value is None:
        return _absent(found.state, notation)
    mark = marked.mark(row.title, column.key, measure) if measure in style.ranked else Mark()
    place = _place(mark, style, notation)
    special = notation.proposed if row.kind == "proposed" else ""
    written = (special or place.number) % marked.text(value) + place.mark
    if measure == "accuracy":
        written += notation.fewer if marked.table.fewer(row.title, column.key) else ""
        written += notation.outdated if found.outdated else ""
    if "base" in style.marks:
        written += {"better": notation.plus, "worse": notation.minus}.get(mark.base, "")
    if "arrows" in style.marks:
        written += {"better": notation.better, "worse": notation.worse}.get(mark.mean, "")
    return written


def _place(mark: Mark, style: Style, notation: Notation) -> Place:
    shown = "ranks" in style.marks and mark.rank is not None and mark.rank <= len(notation.places)
    return notation.places[mark.rank - 1] if shown and mark.rank else Place()


def mean(marked: Marked, column: Column, measure: Measure, notation: Notation) -> str:
    """A number of the row of means."""
    value = marked.means[column.key, measure]
    return notation.dash if value is None else marked.text(value)


def rows_of(table: Table, style: Style) -> tuple[Row | None, ...]:
    """The rows of a table from top to bottom; None is that of the means."""
    means = (None,) if "mean" in style.rows else ()
    return (*table.methods, *means, *table.baselines)


def legend(marked: Marked, style: Style, notation: Notation) -> str:
    """What the marks mean, of those that the table can have."""
    parts: list[str] = []
    if not style.explained:
        return " ".join(_exceptions(marked.table, style, notation))
    if "ranks" in style.marks:
        words = ("Bold", "Underlined", "")
        marks = zip(notation.places, words, strict=False)
        parts.append(style.legend.format(*(p.mark or p.number % word for p, word in marks)))
    if "arrows" in style.marks:
        arrows = f"{notation.better} {notation.worse}"
        parts.append(f"{arrows}: better, worse than the mean of the methods in the column.")
    if "base" in style.marks and any(mark.base for mark in marked.marks.values()):
        said = "better, worse than the same method in the base scenario"
        parts.append(f"{notation.plus} {notation.minus}: {said}.")
    if style.latex.proposed and any(row.kind == "proposed" for row in marked.table.rows):
        parts.append(f"{notation.bold % 'Bold'}: the proposed method.")
    return " ".join([*parts, *_exceptions(marked.table, style, notation)])


def _exceptions(table: Table, style: Style, notation: Notation) -> list[str]:
    """What is said of cells without a number, of fewer seeds, of an earlier version."""
    places = [(row.title, column.key) for row in table.rows for column in table.columns]
    cells = [table.cell(*place) for place in places]
    parts = []
    for state in NO_NUMBER:
        if any(cell.state == state for cell in cells):
            parts.append(f"{_absent(state, notation)}: {state}.")
    lacking = any(cell.state in COUNTED and cell.value("std") is None for cell in cells)
    if lacking and style.columns == len(MEASURES):
        parts.append(f"{notation.dash}: not available.")
    if few := [table.cell(*place).seeds for place in places if table.fewer(*place)]:
        number = span(few)
        parts.append(f"{notation.fewer}: over fewer seeds ({number}) than others ({table.seeds}).")
    if any(cell.outdated for cell in cells):
        parts.append(f"{notation.outdated}: from an earlier version of the method.")
    return parts


def markdown(marked: Marked, style: Style, caption: str = "", notes: Sequence[str] = ()) -> str:
    """The table with a column for every scenario, accuracy and std in one cell; below it caption
    and legend.
    """
    table, notation = marked.table, style.markdown
    heads = [": ".join(filter(None, [plain(c.group), plain(c.title)])) for c in table.columns]
    lines = [["Method", *heads], ["---"] * (1 + len(heads))]
    for row in rows_of(table, style):
        title = notation.bold % MEAN if row is None else plain(row.title)
        title = notation.bold % title if row and row.kind == "proposed" else title
        pairs = [pair(marked, row, column, style, notation) for column in table.columns]
        lines.append([title, *pairs])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    below = " ".join(filter(None, [plain(caption), legend(marked, style, notation)]))
    return f"{body}\n\n{below}\n{markdown_notes(notes)}"


def markdown_notes(notes: Sequence[str]) -> str:
    """A list below a table; nothing where there are none."""
    return "\n" + "".join(f"- {plain(note)}\n" for note in notes) if notes else ""


def pair(marked: Marked, row: Row | None, column: Column, style: Style, notation: Notation) -> str:
    """Accuracy and std of a method, or (None) the means; where a scenario has one column, a std
    that is not there is left out.
    """
    if row is None:
        texts = [mean(marked, column, measure, notation) for measure in MEASURES]
        known = marked.means[column.key, "std"] is not None
    else:
        texts = [cell(marked, row, column, measure, style, notation) for measure in MEASURES]
        known = marked.table.cell(row.title, column.key).value("std") is not None
    spread = notation.spread % texts[1] if known or style.columns == len(MEASURES) else ""
    return texts[0] + spread


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
        head = [csv_text(text) for text in (column.key, column.group, column.title)]
        for row in table.rows:
            one = table.cell(row.title, column.key)
            marks = [marked.mark(row.title, column.key, measure) for measure in MEASURES]
            said = [*(m.rank for m in marks), *(m.mean for m in marks), *(m.base for m in marks)]
            numbers = [one.value(measure) for measure in MEASURES]
            version = "yes" if one.outdated else "no"
            end = [one.seeds, one.state, version, csv_text("; ".join(one.notes))]
            names_of_row = [csv_text(row.method), csv_text(row.variant), row.kind]
            lines.writerow([*head, *names_of_row, *numbers, *said, *end])
        means = [marked.means[column.key, measure] for measure in MEASURES]
        lines.writerow([*head, MEAN, "", "mean", *means, *[""] * (len(names) + 4)])
    return text.getvalue()


def _absent(state: str, notation: Notation) -> str:
    return notation.dash + (notation.letter % NO_NUMBER[state] if state in NO_NUMBER else "")


def plain(text: str) -> str:
    """Text of a user in which Markdown finds no markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
