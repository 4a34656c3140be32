"""Accuracy of every client where some have less data than the others: whom a method serves."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.grouping.layout import scarce_of
from pflbench.report.grouping.overview import Group, Overview, ranked
from pflbench.report.load.runs import Floats, mean
from pflbench.report.render.parts import FigurePart

MOST = 8  # methods that fit beside each other


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """A figure for every setting in which the last clients keep a part of their data."""
    for setting, groups in seen.settings.items():
        config = groups[0].config
        scarce = scarce_of(config)
        if not scarce:
            continue
        known = [group for group in ranked(groups) if group.done]
        if not known:
            yield f"No accuracies by client of {setting.line}: no run has an accuracy."
            continue
        text = (
            f"Accuracy of every client on {setting.line} {seen.moment}. Clients in red have"
            f" {100 * config['keep']:g} % of their training data. Points are means over seeds, lines go from the lowest"
            " to the highest seed"
        )
        text += (
            "."
            if config["partition_seed"] is not None
            else ", and every seed has a partition of its own."
        )
        text += " In the legend: mean and std over all clients; mean over those in red."
        if len(known) > MOST:
            text += f" Only the best {MOST} of {len(known)} methods are shown."
        make = partial(_figure, known[:MOST], config["clients"], len(scarce))
        title = f"Accuracy of every client, {setting.line}"
        yield FigurePart(seen.name("clients", setting), title, seen.caption(text, groups), make)


def by_client(group: Group) -> Floats:
    """(seeds, clients) percent."""
    return 100 * np.stack([run.clients for run in group.done])


def _figure(groups: Sequence[Group], number: int, scarce: int) -> Any:
    figure, (axes,) = style.canvas(style.PAGE, 2.5)
    shifts = np.linspace(-0.34, 0.34, len(groups)) if len(groups) > 1 else np.zeros(1)
    size = min(4.0, 72 * 6.2 / number / (len(groups) + 1))  # points: neighbours do not touch
    handles, labels = [], []
    for group, shift in zip(groups, shifts, strict=True):
        table = by_client(group)
        x, look = np.arange(number) + shift, group.look
        low, high = (extreme.reduce(table) for extreme in (np.fmin, np.fmax))
        axes.vlines(x, low, high, color=look.colour, linewidth=0.6, alpha=0.6)
        wide = 1.5 if look.marker == "*" else 1.0
        handles += axes.plot(
            x,
            mean(table.T),
            look.marker,
            color=look.colour,
            ms=size * wide,
            mew=0,
            label=group.label,
        )
        few = float(mean(mean(table.T)[number - scarce :]))
        labels.append(f"{group.label}  {group.accuracy:.1f} $\\pm$ {group.std:.1f}; {few:.1f}")
    for client in range(0, number, 2):
        axes.axvspan(client - 0.5, client + 0.5, color="0.96", linewidth=0, zorder=0)
    style.dress(axes, "client", "accuracy (%)")
    axes.grid(axis="x", visible=False)
    step = next(
        step
        for step in (1, 2, 5, 10, 20, 50, 100, 1000)
        if step * 6.2 / number >= 0.18 or step == 1000
    )
    axes.set_xticks(range(0, number, step))
    for label, client in zip(axes.get_xticklabels(), range(0, number, step), strict=True):
        label.set_color(style.SCARCE if client >= number - scarce else "black")
    axes.set_xlim(-0.6, number - 0.4)
    style.legend(
        figure, handles, labels, "upper center", ncols=min(3, len(groups)), columnspacing=1.5
    )
    return figure
