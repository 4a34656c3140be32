"""Names next to points, placed where they hide neither each other nor another point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
# Degrees; of equally good places the first is taken.
ANGLES = (135, 45, 90, 315, 225, 270, 0, 180, 20, 70, 110, 160, 200, 250, 290, 340)
DIRECTIONS = [
    (round(math.cos(math.radians(a)), 9), round(math.sin(math.radians(a)), 9)) for a in ANGLES
]


@dataclass(frozen=True)
class Surroundings:
    """What names must not hide, in points."""

    frame: Box  # of the axes
    dots: Floats  # (n, 2)
    ink: Floats  # (m, 2) places on lines, close to each other

    def price(self, box: Box, taken: Sequence[Box], ring: int) -> float:
        """How bad a place is: off the axes, over a name, over points, over a line; then how far."""
        left, bottom, right, top = box
        frame = self.frame
        outside = left < frame[0] or bottom < frame[1] or right > frame[2] or top > frame[3]
        over = sum(_overlap(box, other) for other in taken)
        x, y = self.dots.T
        hidden = (x > left - DOT) & (x < right + DOT) & (y > bottom - DOT) & (y < top + DOT)
        x, y = self.ink.T
        crossed = (x > left - 1) & (x < right + 1) & (y > bottom) & (y < top)
        bad = 1000 * (outside + over) + 10 * int(hidden.sum()) + 5 * bool(crossed.any())
        return bad + 3 * ring


def name_points(axes: Any, x: npt.ArrayLike, y: npt.ArrayLike, names: Sequence[str]) -> None:
    """Write names of some of the points; the figure must have been laid out.

    A name that has to go far gets a line.
    """
    points = np.column_stack([np.asarray(x), np.asarray(y)])
    places = 72 / axes.figure.dpi * axes.transData.transform(points)
    around = _surroundings(axes)
    choices = [(ring, *direction) for ring in range(RINGS) for direction in DIRECTIONS]
    taken: list[Box] = []
    for point, place, name in zip(points, places, names, strict=True):
        width = 72 * style.text_width(name, style.SMALL)
        boxes = [(_box(place, width, *choice), choice[0]) for choice in choices]
        box, ring = min(boxes, key=lambda found: around.price(found[0], taken, found[1]))
        taken.append(box)
        middle = (box[0] + box[2]) / 2 - place[0], (box[1] + box[3]) / 2 - place[1]
        _write(axes, name, point, middle, far=ring > 0)


def _write(axes: Any, name: str, point: Floats, offset: tuple[float, float], far: bool) -> None:
    line = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    text = axes.annotate(
        name,
        xy=point,
        xytext=offset,
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=style.SMALL,
        arrowprops=line if far else None,
        annotation_clip=False,
        gid="name",
    )
    text.set_in_layout(False)


def _surroundings(axes: Any) -> Surroundings:
    scale = 72 / axes.figure.dpi
    dots, ink = [np.zeros((0, 2))], [np.zeros((0, 2))]
    for points in axes.collections:
        dots.append(axes.transData.transform(np.asarray(points.get_offsets(), dtype=float)))
    for line in axes.get_lines():
        if line.get_linestyle() != "None":
            ends = pairwise(axes.transData.transform(line.get_xydata()))
            ink += [np.linspace(a, b, 50) for a, b in ends]
    known = np.concatenate(dots)
    known = known[np.isfinite(known).all(1)]
    window = axes.get_window_extent()
    frame = (scale * window.x0, scale * window.y0, scale * window.x1, scale * window.y1)
    return Surroundings(frame, scale * known, scale * np.concatenate(ink))


def _box(place: Floats, width: float, ring: int, dx: float, dy: float) -> Box:
    """Of a name in a direction: its nearest edge or corner is that far away."""
    away = NEAR + STEP * ring
    height = style.SMALL * 1.1
    x = place[0] + dx * away + np.sign(dx) * width / 2
    y = place[1] + dy * away + np.sign(dy) * height / 2
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _overlap(one: Box, other: Box) -> bool:
    across = one[0] < other[2] + 2 and other[0] - 2 < one[2]
    return across and one[1] < other[3] + 1 and other[1] - 1 < one[3]
