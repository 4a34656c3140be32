"""Tables in LaTeX: what is written, and (where pdflatex is installed) that it compiles."""

import re
from pathlib import Path

import pytest

from pflbench.errors import UserError
from pflbench.papers.fedcosr import misprints
from pflbench.papers.fedcosr.style import STYLE
from pflbench.report.render import latex
from pflbench.report.render.marks import Cell, Column, Marked, Row, Table, mark
from tests.factories.latex import compile_latex, needs_latex

NASTY = "[50%_a&b#c] {$x^2$} ~\\end *--'' <|> \u00e9\u0142 \u4e2d\u0105 \u03b2 \u201cq\u201d \u2026 ?` \x07"
PREAMBLE = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs,xcolor%s}
\begin{document}
%s
\end{document}
"""


def printed(marked: Marked, caption: str, label: str) -> str:
    """In the style of the FedCoSR paper, which has all marks."""
    return latex.fragment(marked, STYLE, caption, label)


def on_a_page(marked: Marked, caption: str, label: str) -> str:
    return latex.document(marked, STYLE, caption, label)


def every_state(text: str = "plain") -> Marked:
    """All that a table can hold, with `text` wherever a user's words go."""
    columns = (
        Column("a", text, f"group {text}", "a"),
        Column("b", "B", f"group {text}"),
        Column("c", "C"),
    )
    rows = (
        Row(f"* {text}"),
        Row(f"[x] {text}", "g"),
        Row("X", "g"),
        Row("Y", "h", "proposed"),
        Row("Z", "i", "baseline"),
    )
    cells = {
        (rows[0].title, "a"): Cell(100, 10.5, "ok", 5),
        (rows[1].title, "a"): Cell(9.5, 1.25, "partial", 2),
        ("X", "a"): Cell(state="failed"),
        ("X", "b"): Cell(12.0, 3.0, "diverged", 5),
        ("Y", "a"): Cell(50, None, "ok", 5),
        ("Z", "a"): Cell(99.5, 0.1, "ok"),
    }
    table = Table(columns, rows, cells)
    return mark(table, 1, base=table)


def body(text: str) -> dict[str, list[str]]:
    """The cells of the rows below the head, by title."""
    inside = text.split("\\midrule", 1)[1].split("\\bottomrule")[0].replace("\\midrule", "")
    rows = [
        [cell.strip() for cell in line.split(" & ")]
        for line in inside.split("\\\\")
        if line.strip()
    ]
    return {cells[0]: cells[1:] for cells in rows}


@pytest.mark.parametrize(
    "plain, written",
    [
        ("CIFAR-10", "CIFAR-10"),
        ("50%_a&b#c", r"50\%\_a\&b\#c"),
        ("{$}", r"\{\$\}"),
        ("a~b^c\\d", r"a\textasciitilde{}b\textasciicircum{}c\textbackslash{}d"),
        ("<|>", r"\textless{}\textbar{}\textgreater{}"),
        ("[x]*", "{[}x{]}{*}"),
        ("?``", "?{`}{`}"),
        ("a---b", "a-{}-{}-b"),
        ("\u03b2=0.1", r"$\beta$=0.1"),
        ("\u03c6 \u03c3 \u03c9 \u00b5", r"$\phi$ $\sigma$ $\omega$ $\mu$"),
        ("e\u0301\u0142", "\u00e9\u0142"),
        ("\u4e2d\u0105", "{[}U+4E2D{]}{[}U+0105{]}"),
        ("two\n\nlines", "two lines"),
        ("\x07", "{[}U+0007{]}"),
    ],
)
def test_text_is_printed_as_it_is(plain: str, written: str):
    assert latex.escape(plain) == written


def test_cells_of_the_papers_table_look_as_printed():
    rows = body(printed(misprints.published("scalability_heterogeneity"), "", "tab:x"))
    better, worse = r"\textcolor{better}{$\uparrow$}", r"\textcolor{red}{$\downarrow$}"
    plus, minus = r"\textcolor{purple}{+}", r"\textcolor{blue}{$-$}"
    assert rows["FedRep"][:2] == [
        rf"\underline{{86.08}}$^{{\dagger}}${minus}{better}",
        f"13.23{minus}{better}",
    ]
    assert rows["FedProx"][1] == rf"\phantom{{0}}\underline{{8.81}}$^{{*}}${plus}{better}"
    assert rows["Local"][:1] == [f"65.72{minus}{worse}"]
    assert rows[r"\textbf{FedCoSR}"][4:6] == [
        rf"\textbf{{99.40}}$^{{*}}${plus}{better}",
        rf"\textbf{{10.78}}{minus}{better}",
    ]
    assert rows["FedPAC"][4:6] == [r"--$^{\mathrm{f}}$"] * 2
    assert rows[r"\textbf{Mean}"][4:6] == ["90.12", "13.69"]


def test_headings_span_their_columns_and_rules_divide_the_groups():
    text = printed(misprints.published("main"), "", "tab:x")
    assert r" & \multicolumn{6}{c}{\textbf{Practical heterogeneous ($\beta$=0.1, N=20)}}" in text
    assert r"\cmidrule(lr){2-7}\cmidrule(lr){8-13}" in text
    assert text.count(r"\multicolumn{2}{c}") == 6
    assert text.count("\\midrule\n") == 1 + 8 + 1  # head, groups, averages
    assert text.index(r"\textbf{FedCoSR}") < text.index(r"\textbf{Mean}")


