"""Accuracy and loss over rounds: a figure for every setting, a line for every method or variant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.overview import Group, Overview, ranked
from pflbench.report.load.runs import Floats, Numbers, mean
from pflbench.report.render.parts import FigurePart

LONGEST = 50  # rounds: the FedCoSR paper's moving average
MANY, BEST = 8, 5  # of more lines than many, only the best stand out
LEAST = 2  # rounds that make a curve


@dataclass(frozen=True)
class Curve:
    """Values of all seeds at the rounds that all of them have."""

    rounds: Floats  # (R,)
    values: Floats  # (seeds, R), smoothed

    @property
    def mean(self) -> Floats:
        """(R,) over seeds."""
        return mean(self.values.T)


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """Also of runs that are not done, with a cross at their end."""
    for setting, groups in seen.settings.items():
        rounds = max(group.config["rounds"] for group in groups)
        if rounds < LEAST:
            continue
        side = reach(rounds)
        lines = [(group, curves) for group in ranked(groups) if (curves := _curves(group, side))]
        if not lines:
            yield f"No learning curves of {setting.line}: no run has been evaluated after a round."
            continue
        title = f"Learning curves, {setting.line}"
        text = _caption(seen, setting, lines, side)
        yield FigurePart(
            seen.name("curves", setting), title, seen.caption(text, groups), partial(_figure, lines)
        )


def reach(rounds: int) -> int:
    """Of the moving average, to either side: an eighth of the rounds, at most the paper's."""
    return min(LONGEST // 2, rounds // 8)


def smoothed(rounds: Floats, values: Floats, side: int) -> Floats:
    """The mean of the values in rounds r - s to r + s for every round r; nan if none is known.

    s is `side`, but less near the first round: the same to both sides, so that the start is not flattened.
    """
    known = np.isfinite(values)
    sums, numbers = (
        np.concatenate([[0.0], np.cumsum(x)]) for x in (np.where(known, values, 0.0), known)
    )
    s = np.minimum(side, rounds - rounds[0])
    first = np.searchsorted(rounds, rounds - s, side="left")
    after = np.searchsorted(rounds, rounds + s, side="right")
    with np.errstate(invalid="ignore"):
        means: Floats = (sums[after] - sums[first]) / (numbers[after] - numbers[first])
    return means


def _curves(group: Group, side: int) -> dict[str, Curve]:
    """Accuracy (always) and loss (if it is known) of the runs that count; if none does, of those that have begun."""
    runs = [
        run
        for run in group.done or group.runs
        if len(_accuracy(run)[0]) and np.isfinite(_accuracy(run)[1]).any()
    ]
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
    return Curve(common, np.stack(values))


def _figure(lines: Sequence[tuple[Group, dict[str, Curve]]]) -> Any:
    figure, panels = style.canvas(style.PAGE, max(2.3, 0.135 * len(lines) + 0.45), columns=2)
    many = len(lines) > MANY
    handles = []
    for place, (group, curves) in enumerate(lines):
        stands_out = not many or place < BEST
        for axes, kind in zip(panels, ("accuracy", "loss"), strict=True):
            if kind in curves:
                handle = _line(axes, group, curves[kind], stands_out, len(lines) - place)
            handles += [handle] if kind == "accuracy" else []
    for axes, (x, y) in zip(
        panels, (("round", "accuracy (%)"), ("round", "training loss")), strict=True
    ):
        style.dress(axes, x, y)
        axes.margins(x=0.01)
        axes.xaxis.get_major_locator().set_params(integer=True)
    _loss_scale(panels[1], [curves["loss"].mean for _, curves in lines if "loss" in curves])
    labels = [f"{group.label}  {group.state or f'{group.accuracy:.1f}'}" for group, _ in lines]
    style.legend(figure, handles, labels, handlelength=2.4, title="accuracy (%)")
    return figure


def _line(axes: Any, group: Group, curve: Curve, stands_out: bool, height: int) -> Any:
    look, middle = group.look, curve.mean
    strength = (
        {"linewidth": 1.4, "zorder": 3 + 0.01 * height}
        if stands_out
        else {"linewidth": 0.7, "alpha": 0.55}
    )
    handle = axes.plot(
        curve.rounds, middle, color=look.colour, linestyle=look.dash, label=group.label, **strength
    )[0]
    if len(curve.values) > 1 and stands_out:
        low, high = (extreme.reduce(curve.values) for extreme in (np.fmin, np.fmax))
        axes.fill_between(
            curve.rounds, low, high, color=look.colour, alpha=0.15, linewidth=0, label=group.label
        )
    if group.state:
        axes.plot(
            curve.rounds[-1:], middle[-1:], "x", color=look.colour, ms=6, mew=1.6, clip_on=False
        )
    return handle


def _loss_scale(axes: Any, curves: Sequence[Floats]) -> None:
    """Logarithmic where the losses are of different orders."""
    known = np.concatenate([np.zeros(0), *curves])
    known = known[np.isfinite(known)]
    if not known.size:
        axes.text(
            0.5,
            0.5,
            "no loss is recorded",
            transform=axes.transAxes,
            ha="center",
            fontsize=style.FONT,
        )
    elif known.min() > 0 and known.max() > 20 * known.min():
        axes.set_yscale("log")


def _caption(
    seen: Overview, setting: Heading, lines: Sequence[tuple[Group, dict[str, Curve]]], side: int
) -> str:
    smooth = f"a moving average of {2 * side} rounds ({side} to either side, fewer near the ends)"
    text = (
        f"Accuracy (left, mean over clients) and training loss (right, that which the method minimises, so of different"
        f" terms in different methods) on {setting.line}, with {smooth if side else 'no smoothing'}."
        f" In the legend: {seen.measure}."
    )
    if any(len(group.done) > 1 for group, _ in lines):
        text += " Lines are means over seeds and bands go from the lowest to the highest seed."
    if len(lines) > MANY:
        text += f" The best {BEST} stand out; the others have no bands."
    if any(group.state for group, _ in lines):
        text += " A cross ends the line of a run that is not done."
    silent = [group.label for group, curves in lines if "loss" not in curves]
    if silent:
        text += f" No loss is recorded of {', '.join(silent)}."
    return text
