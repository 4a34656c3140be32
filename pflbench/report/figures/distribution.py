"""Which client has how many samples of which class: a picture of circles, and a few numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.errors import UserError

Ints = npt.NDArray[np.int64]
WIDEST, HIGHEST = 15.0, 9.0  # inches
CELL = 0.30  # inches between neighbouring circles, where there is room


def in_words(partition: str) -> str:
    """dir:0.1 as people say it."""
    kind, _, argument = partition.partition(":")
    words = {"dir": f"Dirichlet {argument}", "path": f"{argument} classes a client", "iid": "IID"}
    return words.get(kind, f"partition {Path(argument).name}")


def counts(rows: Sequence[Ints], y: Ints, classes: int) -> Ints:
    """Samples of every client (row) and class (column)."""
    return np.stack([np.bincount(y[indices], minlength=classes) for indices in rows])


def summary(parts: Mapping[str, Ints]) -> dict[str, dict[str, float]]:
    """Smallest, median and largest number, over clients, of samples of every part (train, ...) and of classes."""
    words = {"train": "training samples"}
    figures = {words.get(part, f"{part} samples"): table.sum(1) for part, table in parts.items()}
    figures["classes"] = (np.stack([*parts.values()]).sum(0) > 0).sum(1)
    return {
        what: {
            "min": int(values.min()),
            "median": float(np.median(values)),
            "max": int(values.max()),
        }
        for what, values in figures.items()
    }


def draw(train: Ints, title: str, path: Path) -> None:
    """Clients on x, classes on y; the area of a circle is proportional to the number of training samples."""
    from matplotlib.figure import Figure

    clients, classes = train.shape
    width = max(min(CELL * clients, WIDEST), 2.4)
    height = max(min(CELL * classes, HIGHEST), 1.6)
    left, right, bottom, top = 0.75, 1.35, 0.6, 0.45  # inches
    figure = Figure(figsize=(left + width + right, bottom + height + top), dpi=150)
    whole = figure.get_size_inches()
    axes = figure.add_axes(
        (left / whole[0], bottom / whole[1], width / whole[0], height / whole[1])
    )
    largest, diameter = circles(axes, train, width, height)
    axes.set(xlabel="client", ylabel="class")
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, largest, diameter)
    _save(figure, path)


def circles(axes: Any, train: Ints, width: float, height: float) -> tuple[int, float]:
    """Draw them on axes of that many inches; the largest number, and the diameter of its circle in points."""
    clients, classes = train.shape
    largest = max(int(train.max()), 1)
    diameter = 72 * min((width / clients * height / classes) ** 0.5, 1.3 * CELL) * 0.95
    client, label = np.nonzero(train)
    sizes = diameter**2 * train[client, label] / largest
    axes.scatter(client, label, s=sizes, color="#0173b2", alpha=0.85, linewidth=0, clip_on=False)
    _axis(axes.xaxis, clients, width)
    _axis(axes.yaxis, classes, height)
    axes.set(xlim=(-0.6, clients - 0.4), ylim=(-0.6, classes - 0.4))
    return largest, diameter


def _axis(axis: Any, number: int, inches: float) -> None:
    """A tick for every client or class, as far as the numbers fit."""
    step = next(
        step
        for step in (1, 2, 5, 10, 20, 50, 100, 1000)
        if step * inches / number >= 0.18 or step == 1000
    )
    axis.set_ticks(range(0, number, step))
    axis.set_tick_params(labelsize=7, length=2)


def _legend(axes: Any, largest: int, diameter: float) -> None:
    """Three circles with their numbers of samples."""
    exponent = 10 ** max(len(str(largest)) - 1, 0)
    full = largest // exponent * exponent  # one digit, then zeros
    steps = sorted({max(1, full // 10), max(1, full // 2 if full > 1 else 1), full})
    handles = [
        axes.scatter([], [], s=diameter**2 * n / largest, color="#0173b2", alpha=0.85, linewidth=0)
        for n in steps
    ]
    axes.legend(
        handles,
        [f"{n:,}" for n in steps],
        title="training\nsamples",
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        frameon=False,
        fontsize=8,
        title_fontsize=8,
        labelspacing=max(
            0.8, diameter / 8 - 0.8
        ),  # in units of the font size: no circle touches another
        handletextpad=max(0.8, diameter / 16 - 0.4),  # or a number
        alignment="left",
    )


def _save(figure: Any, path: Path) -> None:
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise UserError(f"cannot draw {path}: the name of a picture ends in .png, .pdf or .svg")
    try:
        figure.savefig(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
