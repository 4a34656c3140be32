"""How many samples of which class every client has, in all settings of an experiment."""

import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any

from pflbench.data import class_counts
from pflbench.report.figures import distribution, style
from pflbench.report.figures.distribution import Ints
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.overview import Overview
from pflbench.report.load.runs import Numbers
from pflbench.report.render.parts import FigurePart

CROWD = 40  # clients: more take the whole width
ACROSS, DOWN = 3, 4  # panels of a figure


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """Settings with few clients share figures; those with many are below each other."""
    found = _runs(seen)
    small = [key for key in found if found[key].planned.config["clients"] <= CROWD]
    large = [key for key in found if key not in small]
    for name, settings, across in (
        ("distributions", small, ACROSS),
        ("distributions-large", large, 1),
    ):
        pages = [settings[i : i + across * DOWN] for i in range(0, len(settings), across * DOWN)]
        for number, page in enumerate(pages):
            panels = {setting.line: _counts(found[setting]) for setting in page}
            seeds = sorted({found[setting].planned.config["seed"] for setting in page})
            text = (
                f"Training samples of every client and class: {'; '.join(panels)}. The area of a circle is"
                " proportional to their number, with the largest number of a panel below its title."
                f" The partition is that of seed {', '.join(map(str, seeds))}"
            )
            text += f", scale {seen.scale}." if seen.scale else "."
            title, make = "Samples of clients and classes", partial(_figure, panels, across)
            yield FigurePart(name if not number else f"{name}-{number + 1}", title, text, make)


def _runs(seen: Overview) -> dict[Heading, Numbers]:
    """A run of every setting that says what its clients have: that with the lowest seed."""
    found: dict[Heading, Numbers] = {}
    for group in seen.groups:
        for run in group.runs:
            if not run.about.get("partition", {}).get("train_classes"):
                continue
            there = found.get(group.setting)
            if there is None or run.planned.config["seed"] < there.planned.config["seed"]:
                found[group.setting] = run
    return found


def _counts(run: Numbers) -> Ints:
    return class_counts.dense(run.about["partition"]["train_classes"], run.about["data"]["classes"])


def _figure(panels: dict[str, Ints], across: int) -> Any:
    columns = min(across, len(panels))
    tables = list(panels.values())
    rows = [tables[i : i + columns] for i in range(0, len(tables), columns)]
    heights = [
        min(max(0.12 * max(table.shape[1] for table in row), 1.2), 2.4) for row in rows
    ]  # inches, of axes
    page = style.COLUMN if columns == 1 and across > 1 else style.PAGE
    size = page, sum(heights) + 0.72 * len(rows)
    figure, found = style.canvas(*size, len(rows), columns, height_ratios=heights)
    for place, (axes, (title, table)) in enumerate(zip(found, panels.items(), strict=False)):
        largest, _ = distribution.circles(
            axes, table, page / columns - 0.45, heights[place // columns]
        )
        style.dress(axes, "client", "class")
        lines = textwrap.wrap(title, int(18 * page / columns))  # 7 points: 18 letters an inch
        axes.set_title(
            "\n".join([*lines, f"largest: {largest:,}"]), fontsize=style.SMALL, loc="left"
        )
    for axes in found[len(panels) :]:
        axes.axis("off")
    return figure
