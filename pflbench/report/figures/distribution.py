"""Class counts per client as circles: of a report's scenarios, or of one partition."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.data import class_counts
from pflbench.errors import UserError
from pflbench.report.figures import style
from pflbench.report.grouping.headings import Heading
from pflbench.report.grouping.overview import Overview
from pflbench.report.load.runs import Numbers
from pflbench.report.render.parts import FigurePart

Ints = npt.NDArray[np.int64]
CROWD = 40  # clients: more take the whole width
ACROSS, DOWN = 3, 4  # panels of a figure
WIDEST, HIGHEST = 15.0, 9.0  # inches, of the axes of a picture of its own
CELL = 0.30  # inches between neighbouring circles, where there is room
FORMS = ("png", "pdf", "svg")


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """Scenarios with few clients share figures; those with many are below each other."""
    found = _runs(seen)
    small = [key for key in found if found[key].planned.config["clients"] <= CROWD]
    large = [key for key in found if key not in small]
    kinds = (("distributions", small, ACROSS), ("distributions-large", large, 1))
    for name, scenarios, across in kinds:
        length = across * DOWN
        pages = [scenarios[i : i + length] for i in range(0, len(scenarios), length)]
        for number, page in enumerate(pages, 1):
            panels = {scenario.line: _counts(found[scenario]) for scenario in page}
            seeds = sorted({found[scenario].planned.config["seed"] for scenario in page})
            text = _caption(panels, seeds, seen.scale)
            make = partial(_figure, panels, across)
            title = "Training samples per client and class"
            width = seen.width(style.COLUMN if len(page) == 1 and across > 1 else style.PAGE)
            called = name if number == 1 else f"{name}-{number}"
            yield FigurePart(called, title, text, make, width)


def _caption(panels: Mapping[str, Ints], seeds: Sequence[int], scale: str) -> str:
    text = (
        f"Training samples per client and class: {'; '.join(panels)}. The area of a circle is"
        " proportional to their number, with the largest number of a panel below its title. The"
        f" partition is that of seed {', '.join(map(str, seeds))}"
    )
    return f"{text}, scale {scale}." if scale else f"{text}."


def _runs(seen: Overview) -> dict[Heading, Numbers]:
    """A run of every scenario that says what its clients have: that with the lowest seed."""
    found: dict[Heading, Numbers] = {}
    for group in seen.groups:
        for run in group.runs:
            if not run.about.get("partition", {}).get("train_classes"):
                continue
            there = found.get(group.scenario)
            if there is None or run.planned.config["seed"] < there.planned.config["seed"]:
                found[group.scenario] = run
    return found


def _counts(run: Numbers) -> Ints:
    return class_counts.dense(run.about["partition"]["train_classes"], run.about["data"]["classes"])


@style.themed
def _figure(panels: Mapping[str, Ints], most: int, width: float) -> Any:
    across = min(most, int(width / 1.6))
    columns = min(across, len(panels))
    classes = max(table.shape[1] for table in panels.values())
    height = min(max(0.12 * classes, 1.2), 2.4)  # inches, of the axes
    figure, found = style.panels(len(panels), across, width, height + 0.72)
    for axes, (title, table) in zip(found, panels.items(), strict=True):
        inches = width / columns - 0.45
        circles(axes, table, inches, height)
        lines = textwrap.wrap(title, int(18 * inches))  # 7 points: 18 letters per inch
        lines.append(f"largest: {table.max():,}")
        axes.set_title("\n".join(lines), fontsize=style.SMALL)
    return figure


def circles(
    axes: Any,
    train: Ints,
    width: float,
    height: float,
    legend: Any = False,
    names: Sequence[str] = (),
) -> float:
    """Draw them on axes of that many inches; the diameter of the largest, in points.

    Clients are on x, classes on y, by their names if there are any; areas are proportional to the
    numbers of training samples.
    """
    import seaborn as sns

    clients, classes = train.shape
    diameter: float = 72 * min((width / clients * height / classes) ** 0.5, 1.3 * CELL) * 0.95
    client, label = np.nonzero(train)
    areas = {"sizes": (0, diameter**2), "size_norm": (0, max(int(train.max()), 1))}
    how = {"color": style.PALETTE[0], "alpha": 0.85, "linewidth": 0}
    numbers = train[client, label]
    sns.scatterplot(x=client, y=label, size=numbers, **areas, **how, legend=legend, ax=axes)
    axes.collections[0].set_clip_on(False)
    axes.set(xlabel="client", ylabel="class")
    axes.set(xlim=(-0.6, clients - 0.4), ylim=(-0.6, classes - 0.4))
    axes.set_xticks(style.ticks(clients, width))
    shown = style.ticks(classes, height)
    axes.set_yticks(shown, [names[int(place)] for place in shown] if names else None)
    return diameter


def picture(train: Ints, title: str, path: Path, names: Sequence[str] = ()) -> None:
    """The circles of one partition in a file of their own, with a legend."""
    form = path.suffix[1:]
    if form not in FORMS:
        raise UserError(f"cannot draw {path}: its name must end in .png, .pdf or .svg")
    content = style.rendered(_picture(train, title, names), form)  # type: ignore[arg-type]
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


@style.themed
def _picture(train: Ints, title: str, names: Sequence[str]) -> Any:
    clients, classes = train.shape
    width = max(min(CELL * clients, WIDEST), 2.4)
    height = max(min(CELL * classes, HIGHEST), 1.6)
    figure, (axes,) = style.canvas(width + 1.4, height + 0.7)
    diameter = circles(axes, train, width, height, "brief", names)
    axes.set_title(title)
    handles, labels = axes.get_legend_handles_labels()
    axes.get_legend().remove()
    few = sorted({0, len(handles) // 2, len(handles) - 1})
    apart = {"labelspacing": max(0.8, diameter / 8 - 0.5)}  # in font sizes: circles do not touch
    apart["handletextpad"] = max(0.8, diameter / 16 - 0.4)
    figure.legend(
        [handles[place] for place in few],
        [labels[place] for place in few],
        title="training\nsamples",
        loc="outside right upper",
        **apart,
    )
    return figure


def counts(rows: Sequence[Ints], y: Ints, classes: int) -> Ints:
    """Samples of every client (row) and class (column)."""
    return np.stack([np.bincount(y[indices], minlength=classes) for indices in rows])


def summary(parts: Mapping[str, Ints]) -> dict[str, dict[str, float]]:
    """Least, median and most over clients: samples of every part (train, ...), and classes."""
    words = {"train": "training samples"}
    found = {words.get(part, f"{part} samples"): table.sum(1) for part, table in parts.items()}
    found["classes"] = (np.stack([*parts.values()]).sum(0) > 0).sum(1)
    return {
        what: {
            "min": int(values.min()),
            "median": float(np.median(values)),
            "max": int(values.max()),
        }
        for what, values in found.items()
    }
