"""Variants of a method: accuracy over the values of a hyperparameter, and of variants that have names."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.overview import Group, Overview
from pflbench.report.load.runs import Floats
from pflbench.report.render.parts import FigurePart

SYMBOLS = {"batch_size": "batch size $b$", "alpha": "loss factor $\\alpha$", "gamma": "$\\gamma$"}
WEIGHTING = {"tau", "tau_value", "gamma"}
WHISKERS = "Bars are the std over clients (mean over seeds), small dots the seeds."

Family = dict[float, list[Group]]
"""Value of a hyperparameter -> the methods that were run with it."""


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """Values: a figure for every setting, a panel for every hyperparameter. Names: a figure for every method."""
    for setting, groups in seen.settings.items():
        families = {
            name: family for name, family in _families(groups).items() if not weighted(groups)
        }
        if families:
            shown = [
                group
                for family in families.values()
                for members in family.values()
                for group in members
            ]
            if not any(group.done for group in shown):
                yield f"No accuracies over {', '.join(families)} of {setting.line}: no run has an accuracy."
                continue
            text = (
                f"Accuracy over {' and over '.join(map(_plain, families))} on {setting.line}: {seen.measure}."
                f" Values are equally spaced. {WHISKERS}"
            )
            title = f"Accuracy over {' and '.join(map(_plain, families))}, {setting.line}"
            make = partial(_values, families)
            yield FigurePart(seen.name("values", setting), title, seen.caption(text, shown), make)
    methods = list(dict.fromkeys(group.method for group in seen.groups))
    for method in methods:
        named = _named([group for group in seen.groups if group.method == method])
        if named:
            yield _variants(seen, method, named, len(methods) > 1)


def weighted(groups: Sequence[Group]) -> bool:
    """Whether variants of one method differ in how it weighs its own base only: they have a figure of their own."""
    if len(groups) < 2 or len({group.method for group in groups}) > 1:
        return False
    tables = [group.config["hparams"] for group in groups]
    differing = {
        name
        for table in tables
        for name in table
        if any(other.get(name) != table[name] for other in tables)
    }
    return bool(differing) and differing <= WEIGHTING


def _families(groups: Sequence[Group]) -> dict[str, Family]:
    """Hyperparameters that one word of a variant sets to two numbers or more."""
    found: dict[str, Family] = {}
    for group in groups:
        name, _, text = group.variant.partition("=")
        if (
            style.is_assignments(group.variant)
            and " " not in group.variant
            and _number(text) is not None
        ):
            found.setdefault(name, {}).setdefault(float(text), []).append(group)
    return {name: dict(sorted(family.items())) for name, family in found.items() if len(family) > 1}


def _named(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Variants of a method that no family holds, by name, where there are two or more."""
    found: dict[str, list[Group]] = {}
    settings: dict[Heading, list[Group]] = {}
    for group in groups:
        settings.setdefault(group.setting, []).append(group)
    for members in settings.values():
        if weighted(members):
            continue
        valued = {
            id(g)
            for family in _families(members).values()
            for those in family.values()
            for g in those
        }
        for group in members:
            if id(group) not in valued:
                found.setdefault(group.variant, []).append(group)
    return found if len(found) > 1 else {}


def _values(families: Mapping[str, Family]) -> Any:
    columns = min(3, len(families))
    rows = -(-len(families) // columns)
    figure, panels = style.canvas(
        style.COLUMN if columns == 1 else style.PAGE, 2.1 * rows, rows, columns, sharey=True
    )
    methods = sorted(
        {
            group.method
            for family in families.values()
            for those in family.values()
            for group in those
        }
    )
    shifts = dict(zip(methods, _shifts(len(methods), 0.15), strict=True))
    handles: dict[str, Any] = {}
    for place, (axes, (name, family)) in enumerate(zip(panels, families.items(), strict=False)):
        for method in methods:
            line = [
                (x, g)
                for x, those in enumerate(family.values())
                for g in those
                if g.method == method and g.done
            ]
            if line:
                x = np.array([place for place, _ in line]) + shifts[method]
                look = style.look(method)
                handles[method] = whiskers(axes, x, [group for _, group in line], look, 0.09)
                axes.plot(
                    x,
                    [group.accuracy for _, group in line],
                    color=look.colour,
                    linestyle=look.dash,
                    lw=1,
                )
        style.dress(
            axes, SYMBOLS.get(name, _plain(name)), "" if place % columns else "accuracy (%)"
        )
        axes.set_xticks(range(len(family)), [f"{value:g}" for value in family])
        axes.set_xlim(-0.5, len(family) - 0.5)
    for axes in panels[len(families) :]:
        axes.axis("off")
    if len(methods) > 1:
        style.legend(figure, list(handles.values()), list(handles))
    return figure


def _variants(
    seen: Overview, method: str, named: Mapping[str, list[Group]], several: bool
) -> FigurePart | str:
    shown = [group for groups in named.values() for group in groups]
    if not any(group.done for group in shown):
        return f"No accuracies of variants of {method}: no run has an accuracy."
    settings = list(dict.fromkeys(group.setting for group in shown if group.done))
    what = "; ".join(setting.line for setting in settings)
    text = f"Accuracy of variants of {method} on {what}: {seen.measure}. {WHISKERS}"
    name = f"variants-{method.lower()}" if several else "variants"
    make = partial(_side_by_side, method, named, settings)
    return FigurePart(name, f"Variants of {method}", seen.caption(text, shown), make)


def _side_by_side(
    method: str, named: Mapping[str, list[Group]], settings: Sequence[Heading]
) -> Any:
    """Settings on x, variants beside each other."""
    width = style.PAGE if len(settings) * len(named) > 8 else style.COLUMN
    figure, (axes,) = style.canvas(width, 2.6)
    handles = []
    for groups, shift in zip(named.values(), _shifts(len(named), 0.36), strict=True):
        known = [group for group in groups if group.done]
        x = np.array([settings.index(group.setting) for group in known]) + shift
        handles.append(whiskers(axes, x, known, groups[0].look, 0.25 / len(named)))
    style.dress(axes, "", "accuracy (%)")
    axes.set_xticks(
        range(len(settings)), [setting.line.replace(", ", ",\n") for setting in settings]
    )
    axes.set_xlim(-0.5, len(settings) - 0.5)
    axes.grid(axis="x", visible=False)
    for edge in range(len(settings) - 1):
        axes.axvline(edge + 0.5, color="0.85", linewidth=0.6)
    columns = min(len(named), 3 if width == style.PAGE else 2)
    style.legend(
        figure,
        handles,
        [variant or method for variant in named],
        "upper center",
        ncols=columns,
        columnspacing=1.5,
    )
    return figure


def whiskers(axes: Any, x: Floats, groups: Sequence[Group], look: style.Look, aside: float) -> Any:
    """Mean and std over clients of groups, and aside their seeds; the handle for a legend."""
    means, stds = [group.accuracy for group in groups], [group.std for group in groups]
    size = 6.5 if look.marker == "*" else 4.5
    handle = axes.errorbar(
        x, means, yerr=stds, fmt=look.marker, color=look.colour, ms=size, mew=0, elinewidth=0.9
    )
    for place, group in zip(x, groups, strict=True):
        if len(group.accuracies) > 1:
            at = np.full(len(group.accuracies), place + aside)
            axes.plot(
                at, group.accuracies, "o", mfc="none", mec=look.colour, ms=2, mew=0.5, gid="seeds"
            )
    return handle


def _shifts(number: int, reach: float) -> Floats:
    shifts: Floats = np.linspace(-reach, reach, number) if number > 1 else np.zeros(1)
    return shifts


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
