"""The FedCoSR paper's table of accuracies: marks for the first three, arrows against the mean, signs
against the base scenario, its own method in bold.
"""

import dataclasses

from pflbench.report.render.notation import Notation, Place, Style

LATEX = Notation(
    places=(
        Place(r"\underline{%s}", "$^{*}$"),
        Place(r"\underline{%s}", r"$^{\dagger}$"),
        Place(r"\underline{%s}", r"$^{\ddagger}$"),
    ),
    better=r"\textcolor{better}{$\uparrow$}",
    worse=r"\textcolor{red}{$\downarrow$}",
    plus=r"\textcolor{purple}{+}",
    minus=r"\textcolor{blue}{$-$}",
    fewer=r"$^{\S}$",
    outdated=r"$^{\P}$",
    dash="--",
    letter=r"$^{\mathrm{%s}}$",
    bold=r"\textbf{%s}",
    proposed=r"\textbf{%s}",
)
MARKDOWN = Notation(
    places=(Place(mark="\\*"), Place(mark="\u2020"), Place(mark="\u2021")),
    better="\u2191",
    worse="\u2193",
    plus="+",
    minus="\u2212",
    fewer="\u00a7",
    outdated="\u00b6",
    dash="\u2013",
    bold="**%s**",
    proposed="**%s**",
)
PAGE = dataclasses.replace(
    MARKDOWN,
    places=(Place(mark="*"), *MARKDOWN.places[1:]),
    bold="%s",
    proposed="",
)
STYLE = Style(
    rows=("mean", "majority"),
    marks=("ranks", "arrows", "base"),
    ranked=("accuracy", "std"),
    columns=2,
    legend=(
        "{0} {1} {2}: first, second and third of a column (highest accuracy, lowest std), equal"
        " numbers sharing a rank."
    ),
    latex=LATEX,
    markdown=MARKDOWN,
    page=PAGE,
    full_captions=True,
)
