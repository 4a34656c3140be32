"""Names beside points, placed where they hide neither each other nor another point."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.report.figures import style
from pflbench.report.load.runs import Floats

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points of 1/72 inch."""

NEAR, STEP = 7.0, 8.0  # points: from a point to its name, and how much farther it may go at a time
DOT = 3.5  # half the width of a point
RINGS = 8
ANGLES = (
    135,
    45,
    90,
    315,
    225,
    270,
    0,
    180,
    20,
    70,
    110,
    160,
    200,
    250,
    290,
    340,
)  # the first of equals is taken
DIRECTIONS = [
    (round(math.cos(math.radians(a)), 9), round(math.sin(math.radians(a)), 9)) for a in ANGLES
]


def name_points(axes: Any, x: npt.ArrayLike, y: npt.ArrayLike, names: Sequence[str]) -> None:
    """Write names of some of the points; the figure must have been laid out. A name that has to go far gets a line."""
    scale = 72 / axes.figure.dpi
    points = np.column_stack([np.asarray(x), np.asarray(y)])
    places = scale * axes.transData.transform(points)
    marks = [line.get_xydata() for line in axes.get_lines() if line.get_linestyle() == "None"]
    dots = scale * axes.transData.transform(np.concatenate([np.zeros((0, 2)), *marks]))
    dots = dots[np.isfinite(dots).all(1)]
    ink = scale * _strokes(axes)
    window = axes.get_window_extent()
    frame = (scale * window.x0, scale * window.y0, scale * window.x1, scale * window.y1)
    taken: list[Box] = []
    for point, place, name in zip(points, places, names, strict=True):
        width = _width(name)
        choices = [(ring, *direction) for ring in range(RINGS) for direction in DIRECTIONS]
        ring, dx, dy = min(
            choices, key=lambda c: _price(_box(place, width, *c), frame, taken, dots, ink, c[0])
        )
        box = _box(place, width, ring, dx, dy)
        taken.append(box)
        middle = (box[0] + box[2]) / 2 - place[0], (box[1] + box[3]) / 2 - place[1]
        arrow = (
            {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            if ring
            else None
        )
        text = axes.annotate(
            name,
            xy=point,
            xytext=middle,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=style.SMALL,
            arrowprops=arrow,
            annotation_clip=False,
            gid="name",
        )
        text.set_in_layout(False)


def _width(name: str) -> float:
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), name, size=style.SMALL).get_extents().width)


def _box(place: Floats, width: float, ring: int, dx: float, dy: float) -> Box:
    """Of a name in a direction: its nearest edge or corner is that far away."""
    away = NEAR + STEP * ring
    height = style.SMALL * 1.1
    x = place[0] + dx * away + np.sign(dx) * width / 2
    y = place[1] + dy * away + np.sign(dy) * height / 2
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _strokes(axes: Any) -> Floats:
    """Places on the lines of the axes, close to each other, in pixels."""
    found = [np.zeros((0, 2))]
    for line in axes.get_lines():
        if line.get_linestyle() != "None":
            found += [
                np.linspace(a, b, 50)
                for a, b in pairwise(axes.transData.transform(line.get_xydata()))
            ]
    return np.concatenate(found)


def _price(
    box: Box, frame: Box, taken: Sequence[Box], dots: Floats, ink: Floats, ring: int
) -> float:
    """How bad a place is: off the axes, over a name, over points, over a line; then how far."""
    left, bottom, right, top = box
    outside = left < frame[0] or bottom < frame[1] or right > frame[2] or top > frame[3]
    over = sum(
        left < o[2] + 2 and o[0] - 2 < right and bottom < o[3] + 1 and o[1] - 1 < top for o in taken
    )
    x, y = dots.T
    hidden = int(
        ((x > left - DOT) & (x < right + DOT) & (y > bottom - DOT) & (y < top + DOT)).sum()
    )
    x, y = ink.T
    crossed = bool(((x > left - 1) & (x < right + 1) & (y > bottom) & (y < top)).any())
    return 1000 * (outside + over) + 10 * hidden + 5 * crossed + 3 * ring
