"""Plain tables in all forms."""

from pathlib import Path

from pflbench.report.render import grid
from pflbench.report.render.grid import Head
from tests.factories.latex import compile_latex, needs_latex


def test_a_plain_table_in_all_forms():
    heads = [Head("a_b"), Head("n|m", "+.1f")]
    part = grid.grid(
        "x", "X", "A  *caption*.", heads, [["50%", -1.25], ["y", None], ["z", "failed"]], "tab:x"
    )
    assert part.rows == (("50%", "-1.2"), ("y", "\u2013"), ("z", "failed"))
    assert part.numbers == ((None, -1.25), (None, None), (None, None))
    assert part.csv == "a_b,n|m\n50%,-1.25\ny,\nz,failed\n"
    assert part.markdown.splitlines()[0] == r"| a\_b | n\|m |"
    assert part.markdown.splitlines()[-1] == r"A \*caption\*."
    assert r"50\% & $-$1.2 \\" in part.latex
    assert r"\begin{tabular}{lr}" in part.latex


def test_a_long_table_is_continued_on_another_page():
    part = grid.grid(
        "x",
        "X",
        "Said once.",
        [Head("n", ".0f")],
        [[float(i)] for i in range(grid.LINES + 1)],
        "tab:x",
    )
    assert part.latex.count(r"\begin{table*}") == 2
    assert part.latex.count("Said once.") == 1
    assert r"\label{tab:x-2}" in part.latex
    assert part.latex.count(f"{grid.LINES} ") == 1


def test_what_rows_of_a_block_share_is_printed_once_and_stays_in_the_other_forms():
    rows = [["a", "x", 1.0], ["a", "y", 2.0], ["b", "x", 3.0]]
    part = grid.grid(
        "x", "X", "", [Head("S"), Head("M", width=0.2), Head("n", ".0f")], rows, "tab:x"
    )
    ragged = r"\rightskip0pt plus1fil\relax "
    lines = part.latex.splitlines()
    first = lines.index(rf"a & {ragged}x & 1 \\")
    assert lines[first + 1 : first + 4] == [
        rf" & {ragged}y & 2 \\",
        r"\midrule",
        rf"b & {ragged}x & 3 \\",
    ]
    assert "| a | y | 2 |" in part.markdown and "a,y,2.0" in part.csv and part.rows[1][0] == "a"


def test_labels_have_only_what_latex_allows():
    assert grid.label_of("my trial_1", "seeds") == "tab:my-trial_1-seeds"


@needs_latex
def test_plain_tables_compile(tmp_path: Path):
    heads = [Head("a_b & c"), Head("n", "+.1f"), Head("text", width=0.3)]
    part = grid.grid(
        "x", "X", "50% of #1.", heads, [["[x]", -1.0, "long words " * 20]] * 60, "tab:x"
    )
    assert "Overfull" not in compile_latex(part.document, tmp_path)
