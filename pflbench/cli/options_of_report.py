"""The options of `pflbench report`, with their help."""

from pathlib import Path
from typing import Annotated

from pflbench.cli.options import option

ReportFolder = Annotated[
    Path | None, option("Output folder. [FOLDER/report; for FOLDER.tar.xz too]", "FOLDER", "--out")
]
ReportedExperiments = Annotated[
    list[str] | None,
    option("Only this experiment of the folder; may be repeated.", "NAME", "--experiment"),
]
ChosenRound = Annotated[
    str,
    option(
        "last, last10 (mean), best (on the test samples: optimistic) or validation. [last]",
        "WHICH",
        "--round",
    ),
]
Proposed = Annotated[
    str | None,
    option("Your method: last row, tested against all others. [as in the file]", "NAME"),
]
ReportFile = Annotated[
    list[Path] | None,
    option("Take [report] from this experiment file, not from the sweep.", "FILE", "--options"),
]
ShownMethods = Annotated[
    list[str] | None, option("Methods to show, in this order. [all]", "NAMES", "--methods")
]
ShownScenarios = Annotated[
    list[str] | None,
    option("A scenario to show, * matches any text; may be repeated. [all]", "NAME", "--scenario"),
]
Renamed = Annotated[
    list[str] | None,
    option(
        "Title of a method, data set, partition or scenario; may be repeated.",
        "NAME=TITLE",
        "--rename",
    ),
]
Caption = Annotated[str | None, option("Caption of the table of accuracies.", "TEXT")]
Label = Annotated[str | None, option("LaTeX label of the table of accuracies.", "LABEL")]
TableStyle = Annotated[
    str | None,
    option("Style of the table of accuracies: plain, or that of a paper. [plain]", "NAME"),
]
TableRows = Annotated[
    str | None, option("Rows below the methods: mean, majority or none.", "ROWS", "--rows")
]
TableMarks = Annotated[
    str | None, option("Marks on numbers: ranks, arrows, base or none.", "MARKS", "--marks")
]
PublishedNumbers = Annotated[
    list[str] | None,
    option(
        "Published numbers to compare with: a CSV file, or a known name; may be repeated.",
        "FILE",
        "--published",
    ),
]
FigureMethods = Annotated[
    list[str] | None,
    option("Methods shown in figures. [as in tables]", "NAMES", "--figure-methods"),
]
FigureSize = Annotated[
    str | None, option("one-column or two-column. [as each figure needs]", "SIZE", "--figure-size")
]
Template = Annotated[
    str | None,
    option("Paper template, for the width of columns: ieee, neurips, icml, ... [ieee]", "NAME"),
]
Std = Annotated[str | None, option("Std over seeds or over clients. [seeds]", "OVER")]
Weighted = Annotated[bool, option("Weight clients by their test samples.", None, "--weighted")]
Decimals = Annotated[
    int | None, option("Decimals of percentages in tables. [2]", "N", min=0, max=6)
]
Margin = Annotated[
    float, option("Percentage points within which a curve has converged. [1]", "POINTS", min=0)
]
OnlyFiles = Annotated[
    list[str] | None, option("Only tables, figures or page; may be repeated.", "KIND", "--only")
]
Watch = Annotated[
    bool,
    option("Update the report as records change, until all runs have ended.", None, "--watch"),
]
Point = Annotated[
    str | None,
    option("Evaluation point of all methods: pre or post. [each method's own]", "POINT"),
]