@pytest.mark.parametrize("number, shared", [(1, True), (3, False)])
def test_columns_share_the_width_of_a_heading_that_is_longer_than_they_are(
    number: int, shared: bool
):
    group = "Practical heterogeneous (N=20)"  # 30 letters, above two, or six columns
    columns = tuple(Column(str(i), f"data {i}", group) for i in range(number))
    text = printed(
        mark(Table(columns, (Row("X"),), {("X", "0"): Cell(50, 1, "ok", 1)})), "", "tab:x"
    )
    acc, std = (rf"\sharing{{{group}}}{{2}}{{{name} (\%)}}" for name in ("Acc.", "Std."))
    assert (rf"\textbf{{Method}} & {acc} & {std} \\" in text) == shared
    assert (r"\def\sharing#1#2#3" in text) == shared and (r"\sharing{" in text) == shared


@needs_latex
def test_columns_below_a_long_heading_are_equally_wide(tmp_path: Path):
    title = "a heading that is far longer than the two columns below it"
    fragment = printed(mark(Table((Column("a", title),), (Row("X"),), {})), "", "tab:x")
    head = next(line for line in fragment.splitlines() if r"\textbf{Method}" in line)
    cells = [cell.removesuffix(r" \\") for cell in head.split(" & ")[1:]]
    widths = "".join(rf"\sbox4{{\scriptsize {cell}}}\typeout{{width \the\wd4}}" for cell in cells)
    whole = rf"\sbox4{{\scriptsize\textbf{{{title}}}}}\typeout{{width \the\wd4}}"
    said = compile_latex(PREAMBLE % ("", f"{latex.SHARING}\n{widths}{whole}\n{fragment}"), tmp_path)
    found = [float(width) for width in re.findall(r"width ([0-9.]+)pt", said)]
    assert found[0] == found[1] == pytest.approx(found[2] / 2, abs=0.01)


def test_a_baseline_is_below_the_averages():
    text = printed(every_state(), "", "tab:x")
    assert "\\midrule\nZ & " in text[text.index(r"\textbf{Mean}") :]
    assert body(text)["Z"][0] == r"\phantom{0}99.5"


def test_no_cell_is_empty_and_each_reason_is_explained():
    text = printed(every_state(), "Of toys.", "tab:x")
    rows = body(text)
    assert {len(cells) for cells in rows.values()} == {6}
    assert all(cell for cells in rows.values() for cell in cells)
    assert (
        rows["X"]
        == [r"--$^{\mathrm{f}}$"] * 2 + [r"--$^{\mathrm{d}}$"] * 2 + [r"--$^{\mathrm{m}}$"] * 2
    )
    assert rows[r"\textbf{Y}"][1] == "--"
    caption = text[text.index("\\caption") : text.index("\\label")]
    assert caption.startswith(r"\caption{Of toys. $^{*}$")
    for said in ["m}}$: missing.", "f}}$: failed.", "d}}$: diverged.", "--: not available."]:
        assert said in caption
    assert r"$^{\S}$: over fewer seeds (2) than others (5)." in caption
    assert r"\phantom{00}\underline{9.5}$^{\ddagger}$$^{\S}$\textcolor{red}" in text


def test_the_legend_is_of_the_marks_that_there_are():
    text = printed(misprints.published("main"), "", "tab:x")
    assert "base setting" not in text and "failed" not in text and "seeds" not in text


def test_decimals_are_those_asked_for():
    table = misprints.published("main").table
    assert body(printed(mark(table, 1), "", "tab:x"))["Local"][0].startswith("69.9\\")


@pytest.mark.parametrize("label", ["", "tab:{x}", "a b", "100%"])
def test_a_label_that_latex_cannot_take(label: str):
    with pytest.raises(UserError, match=r"the label .* letters, digits"):
        printed(every_state(), "", label)


@needs_latex
@pytest.mark.parametrize("name", ["main", "scalability_heterogeneity"])
def test_the_papers_tables_are_a_page_of_their_own(name: str, tmp_path: Path):
    said = compile_latex(on_a_page(misprints.published(name), "As published.", "tab:x"), tmp_path)
    assert "Output written on paper.pdf (1 page" in said
    assert "Overfull" not in said and "Undefined" not in said


@needs_latex
@pytest.mark.parametrize("packages", ["", ",graphicx"])
def test_a_table_with_any_text_can_be_put_into_a_paper(packages: str, tmp_path: Path):
    fragment = printed(every_state(NASTY), f"Of {NASTY}.", "tab:x")
    said = compile_latex(
        PREAMBLE % (packages, "\\input{table} See Table~\\ref{tab:x}."), tmp_path, table=fragment
    )
    assert "Output written on paper.pdf" in said
    assert "Missing character" not in said
    assert ("Overfull" in said) == (packages == "")  # graphicx shrinks it


@needs_latex
def test_the_page_is_large_enough_for_a_large_table(tmp_path: Path):
    columns = tuple(Column(str(i), f"a data set of number {i}") for i in range(20))
    rows = tuple(Row(f"method {i}", f"group {i}") for i in range(100))
    said = compile_latex(on_a_page(mark(Table(columns, rows, {})), "", "tab:x"), tmp_path)
    assert "Output written on paper.pdf (1 page" in said
    assert "Overfull" not in said and "too large" not in said
