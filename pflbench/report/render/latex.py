r"""A marked table as LaTeX: a `table*` to \input, or a document of its own."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby

from pflbench.errors import UserError
from pflbench.records.report_options import LABEL
from pflbench.report.render.marks import MEASURES, Column, Marked, Measure, Row
from pflbench.report.render.notation import Style
from pflbench.report.render.text import MEAN, cell, legend, mean, pair, rows_of

# Brackets and star would be read as an argument of the \\ before a row; backticks make quotes.
SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedblright{}",
    "\u2013": r"\textendash{}",
    "\u2014": r"\textemdash{}",
    "\u2018": r"\textquoteleft{}",
    "\u2019": r"\textquoteright{}",
    "\u201c": r"\textquotedblleft{}",
    "\u201d": r"\textquotedblright{}",
    "\u2026": r"\dots{}",
    "\u00b1": r"$\pm$",
    "\u00d7": r"$\times$",
    "\u00a7": r"\S{}",
    "\u00b6": r"\P{}",
    "\u00b5": r"$\mu$",
    **{symbol: f"\\{symbol}" for symbol in "{}$&#_%"},
    **{symbol: f"{{{symbol}}}" for symbol in "[]*`"},
}
GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi . pi rho . sigma tau"
    " upsilon phi chi psi omega"
)
SPECIAL.update(
    {chr(0x3B1 + i): f"$\\{name}$" for i, name in enumerate(GREEK.split()) if name != "."}
)

# Ligatures and other letters without a separate accent.
LIGATURES = "\u00c6\u00e6\u00d8\u00f8\u00df\u0131\u0141\u0142\u0152\u0153"

# A table that is wider than the text shrinks, if graphicx is there to do it.
_TABLE = r"""%% Needs %s; with \usepackage{graphicx} it fits any page.
\begin{%s}[!t]
%s\centering
\caption{%s}
\label{%s}
\sbox2{%s}%%
\ifdim\wd2>%s\ifdefined\resizebox\resizebox{%s}{!}{\usebox2}\else\usebox2\fi\else\usebox2\fi
%s\end{%s}
"""
_SETTING = r"""\setlength{\tabcolsep}{%s}\setlength{\abovetopsep}{4pt}\renewcommand{\arraystretch}{1.1}%%
"""
COLOURS = "\\definecolor{better}{RGB}{30,160,30}\n"
FEW = 3  # scenarios of a table with one column each that is as wide as a column of the text
_NOTES = r"""\par\vspace{2pt}\parbox{%s}{\scriptsize\raggedright %s}
"""
# A cell (#3) that is as wide as its share (1 / #2) of the heading (#1) above: TeX gives what a
# heading takes more than its columns to the last of them.
SHARING = r"\def\sharing#1#2#3{\setbox0\hbox{\textbf{#1}}\vtop{\offinterlineskip\hbox{#3}\hbox to\dimexpr\wd0/#2{}}}%"
PAIR = 18  # letters of a heading that surely fit above an accuracy and its std
# A4 across, or higher.
_DOCUMENT = r"""\documentclass[10pt]{article}
\usepackage[utf8]{inputenc}
\usepackage{booktabs,graphicx,xcolor}
\setlength{\textwidth}{277mm}
\setlength{\textheight}{%dmm}
\setlength{\paperwidth}{\dimexpr\textwidth+20mm\relax}
\setlength{\paperheight}{\dimexpr\textheight+20mm\relax}
\ifdefined\pdfpagewidth \pdfpagewidth=\paperwidth \pdfpageheight=\paperheight \fi
\setlength{\hoffset}{\dimexpr 10mm-1in\relax}
\setlength{\voffset}{\dimexpr 10mm-1in\relax}
\setlength{\oddsidemargin}{0pt}
\setlength{\topmargin}{0pt}
\setlength{\headheight}{0pt}
\setlength{\headsep}{0pt}
\pagestyle{empty}
\begin{document}
%s\mbox{}
\end{document}
"""


def table_float(
    caption: str, label: str, tabular: str, notes: Sequence[str] = (), space: str = "3.5pt"
) -> str:
    """A `table*` of LaTeX: all but the notes, which are plain text and stand below the table."""
    packages = r"\usepackage{booktabs} and \usepackage{xcolor}"
    small = r"\scriptsize" + _SETTING % space + tabular
    return _float("table*", packages, COLOURS, caption, label, small, notes)


def _float(
    kind: str,
    packages: str,
    first: str,
    caption: str,
    label: str,
    content: str,
    notes: Sequence[str],
) -> str:
    width = r"\textwidth" if kind == "table*" else r"\linewidth"
    lines = [escape(note) for note in notes]
    below = _NOTES % (width, r"\\ ".join(lines)) if lines else ""
    body = (first, caption, label, content, width, width, below)
    return _TABLE % (packages, kind, *body, kind)


def page(tables: str, rows: int, notes: int = 0, row_height: int = 5) -> str:
    """Tables as a document of its own; rows and notes are those of the longest table."""
    height = max(190, 60 + row_height * rows + 4 * notes)  # mm; a row takes 3, a rule 1
    return _DOCUMENT % (height, tables)


def fragment(
    marked: Marked, style: Style, caption: str, label: str, notes: Sequence[str] = ()
) -> str:
    r"""A float to \input. The caption is plain text; the legend of the marks follows it."""
    if not re.fullmatch(LABEL, label):
        raise UserError(
            f"{label!r} cannot be the label of a table: use letters, digits and : . _ -"
        )
    said = " ".join(filter(None, [escape(caption), legend(marked, style, style.latex)]))
    if style.columns == len(MEASURES):
        return table_float(said, label, _in_two_columns(marked, style), notes, "1.5pt")
    kind = "table" if len(marked.table.columns) <= FEW else "table*"
    content = r"\small" + _SETTING % "5pt" + _in_one_column(marked, style)
    return _float(kind, r"\usepackage{booktabs}", "", said, label, content, notes)


def document(
    marked: Marked, style: Style, caption: str, label: str, notes: Sequence[str] = ()
) -> str:
    """The same as a page of its own, for pdflatex."""
    return page(fragment(marked, style, caption, label, notes), len(marked.table.rows), len(notes))


def escape(text: str) -> str:
    """Plain text as LaTeX that prints it. A character that LaTeX may not have becomes its number,
    as [U+4E2D].
    """
    words = " ".join(unicodedata.normalize("NFC", text).split())
    written = "".join(_character(character) for character in words)
    return re.sub(r"([-'])(?=\1)", r"\1{}", written)  # two hyphens are no dash


def _character(character: str) -> str:
    if character in SPECIAL:
        return SPECIAL[character]
    known = character.isascii() and character.isprintable()
    return character if known or _accented(character) else f"{{[}}U+{ord(character):04X}{{]}}"


def _accented(character: str) -> bool:
    """Whether it is a Latin letter that LaTeX prints with its oldest fonts, too; those have no
    ogonek (U+0328).
    """
    letter, _, accent = unicodedata.decomposition(character).partition(" ")
    composed = (
        accent != "" and len(letter) == 4 and chr(int(letter, 16)).isascii() and accent != "0328"
    )
    return "\u00c0" <= character <= "\u017e" and (composed or character in LIGATURES)


def _in_two_columns(marked: Marked, style: Style) -> str:
    """Accuracy and std of a scenario in columns of their own."""
    columns = marked.table.columns
    spec = "l" + r"@{\hspace{4\tabcolsep}}ll" * len(columns)
    head = _head(columns, len(MEASURES))
    measures = _measures(columns)
    lines = [SHARING] if "\\sharing" in measures else []
    lines += [f"\\begin{{tabular}}{{{spec}}}", r"\toprule", *head, measures, r"\midrule"]
    lines += _body(marked, style)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _in_one_column(marked: Marked, style: Style) -> str:
    """Accuracy with std of a scenario in one column."""
    columns = marked.table.columns
    *head, titles, _ = _head(columns, 1)
    titles = r"\textbf{Method}" + titles
    lines = [rf"\begin{{tabular}}{{l{'c' * len(columns)}}}", r"\toprule", *head, titles]
    lines += [r"\midrule", *_body(marked, style)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _body(marked: Marked, style: Style) -> list[str]:
    """The rows, with rules between groups of methods and before what is no method."""
    lines: list[str] = []
    before = None
    for row in rows_of(marked.table, style):
        group = MEAN if row is None else row.group
        if before is not None and group != before:
            lines.append(r"\midrule")
        before = group
        lines.append(_line(marked, row, style))
    return lines


def _head(columns: tuple[Column, ...], width: int) -> list[str]:
    """Headings of groups (where there are any) and of scenarios, of so many columns each, with the
    rules below them.
    """
    groups = _groups(columns, width)
    titles = [(column.title, width) for column in columns]
    return [*(_spanning(groups) if any(name for name, _ in groups) else []), *_spanning(titles)]


def _groups(columns: tuple[Column, ...], width: int) -> list[tuple[str, int]]:
    return [
        (name, width * len(list(members)))
        for name, members in groupby(columns, lambda column: column.group)
    ]


def _measures(columns: tuple[Column, ...]) -> str:
    """The line of headings of the two measures, as wide as those above them need."""
    width = len(MEASURES)
    cells = [r"Acc. (\%)", r"Std. (\%)"] * len(columns)
    for spans in ([(column.title, width) for column in columns], _groups(columns, width)):
        above = [(name, span) for name, span in spans for _ in range(span)]
        cells = [_sharing(*heading, cell) for heading, cell in zip(above, cells, strict=True)]
    return " & ".join([r"\textbf{Method}", *cells]) + r" \\"


def _sharing(heading: str, width: int, cell: str) -> str:
    """A cell below a heading of that many columns, wide enough for its share of a long one."""
    return (
        cell
        if len(heading) <= PAIR * width / 2
        else rf"\sharing{{{escape(heading)}}}{{{width}}}{{{cell}}}"
    )


def _spanning(spans: list[tuple[str, int]]) -> list[str]:
    """A line of headings that span several columns, and the rules below it."""
    cells = "".join(
        rf" & \multicolumn{{{width}}}{{c}}{{\textbf{{{escape(name)}}}}}" for name, width in spans
    )
    rules, first = [], 2
    for name, width in spans:
        rules += [rf"\cmidrule(lr){{{first}-{first + width - 1}}}"] if name else []
        first += width
    return [rf"{cells} \\", "".join(rules)]


def _line(marked: Marked, row: Row | None, style: Style) -> str:
    """A method, or (None) the means."""
    notation = style.latex
    title = notation.bold % MEAN if row is None else escape(row.title)
    cells = [notation.bold % title if row and row.kind == "proposed" else title]
    for column in marked.table.columns:
        if style.columns == 1:
            indent = _indent(marked, column, "accuracy", _value(marked, row, column, "accuracy"))
            cells.append(indent + pair(marked, row, column, style, notation))
            continue
        for measure in MEASURES:
            indent = _indent(marked, column, measure, _value(marked, row, column, measure))
            if row is None:
                cells.append(indent + mean(marked, column, measure, notation))
            else:
                cells.append(indent + cell(marked, row, column, measure, style, notation))
    return " & ".join(cells) + r" \\"


def _value(marked: Marked, row: Row | None, column: Column, measure: Measure) -> float | None:
    if row is None:
        return marked.means[column.key, measure]
    return marked.table.cell(row.title, column.key).value(measure)


def _indent(marked: Marked, column: Column, measure: Measure, value: float | None) -> str:
    """What brings the decimal points of a column below each other."""
    if value is None:
        return ""
    found = [marked.table.cell(row.title, column.key).value(measure) for row in marked.table.rows]
    longest = max(len(marked.text(number)) for number in found if number is not None)
    short = longest - len(marked.text(value))
    return rf"\phantom{{{'0' * short}}}" if short else ""
