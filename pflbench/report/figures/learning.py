"""Accuracy and loss over rounds: a figure per scenario, a line per method or variant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.overview import Group, Overview, best, ranked
from pflbench.report.load.runs import Floats, Numbers, mean
from pflbench.report.render.parts import FigurePart

LONGEST = 50  # rounds of the moving average
MANY, BEST = 8, 5  # of more lines than many, only the best stand out
LEAST = 2  # rounds that make a curve
POINTS = 100  # of a curve, at most
STARS = 4  # on the curve of the proposed method
AXES = {"accuracy": "accuracy (%)", "loss": "training loss"}


@dataclass(frozen=True)
class Curve:
    """Values of all seeds at the rounds that all of them have."""

    rounds: Floats  # (R,)
    values: Floats  # (seeds, R), smoothed


Line = tuple[Group, dict[str, Curve]]
"""The curves of a group: accuracy, and loss if it is known."""


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """Also of runs that are not finished, with a cross at their end."""
    for scenario, groups in seen.scenarios.items():
        rounds = max(group.config["rounds"] for group in groups)
        if rounds < LEAST:
            continue
        side = reach(rounds)
        lines = [(group, curves) for group in ranked(groups) if (curves := _curves(group, side))]
        if not lines:
            yield f"No learning curves of {scenario.line}: no run has been evaluated after a round."
            continue
        title = f"Learning curves, {scenario.line}"
        text = seen.caption(_caption(seen, scenario, lines, side), groups)
        name, width = seen.name("curves", scenario), seen.width(style.PAGE)
        yield FigurePart(name, title, text, partial(_figure, lines), width)


def reach(rounds: int) -> int:
    """Of the moving average, to either side: an eighth of the rounds, at most half of LONGEST."""
    return min(LONGEST // 2, rounds // 8)


def smoothed(rounds: Floats, values: Floats, side: int) -> Floats:
    """The mean of the values in rounds r - s to r + s for every round r; nan if none is known.

    s is `side`, but less near the first round: the same to both sides, so that the start is not
    flattened.
    """
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    numbers = np.concatenate([[0.0], np.cumsum(known)])
    s = np.minimum(side, rounds - rounds[0])
    first = np.searchsorted(rounds, rounds - s, side="left")
    after = np.searchsorted(rounds, rounds + s, side="right")
    with np.errstate(invalid="ignore"):
        means: Floats = (sums[after] - sums[first]) / (numbers[after] - numbers[first])
    return means


def thinned(length: int) -> list[int]:
    """Places of at most POINTS of `length` points, evenly spread, with the first and the last."""
    if not length:
        return []
    places = np.linspace(0, length - 1, min(length, POINTS)).round().astype(int)
    return [int(place) for place in np.unique(places)]


def _curves(group: Group, side: int) -> dict[str, Curve]:
    """Of the runs that count; if none does, of those that have started."""
    started = group.finished or group.runs
    runs = [run for run in started if np.isfinite(_accuracy(run)[1]).any()]
    if not runs:
        return {}
    found = {"accuracy": _together([_accuracy(run) for run in runs], side)}
    losses = [_loss(run) for run in runs if np.isfinite(run.loss).any()]
    if losses:
        found["loss"] = _together(losses, side)
    return found


def _accuracy(run: Numbers) -> tuple[Floats, Floats]:
    """Rounds and percent, without the untrained start."""
    values = run.curves.get(run.point, np.full(len(run.evaluated), np.nan))
    return run.evaluated[run.evaluated > 0], 100 * values[run.evaluated > 0]


def _loss(run: Numbers) -> tuple[Floats, Floats]:
    return np.arange(1.0, len(run.loss) + 1), run.loss


def _together(series: Sequence[tuple[Floats, Floats]], side: int) -> Curve:
    common = reduce(np.intersect1d, [rounds for rounds, _ in series])
    values = [smoothed(rounds, values, side)[np.isin(rounds, common)] for rounds, values in series]
    kept = thinned(len(common))
    return Curve(common[kept], np.stack(values)[:, kept])


@style.themed
def _figure(lines: Sequence[Line], width: float) -> Any:
    names = {f"{g.label}  {g.state or f'{g.accuracy:.1f}'}": g.look for g, _ in lines}
    figure, panels = style.with_legend(len(AXES), list(names), width, 2.3)
    groups = [group for group, _ in lines]
    strong = groups if len(groups) <= MANY else best(groups, BEST)
    for axes, kind in zip(panels, AXES, strict=True):
        known = [(group, curves[kind]) for group, curves in lines if kind in curves]
        _faint(axes, [(group, curve) for group, curve in known if group not in strong])
        _strong(axes, [(group, curve) for group, curve in known if group in strong])
        axes.set(xlabel="round", ylabel=AXES[kind])
        axes.margins(x=0.01)
        axes.xaxis.get_major_locator().set_params(integer=True)
    _loss_scale(
        panels[1], [mean(curves["loss"].values.T) for _, curves in lines if "loss" in curves]
    )
    style.legend(figure, names, title="accuracy (%)")
    return figure


def _strong(axes: Any, curves: Sequence[tuple[Group, Curve]]) -> None:
    """Means over seeds, with bands from the lowest to the highest seed."""
    band = {"alpha": 0.15, "linewidth": 0}
    _lines(axes, curves, errorbar=style.RANGE, err_kws=band, linewidth=1.4, zorder=3)


def _faint(axes: Any, curves: Sequence[tuple[Group, Curve]]) -> None:
    """Means over seeds; seaborn would take seconds to find them."""
    means = [(group, Curve(curve.rounds, mean(curve.values.T)[None])) for group, curve in curves]
    _lines(axes, means, estimator=None, linewidth=0.7, alpha=0.55)


def _lines(axes: Any, curves: Sequence[tuple[Group, Curve]], **how: Any) -> None:
    """The first is on top; a cross ends one that is not finished."""
    import pandas as pd
    import seaborn as sns

    if not curves:
        return
    drawn = list(reversed(curves))
    rows = [
        pd.DataFrame({"label": group.label, "round": curve.rounds, "value": values})
        for group, curve in drawn
        for values in curve.values
    ]
    names = {"x": "round", "y": "value", "hue": "label", "style": "label"}
    looks = style.mapping({group.label: group.look for group, _ in drawn})
    sns.lineplot(pd.concat(rows), **names, **looks, **how, legend=False, ax=axes)
    for group, curve in drawn:
        if group.state:
            end = curve.rounds[-1:], mean(curve.values.T)[-1:]
            axes.plot(*end, "x", color=group.look.colour, ms=6, mew=1.6, clip_on=False)
        if group.proposed:
            _stars(axes, group, curve)


def _stars(axes: Any, group: Group, curve: Curve) -> None:
    """On the line of the proposed method, a few."""
    at = np.linspace(0, len(curve.rounds) - 1, STARS + 2).round().astype(int)[1:-1]
    stars = {"marker": group.look.marker, "color": group.look.colour, "linestyle": "none"}
    axes.plot(curve.rounds[at], mean(curve.values.T)[at], **stars, ms=7, mew=0, zorder=4)


def _loss_scale(axes: Any, curves: Sequence[Floats]) -> None:
    """Logarithmic where the losses are of different orders."""
    known = np.concatenate([np.zeros(0), *curves])
    known = known[np.isfinite(known)]
    if not known.size:
        axes.text(0.5, 0.5, "no loss is recorded", transform=axes.transAxes, ha="center")
    elif known.min() > 0 and known.max() > 20 * known.min():
        axes.set_yscale("log")


def _standing_out(seen: Overview) -> str:
    proposed = any(group.proposed for group in seen.groups)
    return f"The best {BEST - 1} and the proposed method" if proposed else f"The best {BEST}"


def _caption(seen: Overview, scenario: Heading, lines: Sequence[Line], side: int) -> str:
    smooth = f"a moving average of {2 * side} rounds ({side} to either side, fewer near the ends)"
    text = (
        "Accuracy (mean over clients) and training loss (the loss that the method minimises, so its"
        " terms differ between methods) over rounds on"
        f" {scenario.line}, with {smooth if side else 'no smoothing'}. In the legend:"
        f" {seen.measure}."
    )
    if any(len(group.finished) > 1 for group, _ in lines):
        text += " Lines are means over seeds and bands go from the lowest to the highest seed."
    if len(lines) > MANY:
        text += f" {_standing_out(seen)} stand out; the others have no bands."
    if any(group.state for group, _ in lines):
        text += " A cross ends the line of a run that is not finished."
    silent = [group.label for group, curves in lines if "loss" not in curves]
    if silent:
        text += f" No loss is recorded for {', '.join(silent)}."
    return text
