"""FedCoSR's tau, the share of the client's own body: as a function of the loss, and the accuracy
that it leads to.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.grouping.overview import Group, Overview
from pflbench.report.load.runs import Floats
from pflbench.report.render.parts import FigurePart

WEIGHTING = {"tau", "tau_value", "gamma"}  # the hyperparameters that tau depends on
HIGHEST = 3.0  # loss on the axis


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """A figure for every scenario whose variants differ in tau only."""
    for scenario, groups in seen.scenarios.items():
        if not differ_in_tau(groups):
            continue
        known = [group for group in groups if group.finished]
        if not known:
            yield f"No accuracies over tau of {scenario.line}: no run has an accuracy."
            continue
        text = (
            "Tau, the share of the client's own body, as a function of the contrastive loss L:"
            " exp(-gamma L), max(0, 1 - L) (linear), or fixed; and the accuracy of"
            f" {groups[0].method} with each on {scenario.line}: {seen.measure}. Bars are the std"
            " over clients (mean over seeds), small dots the seeds."
        )
        title = f"Accuracy over tau, {scenario.line}"
        make, text = partial(_figure, known), seen.caption(text, groups)
        yield FigurePart(seen.name("tau", scenario), title, text, make, seen.width(style.PAGE))


def differ_in_tau(groups: Sequence[Group]) -> bool:
    """Whether these are variants of FedCoSR that differ in tau, and in nothing else."""
    if len(groups) < 2 or {group.config["algorithm"] for group in groups} != {"fedcosr"}:
        return False
    tables = [group.config["hparams"] for group in groups]
    names = {name for table in tables for name in table}
    differing = {name for name in names if any(t.get(name) != tables[0].get(name) for t in tables)}
    return bool(differing) and differing <= WEIGHTING


def tau(hparams: Mapping[str, Any], loss: Floats) -> Floats:
    """As a run with these hyperparameters computes it."""
    if hparams["tau"] == "fixed":
        return np.full_like(loss, hparams["tau_value"])
    shares: Floats = 1 - loss if hparams["tau"] == "linear" else np.exp(-hparams["gamma"] * loss)
    return np.clip(shares, 0.0, 1.0)


def name(hparams: Mapping[str, Any]) -> str:
    """Of a variant, on an axis."""
    if hparams["tau"] == "fixed":
        return f"fixed {hparams['tau_value']:g}"
    return "linear" if hparams["tau"] == "linear" else f"$\\gamma = {hparams['gamma']:g}$"


@style.themed
def _figure(groups: Sequence[Group], width: float) -> Any:
    height = max(2.2, 0.17 * len(groups) + 0.5)
    figure, (curves, results) = style.panels(2, 2 if width >= style.WIDE else 1, width, height)
    loss = np.linspace(0.0, HIGHEST, 301)
    for place, group in enumerate(groups):
        look, hparams = group.look, group.config["hparams"]
        line = {"color": look.colour, "linestyle": look.dash, "lw": 1.2}
        curves.plot(loss, tau(hparams, loss), **line, label=name(hparams))
        bar = {"color": look.colour, "fmt": look.marker, "ms": 4.5, "mew": 0, "elinewidth": 0.9}
        results.errorbar(group.accuracy, place, xerr=group.std, **bar, label=name(hparams))
    _seeds(results, groups)
    curves.set(xlabel="loss $L$", ylabel="$\\tau$, share of the own body", ylim=(-0.03, 1.03))
    curves.margins(x=0)
    results.set(xlabel="accuracy (%)", ylabel="")
    results.set_yticks(range(len(groups)), [name(group.config["hparams"]) for group in groups])
    results.invert_yaxis()
    return figure


def _seeds(axes: Any, groups: Sequence[Group]) -> None:
    """Dots below the bars, where there are several."""
    import seaborn as sns

    several = [(g, place) for place, g in enumerate(groups) if len(g.accuracies) > 1]
    x = [accuracy for group, _ in several for accuracy in group.accuracies]
    y = [place + 0.3 for group, place in several for _ in group.accuracies]
    colours = [group.look.colour for group, _ in several for _ in group.accuracies]
    sns.scatterplot(x=x, y=y, c=colours, s=5, linewidth=0, legend=False, ax=axes)
