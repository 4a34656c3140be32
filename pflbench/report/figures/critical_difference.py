"""The critical-difference diagram (Demsar 2006): mean ranks, and which of them do not differ."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pflbench.errors import UserError
from pflbench.report.figures import style
from pflbench.report.grouping.overview import Overview
from pflbench.report.render.parts import FigurePart

if TYPE_CHECKING:
    from pflbench.report.stats.ranks import Ranking

LINE, BAR, PAD = 0.165, 0.085, 0.08  # inches: a label, a bar of a group, a gap
AXIS = 0.8  # inches, at least
STEM, THICK = "0.35", style.PALETTE[0]
BAR_STYLE: dict[str, Any] = {"color": THICK, "lw": 3, "solid_capstyle": "round", "clip_on": False}
ABOVE: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": style.FONT}


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """One figure of all methods (or variants), where there are enough scenarios."""
    import pandas as pd

    from pflbench.report.stats.ranks import Ranking, friedman

    if len({group.label for group in seen.groups}) < 2:
        return
    rows = [
        (group.label, group.scenario.key, run.planned.config["seed"], accuracy)
        for group in seen.groups
        for run, accuracy in zip(group.finished, group.accuracies, strict=True)
    ]
    proposed = next((group.label for group in seen.groups if group.proposed), "")
    found = friedman(pd.DataFrame(rows, columns=["method", "scenario", "seed", "accuracy"]))
    if not isinstance(found, Ranking):
        yield f"No critical-difference diagram: {found.reason}."
    elif (needed := narrowest(found, proposed)) > style.PAGE:
        yield f"No critical-difference diagram: its labels need {needed:.1f} inches."
    else:
        data = ", ".join(dict.fromkeys(group.scenario.data for group in seen.groups))
        text = f"{caption(found)} Ranks are by {seen.measure}, mean over seeds. Data: {data}."
        text = seen.caption(text, seen.groups)
        make = partial(_figure, found, proposed)
        yield FigurePart("ranks", "Critical differences", text, make, seen.width(style.PAGE))


def caption(ranking: "Ranking") -> str:
    """What the diagram shows, in words."""
    tested = f"Friedman: chi-square {ranking.statistic:.2f}, p {_p(ranking.p)}"
    text = f"Mean ranks of {len(ranking.ranks)} methods over {ranking.blocks} {ranking.kind}, 1 is"
    text += f" best. {tested}."
    if ranking.p > ranking.alpha:
        text += f" At {ranking.alpha:g} this does not show that any two methods differ"
        text += ": one bar joins all."
    else:
        tested = f"Nemenyi, {ranking.alpha:g}, CD {ranking.difference:.2f}"
        text += f" A bar joins methods that do not differ ({tested})."
    if ranking.kind == "runs":
        text += " Runs of one scenario are not independent, so p is too small."
    if ranking.left_out:
        text += f" Left out, for missing runs: {', '.join(ranking.left_out)}."
    if ranking.dropped:
        text += f" Scenarios and seeds left out, since not all methods have them: {len(ranking.dropped)}."
    return text


def narrowest(ranking: "Ranking", proposed: str) -> float:
    """Inches that the labels and the axis need."""
    return sum(_margins(ranking, proposed)) + AXIS


def _figure(ranking: "Ranking", proposed: str, width: float) -> Any:
    """The diagram, wider where its labels need it."""
    return diagram(ranking, max(width, narrowest(ranking, proposed)), proposed)


def diagram(ranking: "Ranking", width: float = 7.0, proposed: str = "") -> Any:
    """The diagram, `width` inches wide: best on the left, a bar for every group.

    The better half is labelled on the left, the other on the right, outermost on top, so that no
    line crosses another.
    """
    from matplotlib.figure import Figure

    left, right = _margins(ranking, proposed)
    if width < left + right + AXIS:
        raise UserError(
            f"a diagram {width:g} inches wide is too narrow for its labels;"
            f" {left + right + AXIS:.1f} are enough"
        )
    number = len(ranking.ranks)
    inch = (number - 1) / (width - left - right)  # in ranks
    spans = [(ranking.ranks[group[0]], ranking.ranks[group[-1]]) for group in ranking.groups]
    levels = _levels(spans, PAD * inch)
    above = 4.4 * LINE  # the critical difference, ticks and their numbers
    first = PAD + BAR * (1 + max(levels, default=-1)) + LINE / 2  # of the labels
    below = first + LINE * _half(ranking)
    figure = Figure(figsize=(width, above + below), dpi=200)
    axes = figure.add_axes((left / width, 0, 1 - (left + right) / width, 1))
    axes.set(xlim=(1, number), ylim=(below, -above))  # ranks; inches below the axis of ranks
    axes.axis("off")
    _scale(axes, number, inch)
    _difference(axes, ranking.difference, number)
    _stems(axes, ranking, proposed, first, PAD * inch)
    for span, level in zip(spans, levels, strict=True):
        y = PAD + BAR * (level + 0.25)
        axes.plot(span, [y, y], **BAR_STYLE, gid="group")
    return figure


def _label(name: str, rank: float) -> str:
    return f"{name}  {rank:.2f}"


def _half(ranking: "Ranking") -> int:
    """How many methods are labelled on the left."""
    return -(-len(ranking.ranks) // 2)


def _margins(ranking: "Ranking", proposed: str) -> tuple[float, float]:
    """Inches for the labels on the left and on the right; that of the proposed method is bold."""
    weights = {proposed: "bold"}
    widths = [
        style.text_width(_label(name, rank), style.FONT, weights.get(name, "normal"))
        for name, rank in ranking.ranks.items()
    ]
    half = _half(ranking)
    return max(widths[:half]) + 2 * PAD, max(widths[half:]) + 2 * PAD


def _stems(axes: Any, ranking: "Ranking", proposed: str, first: float, gap: float) -> None:
    """From the axis down, then out to the labels; those of the proposed method in its colour."""
    number, half = len(ranking.ranks), _half(ranking)
    for i, (name, rank) in enumerate(ranking.ranks.items()):
        y = first + LINE * (i if i < half else number - 1 - i)
        edge, out, side = (1, -gap, "right") if i < half else (number, gap, "left")
        stem = [rank, rank, edge + out], [0, y, y]
        colour = style.PROPOSED if name == proposed else STEM
        axes.plot(*stem, color=colour, lw=0.7, clip_on=False, gid="stem")
        place: dict[str, Any] = {"ha": side, "va": "center", "fontsize": style.FONT}
        if name == proposed:
            place |= {"color": style.PROPOSED, "fontweight": "bold"}
        axes.text(edge + 1.5 * out, y, _label(name, rank), **place, gid="label")


def _levels(spans: Sequence[tuple[float, float]], gap: float) -> list[int]:
    """The row of every bar: the first in which it is clear of the bars before it."""
    ends: list[float] = []
    levels = []
    for start, end in spans:
        level = next((i for i, last in enumerate(ends) if last < start - gap), len(ends))
        ends[level : level + 1] = [end]
        levels.append(level)
    return levels


def _scale(axes: Any, methods: int, inch: float) -> None:
    """The axis of ranks, with a number wherever it fits."""
    axes.plot([1, methods], [0, 0], color="black", lw=1, clip_on=False, solid_capstyle="projecting")
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step / inch >= 0.22 or step == 100)
    for tick in range(1, methods + 1):
        shown = tick == 1 or tick % step == (1 if step == 2 else 0)
        end = -0.06 if shown else -0.03
        axes.plot([tick, tick], [0, end], color="black", lw=0.8, clip_on=False)
        if shown:
            axes.text(tick, -0.09, str(tick), **ABOVE, gid="tick")
    axes.text((1 + methods) / 2, -0.09 - LINE, "mean rank", **ABOVE, gid="title")


def _difference(axes: Any, difference: float, methods: int) -> None:
    """As long as it is on the axis; a longer one goes over the whole axis and says so."""
    end, y = min(1 + difference, methods), -0.09 - 2.6 * LINE
    fits = 1 + difference <= methods
    axes.plot([1, end], [y, y], color="black", lw=1.4, clip_on=False, gid="difference")
    for x in [1, end] if fits else [1]:
        axes.plot([x, x], [y - 0.04, y + 0.04], color="black", lw=1.4, clip_on=False)
    text = f"CD = {difference:.2f}" + ("" if fits else ", longer than the axis")
    axes.text((1 + end) / 2, y - 0.05, text, **ABOVE, gid="CD")


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"
