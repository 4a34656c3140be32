"""Figures at the widths of a column and of a page, with many methods and a proposed one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from pflbench.records.report_options import FigureOptions, ReportOptions
from pflbench.report.figures import embedding, kinds, style
from pflbench.report.load import runs
from pflbench.report.load.runs import Choice, Experiment
from tests.factories.run_files import write_sweep

MANY: dict[str, Any] = {
    "algorithms": "all",
    "clients": 20,
    "rounds": 10,
    "scenarios": [
        {"partition": ["dir:0.1", "path:2"], "data_fraction": [0.1, 0.5], "scarce_clients": 5}
    ],
}
PROPOSED = ReportOptions(proposed="fedrep")
KINDS = ("curves", "scarcity", "clients", "efficiency", "ranks", "distributions")


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """All methods in four scenarios."""
    folder = tmp_path_factory.mktemp("many")
    write_sweep(folder, "many", MANY)
    (found,) = runs.collect(folder, Choice())
    return found


def figures(experiment: Experiment, options: ReportOptions = PROPOSED) -> dict[str, Any]:
    """One of every kind."""
    parts, _ = kinds.figures(with_options(experiment, options), Choice())
    return {part.name.split("-")[0]: part for part in reversed(parts)}


def with_options(experiment: Experiment, options: ReportOptions) -> Experiment:
    return replace(experiment, plan=replace(experiment.plan, report=options))


@pytest.mark.parametrize("width", [3.25, 4.8, 5.5, 7.16])
@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_has_the_width_that_is_asked_for_and_nothing_is_cut(
    made_up: Experiment, kind: str, width: float
):
    figure = figures(made_up)[kind].make(width)
    style.lay_out(figure)
    assert figure.get_figwidth() == pytest.approx(width)
    drawn = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    assert min(drawn.x0, drawn.y0) > -0.01
    assert drawn.x1 < width + 0.01 and drawn.y1 < figure.get_figheight() + 0.01
    sizes = [axes.get_window_extent() for axes in figure.axes]
    assert min(min(box.width, box.height) for box in sizes) / figure.dpi > 0.75  # inches


@pytest.mark.parametrize("kind", KINDS)
def test_letters_can_be_read_in_print(made_up: Experiment, kind: str):
    for width in (3.25, 7.16):
        figure = figures(made_up)[kind].make(width)
        assert min(text.get_fontsize() for text in figure.findobj(Text)) >= style.SMALL


def test_a_report_may_ask_for_figures_of_one_or_two_columns(made_up: Experiment):
    for size, width in (("one-column", 3.25), ("two-column", 6.75)):
        options = ReportOptions(figures=FigureOptions(size=size, template="icml"))  # type: ignore[arg-type]
        assert {part.width for part in figures(made_up, options).values()} == {width}
    assert figures(made_up)["curves"].width == style.PAGE


def colours(experiment: Experiment, options: ReportOptions) -> dict[str, str]:
    """Of the methods in the legend of the learning curves."""
    (legend,) = figures(experiment, options)["curves"].figure.legends
    labels = [text.get_text().split("  ")[0] for text in legend.get_texts()]
    found = [handle.get_color() for handle in legend.legend_handles]
    return dict(zip(labels, found, strict=True))


def test_figures_may_show_fewer_methods_than_tables_each_in_a_colour_of_its_own(
    made_up: Experiment,
):
    everyone = colours(made_up, PROPOSED)
    alike = [label for label, colour in everyone.items() if colour == everyone["FedAvg"]]
    assert len(alike) > 2
    few = replace(PROPOSED, figures=FigureOptions(methods=(*alike, "nobody")))
    found = colours(made_up, few)
    assert set(found) == {*alike, "FedRep"}  # the proposed method always
    assert len({*found.values()}) == len(found)
    _, notes = kinds.figures(with_options(made_up, few), Choice())
    assert "Not in the figures, since no run has it: method 'nobody'." in notes


def test_the_proposed_method_stands_out_in_every_figure(made_up: Experiment):
    """FedRep is not among the best five of these made-up runs, or of the best eight."""
    found = figures(made_up)
    for kind in ("curves", "scarcity", "clients", "efficiency"):
        (legend,) = found[kind].figure.legends
        labels = [text.get_text().split("  ")[0] for text in legend.get_texts()]
        looks = [(h.get_color(), h.get_marker()) for h in legend.legend_handles]
        own = looks[labels.index("FedRep")]
        assert own == (style.PROPOSED, style.STAR)
        assert looks.count(own) == 1
        assert [colour for colour, _ in looks].count(style.PROPOSED) == 1
    lines = found["curves"].figure.axes[0].get_lines()
    assert [line.get_linewidth() > 1 for line in lines if line.get_color() == style.PROPOSED]
    assert "The best 4 and the proposed method stand out" in found["curves"].caption
    bold = [t for t in found["ranks"].figure.findobj(Text) if t.get_fontweight() == "bold"]
    assert [(t.get_text().split("  ")[0], t.get_color()) for t in bold] == [
        ("FedRep", style.PROPOSED)
    ]


def test_representations_are_embedded_once_for_all_widths(monkeypatch: pytest.MonkeyPatch):
    calls = []

    def embedded(vectors: Any) -> Any:
        calls.append(len(vectors))
        return np.zeros((len(vectors), 2))

    monkeypatch.setattr(embedding, "embedded", embedded)
    arrays: Any = {"x": np.ones((10, 4)), "y": np.arange(10) % 2, "z": np.ones((10, 3))}
    plane = embedding.Plane({"FedAvg": arrays})
    for width in (3.5, 7.16):
        assert embedding._figure(plane, width).get_figwidth() == width
    assert calls == [10, 10]  # the raw data and FedAvg
