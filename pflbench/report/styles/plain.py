"""The usual table of a paper: "81.2 +- 0.4", the best of a column in bold, the second underlined."""

from pflbench.report.render.notation import Notation, Place, Style

STYLE = Style(
    rows=("majority",),
    marks=("ranks",),
    ranked=("accuracy",),
    columns=1,
    legend="{0}: highest accuracy of a column; {1}: second highest.",
    latex=Notation(
        places=(Place(r"\textbf{%s}"), Place(r"\underline{%s}")),
        better=r"\,$\uparrow$",
        worse=r"\,$\downarrow$",
        plus="$^{+}$",
        minus="$^{-}$",
        fewer=r"$^{\S}$",
        outdated=r"$^{\P}$",
        dash="--",
        letter=r"$^{\mathrm{%s}}$",
        bold=r"\textbf{%s}",
        spread=r" {\scriptsize$\pm$%s}",
    ),
    markdown=Notation(
        places=(Place("**%s**"), Place("<u>%s</u>")),
        better="\u2191",
        worse="\u2193",
        plus="+",
        minus="\u2212",
        fewer="\u00a7",
        outdated="\u00b6",
        dash="\u2013",
        bold="**%s**",
    ),
    page=Notation(
        places=(Place(), Place()),
        better="\u2191",
        worse="\u2193",
        plus="+",
        minus="\u2212",
        fewer="\u00a7",
        outdated="\u00b6",
        dash="\u2013",
    ),
)
