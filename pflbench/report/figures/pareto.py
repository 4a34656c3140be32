"""Accuracy against cost in megabytes and seconds, and the methods that are best in both."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.report.figures import style
from pflbench.report.figures.annotation import name_points
from pflbench.report.grouping.overview import Group, Overview, ranked
from pflbench.report.load.runs import Floats, Numbers
from pflbench.report.render.parts import FigurePart

Bools = npt.NDArray[np.bool_]
FRONT = "0.35"  # grey


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """A figure for every scenario with two methods or more."""
    for scenario, groups in seen.scenarios.items():
        if len({group.method for group in groups}) < 2:
            continue
        known = [group for group in ranked(groups) if group.finished]
        if len(known) < 2:
            what = f"No accuracy against cost of {scenario.line}"
            yield f"{what}: fewer than two methods have an accuracy."
            continue
        text = (
            "Accuracy against megabytes (sent to and by a client that takes part in every round)"
            " and seconds (work of all clients, one after another, and of the server, without"
            f" evaluation), both until the last round, on {scenario.line}: {seen.measure},"
            " all as means over seeds. Ringed, joined and named: methods that no other one beats in"
            " both accuracy and cost (Pareto front)."
        )
        untimed = [group.label for group in known if np.isnan(cost(group, seconds))]
        if untimed:
            text += f" Seconds are not known for {', '.join(untimed)}."
        name, title = seen.name("efficiency", scenario), f"Accuracy against cost, {scenario.line}"
        make = partial(_figure, known)
        text = seen.caption(text, groups)
        yield FigurePart(name, title, text, make, seen.width(style.PAGE))


def front(costs: npt.ArrayLike, accuracies: npt.ArrayLike) -> Bools:
    """Which points no other one beats: none is at least as good in both, and better in one.

    Points that are not known are never on it.
    """
    x, y = np.asarray(costs, dtype=float), np.asarray(accuracies, dtype=float)
    as_good = (x[:, None] <= x) & (y[:, None] >= y)  # row i against column j
    better = (x[:, None] < x) | (y[:, None] > y)
    unbeaten: Bools = ~(as_good & better).any(0) & np.isfinite(x) & np.isfinite(y)
    return unbeaten


def megabytes(run: Numbers) -> float:
    """Both ways, all parts, all rounds."""
    return float(sum(values.sum() for values in run.sent.values())) / 1e6


def seconds(run: Numbers) -> float:
    """Of all rounds; nan where they were not kept."""
    if not {"client", "server"} <= set(run.seconds):
        return float("nan")
    return float(run.seconds["client"].sum() + run.seconds["server"].sum())


def cost(group: Group, of: Callable[[Numbers], float]) -> float:
    """The mean over seeds."""
    return float(np.mean([of(run) for run in group.finished]))


@style.themed
def _figure(groups: Sequence[Group], width: float) -> Any:
    names = {f"{group.label}  {group.accuracy:.1f}": group.look for group in groups}
    figure, panels = style.with_legend(2, list(names), width, 2.4)
    accuracies = np.array([group.accuracy for group in groups])
    kinds = {
        "megabytes per client, total": megabytes,
        "seconds of clients and server, total": seconds,
    }
    costs = [np.array([cost(group, of) for group in groups]) for of in kinds.values()]
    for axes, x, label in zip(panels, costs, kinds, strict=True):
        _points(axes, groups, x)
        _front(axes, x, accuracies)
        axes.set(xlabel=label, ylabel="accuracy (%)")
        axes.margins(0.12)
        _scale(axes, x)
    style.legend(figure, names, lines=False, markers=True, title="accuracy (%)")
    style.lay_out(figure)  # so that the places of points on the page are known
    for axes, x in zip(panels, costs, strict=True):
        on = front(x, accuracies)
        members = [group.label for group, there in zip(groups, on, strict=True) if there]
        name_points(axes, x[on], accuracies[on], members)
    return figure


def _points(axes: Any, groups: Sequence[Group], costs: Floats) -> None:
    import pandas as pd
    import seaborn as sns

    columns = {"label": [g.label for g in groups], "accuracy": [g.accuracy for g in groups]}
    frame = pd.DataFrame({**columns, "cost": costs})
    names = {"x": "cost", "y": "accuracy", "hue": "label", "style": "label"}
    looks = style.mapping({group.label: group.look for group in groups}, lines=False, markers=True)
    sizes = {group.label: 60 if group.look.marker == style.STAR else 22 for group in groups}
    how = {"size": "label", "sizes": sizes, "linewidth": 0, "zorder": 2, "legend": False}
    sns.scatterplot(frame, **names, **looks, **how, ax=axes)


def _front(axes: Any, costs: Floats, accuracies: Floats) -> None:
    on = front(costs, accuracies)
    order = np.flatnonzero(on)[np.argsort(costs[on], kind="stable")]
    x = np.repeat(costs[order], 2)[1:]  # a stair: to the right, then up
    y = np.repeat(accuracies[order], 2)[:-1]
    axes.plot(x, y, color=FRONT, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1, gid="front")
    axes.plot(costs[on], accuracies[on], "o", mfc="none", mec=FRONT, ms=9, mew=0.8, gid="ring")


def _scale(axes: Any, costs: Floats) -> None:
    """Logarithmic where the costs are of different orders; zero is then left of the smallest."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    positive = costs[np.isfinite(costs) & (costs > 0)]
    if not positive.size or positive.max() < 8 * positive.min():
        return
    if (costs == 0).any():
        least = 10.0 ** np.floor(np.log10(positive.min()))
        axes.set_xscale("symlog", linthresh=least, linscale=0.5)
        axes.set_xlim(left=-least / 3)
    else:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
