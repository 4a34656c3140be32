"""Accuracy against the size of clients' data, where scenarios differ in the data fraction."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pflbench.records.report_options import ReportOptions
from pflbench.report.figures import style
from pflbench.report.figures.learning import BEST, MANY
from pflbench.report.grouping.headings import FIELDS, partition_title, value
from pflbench.report.grouping.overview import Group, Overview
from pflbench.report.render.parts import FigurePart

Panels = dict[str, list[Group]]
"""Title -> groups that differ in method and data fraction, in ascending order of the fraction."""


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """One figure with a panel for all scenarios that differ in the data fraction only."""
    varied = _varied(seen)
    if not varied:
        return
    panels = _panels(varied, seen.options)
    if not panels:
        yield "No accuracies against the data fraction: fewer than two fractions have an accuracy."
        return
    text = (
        "Accuracy against the data fraction, the share of their training data that clients have"
        f" ({'; '.join(panels)}): {seen.measure}. Below the fraction: mean number of training"
        " samples per client. Lines are means over seeds, bands go from the lowest to the highest"
        " seed."
    )
    best = _ranked(panels)
    if len(best) > MANY:
        text += f" {_standing_out(seen)} stand out; the others have no bands."
    text = seen.caption(text, [group for groups in varied for group in groups])
    make = partial(_figure, panels, best)
    width = seen.width(style.PAGE if len(panels) > 1 else 5.0)
    yield FigurePart("scarcity", "Accuracy against local data", text, make, width)


def _standing_out(seen: Overview) -> str:
    if any(group.proposed for group in seen.groups):
        return f"The {BEST - 1} that are best on average and the proposed method"
    return f"The {BEST} that are best on average"


def _varied(seen: Overview) -> list[list[Group]]:
    """Groups that differ in method and data fraction only, with two fractions or more."""
    alike: dict[str, list[Group]] = {}
    for group in seen.groups:
        same = {name: value(group.config, name) for name in FIELDS if name != "data_fraction"}
        alike.setdefault(json.dumps(same, sort_keys=True), []).append(group)
    return [groups for groups in alike.values() if len(set(map(_fraction, groups))) > 1]


def _fraction(group: Group) -> float:
    return float(group.config["data_fraction"])


def _panels(varied: Sequence[Sequence[Group]], options: ReportOptions) -> Panels:
    panels: Panels = {}
    for groups in varied:
        known = sorted((group for group in groups if group.finished), key=_fraction)
        if len(set(map(_fraction, known))) > 1:
            scenario, config = groups[0].scenario, groups[0].config
            title = f"{scenario.data}, {partition_title(config, options)}, N={config['clients']}"
            panels[title if title not in panels else f"{title} ({len(panels) + 1})"] = known
    return panels


def _ranked(panels: Panels) -> list[str]:
    """Labels by mean rank over panels and fractions: lines may lack some, so not by accuracy."""
    ranks: dict[str, list[int]] = {}
    for groups in panels.values():
        for fraction in sorted(set(map(_fraction, groups))):
            there = [group for group in groups if _fraction(group) == fraction]
            there.sort(key=lambda group: (group.accuracy, group.label), reverse=True)
            for rank, group in enumerate(there):
                ranks.setdefault(group.label, []).append(rank)
    return sorted(ranks, key=lambda label: float(np.mean(ranks[label])))


@style.themed
def _figure(panels: Panels, best: Sequence[str], width: float) -> Any:
    columns = min(2, len(panels)) if width >= style.WIDE else 1
    rows = -(-len(panels) // columns)
    beside = style.LINE * len(best) + 0.35
    below = style.LINE * -(-len(best) // style.legend_columns(best, width))
    height = max(2.2, beside / rows, 2.4 / rows) if width >= style.WIDE else 2.0 + below / rows
    figure, found = style.panels(len(panels), columns, width, height)
    looks = {group.label: group.look for groups in panels.values() for group in groups}
    own = [g.label for groups in panels.values() for g in groups if g.proposed]
    first = best if len(best) <= MANY else [*best[: BEST - bool(own)], *own]
    strong = {label: looks[label] for label in first}
    faint = {label: looks[label] for label in best if label not in strong}
    for axes, (title, groups) in zip(found, panels.items(), strict=True):
        _lines(axes, groups, faint, errorbar=None, linewidth=0.7, alpha=0.55)
        band = {"alpha": 0.15, "linewidth": 0}
        _lines(axes, groups, strong, errorbar=style.RANGE, err_kws=band, linewidth=1.3, zorder=3)
        style.even_sizes(axes)
        axes.set(title=title, xlabel="data fraction (%), mean samples", ylabel="accuracy (%)")
        ticks = _ticks(groups)
        axes.set_xticks(list(ticks), list(ticks.values()))
    in_legend = {label: looks[label] for label in best}
    style.legend(figure, in_legend, markers=True)
    return figure


def _lines(axes: Any, groups: Sequence[Group], looks: Mapping[str, style.Look], **how: Any) -> None:
    """Of the labels that have a look, the first on top."""
    import pandas as pd
    import seaborn as sns

    rows = [
        (group.label, 100 * _fraction(group), accuracy)
        for group in groups
        if group.label in looks
        for accuracy in group.accuracies
    ]
    if not rows:
        return
    drawn = style.mapping(dict(reversed(list(looks.items()))), markers=True)
    frame = pd.DataFrame(rows, columns=["label", "fraction", "accuracy"])
    names = {"x": "fraction", "y": "accuracy", "hue": "label", "style": "label"}
    marker = {"markersize": 4, "markeredgewidth": 0}
    sns.lineplot(frame, **names, **drawn, **marker, **how, legend=False, ax=axes)


def _ticks(groups: Sequence[Group]) -> dict[float, str]:
    """Percent -> percent and mean number of training samples."""
    ticks = {}
    for group in groups:
        samples = float(np.mean([run.sizes("train").mean() for run in group.finished]))
        ticks[100 * _fraction(group)] = f"{100 * _fraction(group):g}\n({samples:.0f})"
    return ticks
