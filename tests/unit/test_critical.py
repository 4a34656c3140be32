"""The critical-difference diagram and its caption."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from pflbench.errors import UserError
from pflbench.report.figures import critical_difference as critical
from pflbench.report.stats.ranks import Ranking, friedman
from tests.factories.accuracies import by_scenario


def ranked(frame: pd.DataFrame, **options) -> Ranking:
    found = friedman(frame, **options)
    assert isinstance(found, Ranking), found
    return found


# The diagram


@cache
def many(methods: int, blocks: int) -> Ranking:
    draws = np.random.default_rng(0)
    table = draws.normal(size=(blocks, methods)) + 0.4 * np.arange(methods)
    return ranked(
        by_scenario(pd.DataFrame(table, columns=[f"Personalized{i}" for i in range(methods)]))
    )


@pytest.mark.parametrize(
    "methods, blocks, width", [(22, 12, 7.0), (22, 3, 4.2), (5, 30, 3.5), (3, 40, 7.0)]
)
def test_texts_are_in_the_picture_and_do_not_overlap(methods: int, blocks: int, width: float):
    figure = critical.diagram(many(methods, blocks), width=width)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    assert all(box.x0 >= 0 and box.y0 >= 0 for box in boxes)
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
    assert [
        (i, j) for i, a in enumerate(boxes) for j, b in enumerate(boxes[:i]) if a.overlaps(b)
    ] == []


def test_every_method_has_a_label_at_its_rank():
    ranking = many(22, 12)
    axes = critical.diagram(ranking).axes[0]
    stems = [line.get_xydata() for line in axes.lines if line.get_gid() == "stem"]
    labels = [text for text in axes.texts if text.get_gid() == "label"]
    for (name, rank), stem, label in zip(ranking.ranks.items(), stems, labels, strict=True):
        assert label.get_text() == f"{name}  {rank:.2f}"
        assert tuple(stem[0]) == (rank, 0)
        assert stem[-1][1] == label.get_position()[1]


def test_no_line_of_a_label_crosses_another():
    """A level part from x to the side meets the upright of no method that is further out."""
    axes = critical.diagram(many(22, 12)).axes[0]
    stems = [line.get_xydata() for line in axes.lines if line.get_gid() == "stem"]
    for stem in stems:
        x, y, end = stem[1][0], stem[1][1], stem[2][0]
        met = [o for o in stems if min(x, end) < o[0][0] < max(x, end) and o[1][1] > y]
        assert met == []


def test_bars_are_the_groups_and_keep_clear_of_each_other():
    ranking = many(22, 12)
    axes = critical.diagram(ranking).axes[0]
    bars = [line.get_xydata() for line in axes.lines if line.get_gid() == "group"]
    spans = [(ranking.ranks[group[0]], ranking.ranks[group[-1]]) for group in ranking.groups]
    assert len(spans) > 2
    assert [(bar[0][0], bar[1][0]) for bar in bars] == spans
    for i, one in enumerate(bars):
        for other in bars[:i]:
            assert one[0][1] != other[0][1] or one[0][0] > other[1][0] or one[1][0] < other[0][0]


def test_the_critical_difference_is_drawn_to_scale_or_said_to_be_longer():
    short, long = many(5, 30), many(22, 2)
    (bar,) = [
        line.get_xdata()
        for line in critical.diagram(short).axes[0].lines
        if line.get_gid() == "difference"
    ]
    assert bar[1] - bar[0] == pytest.approx(short.difference)
    assert long.difference > 21
    (text,) = [
        text.get_text() for text in critical.diagram(long).axes[0].texts if text.get_gid() == "CD"
    ]
    assert text == f"CD = {long.difference:.2f}, longer than the axis"


def test_a_picture_that_is_too_narrow_is_refused():
    with pytest.raises(UserError, match="too narrow for its labels"):
        critical.diagram(many(22, 12), width=2)
