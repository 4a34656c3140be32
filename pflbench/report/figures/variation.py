"""Variants of a method: accuracy over values of a hyperparameter, and of variants with names."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pflbench.report.figures import style
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.overview import Group, Overview
from pflbench.report.render.parts import FigurePart

SEEDS = "Large markers are means over seeds, small dots the seeds."
WIDTH = 0.8  # of a category that its variants take

Family = dict[float, list[Group]]
"""Value of a hyperparameter -> the methods that were run with it."""


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """Values: a figure per scenario, a panel per hyperparameter. Names: a figure per method."""
    for scenario, groups in seen.scenarios.items():
        if families := _families(groups):
            yield _values_part(seen, scenario, families)
    methods = list(dict.fromkeys(group.method for group in seen.groups))
    for method in methods:
        named = _named([group for group in seen.groups if group.method == method])
        if named:
            yield _variants_part(seen, method, named, len(methods) > 1)


def _families(groups: Sequence[Group]) -> dict[str, Family]:
    """Hyperparameters that one word of a variant sets to two numbers or more."""
    found: dict[str, Family] = {}
    for group in groups:
        name, _, text = group.variant.partition("=")
        number = _number(text)
        if len(group.variant.split()) == 1 and number is not None:
            found.setdefault(name, {}).setdefault(number, []).append(group)
    return {name: dict(sorted(family.items())) for name, family in found.items() if len(family) > 1}


def _named(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Variants of a method that are in no family, by name, where there are two or more."""
    scenarios: dict[Heading, list[Group]] = {}
    for group in groups:
        scenarios.setdefault(group.scenario, []).append(group)
    found: dict[str, list[Group]] = {}
    for members in scenarios.values():
        families = _families(members).values()
        valued = {id(g) for family in families for those in family.values() for g in those}
        for group in members:
            if id(group) not in valued:
                found.setdefault(group.variant, []).append(group)
    return found if len(found) > 1 else {}


def _values_part(
    seen: Overview, scenario: Heading, families: Mapping[str, Family]
) -> FigurePart | str:
    words = [name.replace("_", " ") for name in families]
    shown = [g for family in families.values() for those in family.values() for g in those]
    if not any(group.finished for group in shown):
        return f"No accuracies over {', '.join(words)} of {scenario.line}: no run has an accuracy."
    text = (
        f"Accuracy over {' and over '.join(words)} on {scenario.line}: {seen.measure}. Values are"
        f" equally spaced. {SEEDS}"
    )
    title = f"Accuracy over {' and '.join(words)}, {scenario.line}"
    caption = seen.caption(text, shown)
    make = partial(_values, families, seen.looks)
    width = seen.width(style.COLUMN if len(families) == 1 else style.PAGE)
    return FigurePart(seen.name("values", scenario), title, caption, make, width)


def _variants_part(
    seen: Overview, method: str, named: Mapping[str, list[Group]], several: bool
) -> FigurePart | str:
    shown = [group for groups in named.values() for group in groups]
    if not any(group.finished for group in shown):
        return f"No accuracies of variants of {method}: no run has an accuracy."
    scenarios = list(dict.fromkeys(group.scenario for group in shown if group.finished))
    lines = "; ".join(scenario.line for scenario in scenarios)
    text = f"Accuracy of variants of {method} on {lines}: {seen.measure}. {SEEDS}"
    name = f"variants-{method.lower()}" if several else "variants"
    make = partial(_side_by_side, method, named, scenarios)
    width = seen.width(style.PAGE if len(scenarios) * len(named) > 8 else style.COLUMN)
    return FigurePart(name, f"Variants of {method}", seen.caption(text, shown), make, width)


@style.themed
def _values(families: Mapping[str, Family], known: Mapping[str, style.Look], width: float) -> Any:
    groups = [g for family in families.values() for those in family.values() for g in those]
    methods = {group.method for group in groups}
    looks = {method: look for method, look in known.items() if method in methods}
    across = min(3, int(width / 1.7))
    figure, panels = style.panels(len(families), across, width, 2.1, sharey=True)
    for axes, (name, family) in zip(panels, families.items(), strict=True):
        rows = [
            (f"{value:g}", group.method, accuracy)
            for value, those in family.items()
            for group in those
            for accuracy in group.accuracies
        ]
        _points(axes, rows, [f"{value:g}" for value in family], looks, joined=True)
        axes.set(xlabel=name.replace("_", " "), ylabel="accuracy (%)")
        axes.label_outer(remove_inner_ticks=False)
        axes.set_xlabel(name.replace("_", " "))
    if len(looks) > 1:
        style.legend(figure, looks, markers=True)
    return figure


@style.themed
def _side_by_side(
    method: str, named: Mapping[str, list[Group]], scenarios: Sequence[Heading], width: float
) -> Any:
    """Scenarios on x, variants next to each other."""
    figure, (axes,) = style.canvas(width, 2.6)
    looks = {variant or method: groups[0].look for variant, groups in named.items()}
    rows = [
        (group.scenario.line, variant or method, accuracy)
        for variant, groups in named.items()
        for group in groups
        for accuracy in group.accuracies
    ]
    _points(axes, rows, [scenario.line for scenario in scenarios], looks, joined=False)
    axes.set_xticks(
        range(len(scenarios)), [scenario.line.replace(", ", ",\n") for scenario in scenarios]
    )
    axes.set(xlabel="", ylabel="accuracy (%)")
    axes.grid(axis="x", visible=False)
    for edge in range(len(scenarios) - 1):
        axes.axvline(edge + 0.5, color="0.85", linewidth=0.6)
    how = {"ncols": min(len(named), 3 if width >= style.WIDE else 2), "columnspacing": 1.5}
    style.legend(figure, looks, "upper center", lines=False, markers=True, **how)
    return figure


def _points(
    axes: Any,
    rows: Sequence[tuple[str, str, float]],
    categories: Sequence[str],
    looks: Mapping[str, style.Look],
    joined: bool,
) -> None:
    """Category, label and accuracy of every run: means over seeds as markers, the seeds as dots."""
    import pandas as pd
    import seaborn as sns

    frame = pd.DataFrame(rows, columns=["category", "label", "accuracy"])
    several = frame[frame.groupby(["category", "label"]).accuracy.transform("size") > 1]
    same: dict[str, Any] = {
        "x": "category",
        "y": "accuracy",
        "hue": "label",
        "order": list(categories),
    }
    same |= {"hue_order": list(looks), "palette": {name: one.colour for name, one in looks.items()}}
    same |= {"legend": False, "ax": axes}
    dots = {"dodge": len(looks) > 1, "jitter": False, "size": 2.5, "alpha": 0.6}
    sns.stripplot(several, **same, **dots)
    sns.pointplot(
        frame,
        **same,
        errorbar=None,
        dodge=WIDTH - WIDTH / len(looks) if len(looks) > 1 else False,  # as stripplot does
        markers=[look.marker for look in looks.values()],
        linestyles=[look.dash if joined else "none" for look in looks.values()],
        linewidth=1,
        markersize=4.5,
        markeredgewidth=0,
    )
    style.even_sizes(axes)
    axes.set_xlim(-0.5, len(categories) - 0.5)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
