"""Accuracy against the size of clients' data, where settings differ in the share that clients keep."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.figures.distribution import in_words
from pflbench.report.figures.learning import BEST, MANY
from pflbench.report.grouping.headings import value
from pflbench.report.grouping.overview import Group, Overview
from pflbench.report.render.parts import FigurePart
from pflbench.sweep.experiment import SETTINGS

Line = list[tuple[float, Group]]
"""A method at every share for which it has a number, in ascending order."""
Panels = dict[str, dict[str, Line]]
"""Title -> label -> line."""


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """One figure with a panel for all settings that differ in the share only."""
    groups, panels = _panels(seen)
    if not groups:
        return
    if not panels:
        yield "No accuracies against the size of clients' data: fewer than two sizes have an accuracy."
        return
    text = (
        f"Accuracy against the share of their training data that clients keep ({'; '.join(panels)}): {seen.measure}."
        " Below the share: the mean number of training samples of a client. Lines are means over seeds and bands go"
        " from the lowest to the highest seed."
    )
    best = _ranked(panels)
    if len(best) > MANY:
        text += f" The {BEST} that are best on average stand out; the others have no bands."
    make = partial(_figure, panels, best)
    yield FigurePart("scarcity", "Accuracy against local data", seen.caption(text, groups), make)


def _panels(seen: Overview) -> tuple[list[Group], Panels]:
    """All groups that are meant to be here, and the panels of those that have numbers."""
    kin: dict[str, list[Group]] = {}
    for group in seen.groups:
        same = {name: value(group.config, name) for name in SETTINGS if name != "data_fraction"}
        kin.setdefault(json.dumps(same, sort_keys=True), []).append(group)
    varied = [
        groups
        for groups in kin.values()
        if len({group.config["data_fraction"] for group in groups}) > 1
    ]
    panels: Panels = {}
    for groups in varied:
        lines: dict[str, Line] = {}
        for group in sorted(groups, key=lambda group: float(group.config["data_fraction"])):
            if group.done:
                lines.setdefault(group.label, []).append(
                    (float(group.config["data_fraction"]), group)
                )
        if len({keep for line in lines.values() for keep, _ in line}) > 1:
            config = groups[0].config
            title = (
                f"{groups[0].setting.data}, {in_words(config['partition'])}, N={config['clients']}"
            )
            panels[title if title not in panels else f"{title} ({len(panels) + 1})"] = lines
    return [group for groups in varied for group in groups], panels


def _ranked(panels: Panels) -> list[str]:
    """Labels by their mean place in accuracy over panels and shares: lines may lack shares, so no mean accuracy."""
    places: dict[str, list[int]] = {}
    for lines in panels.values():
        for keep in {keep for line in lines.values() for keep, _ in line}:
            there = [
                (group.accuracy, label)
                for label, line in lines.items()
                for k, group in line
                if k == keep
            ]
            for place, (_, label) in enumerate(sorted(there, reverse=True)):
                places.setdefault(label, []).append(place)
    return sorted(places, key=lambda label: float(np.mean(places[label])))


def _figure(panels: Panels, best: Sequence[str]) -> Any:
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    height = max(2.2 * rows, 0.135 * len(best) + 0.35, 2.4)
    figure, found = style.canvas(style.PAGE if columns > 1 else 5.0, height, rows, columns)
    handles: dict[str, Any] = {}
    for axes, (title, lines) in zip(found, panels.items(), strict=False):
        for label in reversed([label for label in best if label in lines]):  # the best on top
            stands_out = len(best) <= MANY or best.index(label) < BEST
            handles[label] = _line(axes, lines[label], stands_out)
        style.dress(axes, "training data (%), mean samples", "accuracy (%)", title)
        sizes: dict[float, float] = {}
        for line in lines.values():
            sizes |= {
                keep: float(np.mean([run.sizes("train").mean() for run in group.done]))
                for keep, group in line
            }
        axes.set_xticks([100 * keep for keep in sorted(sizes)])
        axes.set_xticklabels([f"{100 * keep:g}\n({sizes[keep]:.0f})" for keep in sorted(sizes)])
    for axes in found[len(panels) :]:
        axes.axis("off")
    style.legend(figure, [handles[label] for label in best], best, handlelength=2.6)
    return figure


def _line(axes: Any, line: Line, stands_out: bool) -> Any:
    label, look = line[0][1].label, line[0][1].look
    x = [100 * keep for keep, _ in line]
    values = [group.accuracies for _, group in line]
    strength: dict[str, Any] = (
        {"linewidth": 1.3, "zorder": 3} if stands_out else {"linewidth": 0.7, "alpha": 0.55}
    )
    dots = {"marker": look.marker, "ms": 6 if look.marker == "*" else 3.5, "mew": 0}
    means = [group.accuracy for _, group in line]
    handle = axes.plot(
        x, means, color=look.colour, linestyle=look.dash, label=label, **dots, **strength
    )[0]
    if stands_out and max(map(len, values)) > 1:
        low, high = [v.min() for v in values], [v.max() for v in values]
        axes.fill_between(x, low, high, color=look.colour, alpha=0.15, linewidth=0)
    return handle
