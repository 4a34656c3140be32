"""FedCoSR's share of the own base, tau: as a function of the loss, beside the accuracy that it leads to."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.figures.variation import WHISKERS, weighted
from pflbench.report.grouping.overview import Group, Overview
from pflbench.report.load.runs import Floats
from pflbench.report.render.parts import FigurePart

HIGHEST = 3.0  # loss on the axis


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """A figure for every setting whose variants differ in tau only."""
    for setting, groups in seen.settings.items():
        if not weighted(groups):
            continue
        known = [group for group in groups if group.done]
        if not known:
            yield f"No accuracies over tau of {setting.line}: no run has an accuracy."
            continue
        text = (
            f"Left: tau, the share of the own base, as a function of the contrastive loss L: exp(-gamma L),"
            f" max(0, 1 - L) (linear), or fixed. Right: accuracy of {groups[0].method} with each on"
            f" {setting.line}: {seen.measure}. {WHISKERS}"
        )
        title = f"Accuracy over tau, {setting.line}"
        yield FigurePart(
            seen.name("tau", setting), title, seen.caption(text, groups), partial(_figure, known)
        )


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


def _figure(groups: Sequence[Group]) -> Any:
    figure, (curves, results) = style.canvas(
        style.PAGE, max(2.2, 0.17 * len(groups) + 0.5), columns=2
    )
    loss = np.linspace(0.0, HIGHEST, 301)
    places = np.arange(len(groups))
    for place, group in zip(places, groups, strict=True):
        look, hparams = group.look, group.config["hparams"]
        curves.plot(
            loss,
            tau(hparams, loss),
            color=look.colour,
            linestyle=look.dash,
            lw=1.2,
            label=name(hparams),
        )
        how = {"color": look.colour, "ms": 4.5, "mew": 0, "elinewidth": 0.9}
        results.errorbar(
            group.accuracy, place, xerr=group.std, fmt=look.marker, label=name(hparams), **how
        )
        if len(group.accuracies) > 1:
            at = np.full(len(group.accuracies), place + 0.3)
            results.plot(
                group.accuracies, at, "o", mfc="none", mec=look.colour, ms=2, mew=0.5, gid="seeds"
            )
    style.dress(curves, "loss $L$", "$\\tau$, share of the own base")
    curves.margins(x=0)
    curves.set_ylim(-0.03, 1.03)
    style.dress(results, "accuracy (%)", "")
    results.set_yticks(places, [name(group.config["hparams"]) for group in groups])
    results.invert_yaxis()
    return figure
