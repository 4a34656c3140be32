"""Accuracy over rounds: a panel for every data set and partition, a line for every method."""

import textwrap
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pandas as pd

from pflbench.errors import UserError
from pflbench.report import summary
from pflbench.report.distribution import in_words
from pflbench.report.result import Result

DASHES = ["-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5))]
LEFT, WIDTH, TITLE, BELOW = 0.75, 4.4, 0.4, 0.65  # inches, of a panel; the legend is to its right
CAPTION = (
    "Mean accuracy over clients after every evaluated round, each method at the point at which it is scored (in"
    " brackets). The number is that of the last round. A band is the range over seeds; a cross ends a run that is not"
    " done."
)


def draw(found: Sequence[Result], folder: Path) -> list[Path]:
    """Write curves.png and curves.pdf."""
    from matplotlib.figure import Figure

    panels: dict[tuple[str, str], list[Curve]] = {}
    for settings, members in summary.groups(found):
        first = members[0]
        panels.setdefault((first.about["data"]["title"], first.config["partition"]), []).append(
            Curve(settings, members)
        )
    across = min(len(panels), 2)
    down = -(-len(panels) // across)
    legend = 0.6 + 0.064 * max(len(curve.label) for curves in panels.values() for curve in curves)  # inches, as below
    height = max(3.1, 0.185 * (1 + max(map(len, panels.values()))))
    column, line = LEFT + WIDTH + legend, TITLE + height + BELOW
    caption = textwrap.wrap(CAPTION, int(17 * column * across))
    size = across * column, down * line + 0.13 * len(caption) + 0.1
    figure = Figure(figsize=size, dpi=150)
    styles = _styles(found)
    for place, ((data, partition), curves) in enumerate(sorted(panels.items())):
        corner = place % across * column + LEFT, size[1] - (place // across + 1) * line + BELOW
        box = (corner[0] / size[0], corner[1] / size[1], WIDTH / size[0], height / size[1])
        axes = figure.add_axes(box)
        _panel(axes, curves, styles)
        axes.set_title(f"{data}, {in_words(partition)}", fontsize=11, loc="left")
    figure.text(0.1 / size[0], 0.08 / size[1], "\n".join(caption), fontsize=7.5, color="0.3", va="bottom")
    return _save(figure, folder)


class Curve:
    """Runs that differ in their seed only, as one line."""

    def __init__(self, settings: str, members: Sequence[Result]) -> None:
        self.title = str(members[0].about["method"]["title"])
        self.state = summary.status(members[0])
        self.table = pd.DataFrame({i: 100 * _series(member) for i, member in enumerate(members)}).dropna()
        self.last = float(self.table.iloc[-1].mean()) if len(self.table) else float("nan")
        name = " ".join(filter(None, [self.title, settings, f"({members[0].point})"]))
        end = "" if self.state == "done" else f"  {self.state}, round {self.table.index[-1] if len(self.table) else 0}"
        self.label = f"{name}  {'--' if self.last != self.last else f'{self.last:.1f}'}{end}"

    @property
    def place(self) -> tuple[bool, float]:
        """In the legend: what is done by accuracy, then the rest."""
        return self.state != "done", -self.last if self.last == self.last else 1.0


def _styles(found: Sequence[Result]) -> dict[str, tuple[Any, Any]]:
    """Colour and dashes of every method, the same in all panels; the colours are safe for the colour-blind."""
    import seaborn

    palette = seaborn.color_palette("colorblind")
    del palette[8]  # yellow, too faint for a line on white
    titles = sorted({result.about["method"]["title"] for result in found}, key=str.lower)
    return {title: (palette[i % 9], DASHES[i // 9 % len(DASHES)]) for i, title in enumerate(titles)}


def _panel(axes: Any, curves: list[Curve], styles: dict[str, tuple[Any, Any]]) -> None:
    widths: dict[str, Any] = {}
    handles = []
    ordered = sorted(curves, key=lambda curve: curve.place)
    for curve in ordered:
        width = next(widths.setdefault(curve.title, cycle([1.8, 1.0, 2.8])))  # a method with several settings
        colour, dashes = styles[curve.title]
        rounds = curve.table.index.to_numpy(dtype=float)
        low, mean, high = (getattr(curve.table, name)(axis=1).to_numpy() for name in ("min", "mean", "max"))
        handles += axes.plot(rounds, mean, color=colour, linestyle=dashes, linewidth=width)
        if curve.table.shape[1] > 1:
            axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
        end = {"marker": "o", "ms": 4} if curve.state == "done" else {"marker": "x", "ms": 9, "mew": 2.2}
        axes.plot(rounds[-1:], mean[-1:], color=colour, linestyle="", clip_on=False, **end)
    axes.legend(
        handles,
        [curve.label for curve in ordered],
        title="method (point)  last round, %",
        loc="upper left",
        bbox_to_anchor=(1.01, 1.02),
        fontsize=8,
        title_fontsize=8,
        frameon=False,
        handlelength=2.6,
        alignment="left",
    )
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy, mean over clients (%)")
    axes.grid(color="0.9", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02)
    axes.xaxis.get_major_locator().set_params(integer=True)


def _series(result: Result) -> "pd.Series[float]":
    table = result.rounds
    return table[result.point].dropna().astype(float) if result.point in table else pd.Series(dtype=float)


def _save(figure: Any, folder: Path) -> list[Path]:
    paths = [folder / "curves.png", folder / "curves.pdf"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            figure.savefig(path, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    return paths
