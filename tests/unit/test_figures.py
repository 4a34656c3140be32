"""Figures of made-up runs: which are drawn, what is in them, and how they look."""

import ast
import io
import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from pflbench.papers import papers
from pflbench.papers.fedcosr import tau_figure
from pflbench.report.figures import (
    critical_difference,
    distribution,
    embedding,
    kinds,
    learning,
    pareto,
    per_client,
    scarcity,
    style,
    variation,
)
from pflbench.report.grouping.overview import overview
from pflbench.report.load.runs import OTHERS, Choice, Numbers
from tests.factories import runs
from tests.factories.runs import run

TITLES = papers()[0].methods
NAMES = {"".join(c for c in title.lower() if c.isalnum()): title for title in TITLES}
FORMS: tuple[Any, ...] = ("pdf", "png", "svg")
FEDCOSR = {"alpha": 1.0, "batch_size": 16, "tau": "exp", "tau_value": 0.0, "gamma": 0.8}


def made(
    method: str = "fedavg",
    accuracy: float = 0.5,
    seed: int = 0,
    *,
    series: list[float] | None = None,
    cost: tuple[float, float] = (1.0, 2.0),
    clients: int = 4,
    rounds: int = 8,
    **how: Any,
) -> Numbers:
    """A run whose clients have accuracy -0.1, +0.1, -0.1, +0.1, by a straight curve from zero.

    `cost` is megabytes and seconds per round. Client c has 10 (c + 1) samples of class 0 and 20 of
    class 1, `how` are options of `run`.
    """
    curve = np.linspace(0.0, accuracy, rounds + 1) if series is None else [0.0, *series]
    sent = {f"{way} theta": np.full(rounds, 1e6 * cost[0] / 2) for way in ("down", "up")}
    seconds = {"client": cost[1], "server": 0.0, "evaluation": 9.0}
    counts = [{"0": 10 * (client + 1), "1": 20} for client in range(clients)]
    sizes = [sum(row.values()) for row in counts]
    return run(
        method,
        accuracy + np.resize([-0.1, 0.1], clients),
        seed=seed,
        curves={"post": curve},
        first=0,
        loss=np.linspace(2.0, 1.0, rounds),
        sent=sent if cost[0] else {},
        seconds={name: np.full(rounds, value) for name, value in seconds.items()},
        about={"point": "post", "classes": 3, "n_train": sizes, "counts": (counts, counts)},
        clients=clients,
        rounds=rounds,
        **how,
    )


experiment = partial(runs.experiment, name="test", scale="small", report={})


def drawn(kind: Any, *runs: Numbers, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Figures of one kind by name, and notes."""
    found = list(kind(overview(experiment(*runs, **options), Choice())))
    return {part.name: part for part in found if not isinstance(part, str)}, [
        n for n in found if isinstance(n, str)
    ]


def one(kind: Any, *runs: Numbers, **options: Any) -> Any:
    """The only figure of a kind."""
    parts, notes = drawn(kind, *runs, **options)
    assert len(parts) == 1, (list(parts), notes)
    return next(iter(parts.values()))


def colours(*runs: Numbers) -> dict[str, str]:
    """By label."""
    groups = overview(experiment(*runs), Choice()).groups
    return {group.label: group.look.colour for group in groups}


def lines(axes: Any, colour: str) -> list[Any]:
    """The lines of that colour, without crosses and dots at their end."""
    found = [line for line in axes.get_lines() if line.get_color() == colour]
    return [line for line in found if line.get_marker() != "x"]


def points(axes: Any) -> dict[str, tuple[float, float]]:
    """Places of the points of a scatter plot, by colour."""
    scatter = axes.collections[0]
    shown = map(matplotlib.colors.to_hex, scatter.get_facecolors())
    places = [(float(x), float(y)) for x, y in scatter.get_offsets()]
    return {colour.upper(): place for colour, place in zip(shown, places, strict=True)}


def marked(axes: Any, gid: str) -> list[Any]:
    return [artist for artist in axes.get_children() if artist.get_gid() == gid]


def legend(part: Any) -> list[str]:
    return [text.get_text() for text in part.figure.legends[0].get_texts()]


# Looks


@pytest.mark.parametrize("number", [22, 36, 49])
def test_every_method_has_a_line_and_a_marker_of_its_own(number: int):
    titles = [*TITLES, *(f"Further {place}" for place in range(22, number))]
    looks = style.looks(titles).values()
    assert len(TITLES) == 22
    assert len({(look.colour, str(look.dash)) for look in looks}) == number
    assert len({(look.colour, look.marker) for look in looks}) == number


def test_looks_do_not_depend_on_how_many_follow():
    few, many = (list(style.looks([str(i) for i in range(n)]).values()) for n in (28, 49))
    assert many[:28] == few
    assert {str(look.dash) for look in few} == {str(dash) for dash in style.DASHES}


def test_the_first_methods_differ_in_colour():
    first = list(style.looks(TITLES).values())[: len(style.PALETTE)]
    assert len({look.colour for look in first}) == len(style.PALETTE)


def test_the_proposed_method_looks_like_no_other_one():
    looks = style.looks([*TITLES, "Mine"], proposed="Mine")
    others = [look for title, look in looks.items() if title != "Mine"]
    assert all(look.colour != looks["Mine"].colour for look in others)
    assert all(look.marker != looks["Mine"].marker for look in others)
    assert others == list(style.looks(TITLES).values())


def test_only_in_a_papers_style_methods_look_as_in_it():
    def looks(*runs: Numbers, **report: str) -> dict[str, style.Look]:
        groups = overview(experiment(*runs, report=report), Choice()).groups
        return {group.label: group.look for group in groups}

    own = {title: style.Look(*papers()[0].looks[title]) for title in ("MOON", "FedCoSR")}
    assert looks(*pair(), style="fedcosr", proposed="fedcosr") == own
    assert looks(*pair()) == style.looks(["MOON", "FedCoSR"])
    other = looks(*pair(), made("apfl"), style="fedcosr")  # the paper does not have it
    assert other == style.looks(["MOON", "FedCoSR", "apfl"])
    moon = looks(*pair(), style="fedcosr", proposed="moon")
    assert moon == style.looks(["FedCoSR", "MOON"], "MOON")


def pair(**config: Any) -> list[Numbers]:
    return [made("moon", 0.5, **config), made("fedcosr", 0.6, **config)]


# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB: none, protanopia, deuteranopia,
# tritanopia.
BLINDNESS = [
    np.eye(3),
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
]
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, blindness: Any) -> Any:
    """CIE L*a*b* of a colour as it is seen."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(blindness @ linear, 0, 1) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colours_can_be_told_apart_by_the_colour_blind(blindness: Any):
    """Okabe and Ito's own eight are at least 16 apart, seaborn's ten for the colour-blind 6."""
    seen = [lab(colour, np.array(blindness)) for colour in (*style.PALETTE, style.PROPOSED)]
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) > 15


def test_values_of_a_hyperparameter_are_shades_and_named_variants_colours():
    looks = style.variant_looks(["alpha=0.5", "alpha=1.0", "alpha=2.0", "w/o CE", "w/o Sep"])
    assert len({look.colour for look in looks.values()}) == 5
    family = [looks[f"alpha={value}"] for value in ("0.5", "1.0", "2.0")]
    assert family[1].colour.upper() == style.PALETTE[0]
    assert len({(str(look.dash), look.marker) for look in family}) == 1
    light, middle, dark = (lab(look.colour, np.eye(3))[0] for look in family)
    assert light > middle > dark
    assert [looks[name].colour for name in ("w/o CE", "w/o Sep")] == list(style.PALETTE[1:3])


# Learning curves


def test_moving_average_by_hand():
    rounds = np.arange(1.0, 7)
    values = np.array([0.0, 6, 0, 6, 0, 6])
    assert learning.smoothed(rounds, values, 1).tolist() == [0, 2, 4, 2, 4, 3]
    assert learning.smoothed(rounds, values, 0).tolist() == values.tolist()
    # Side 2 is cut to 1 in the second round: (0 + 6 + 0) / 3; then 12 / 5, 18 / 5, 12 / 4, 12 / 3.
    assert learning.smoothed(rounds, values, 2) == pytest.approx([0, 2, 2.4, 3.6, 3, 4])


def test_moving_average_counts_rounds_not_evaluations_and_leaves_out_unknown_ones():
    rounds = np.array([2.0, 4, 6, 8])
    assert learning.smoothed(rounds, np.array([1.0, 2, 6, 4]), 2).tolist() == [1, 3, 4, 5]
    found = learning.smoothed(rounds, np.array([np.nan, 2, np.nan, 4]), 2)
    assert np.isnan(found[0]) and found[1:].tolist() == [2, 3, 4]


@pytest.mark.parametrize("rounds, side", [(1000, 25), (200, 25), (50, 6), (8, 1), (2, 0)])
def test_length_of_the_moving_average(rounds: int, side: int):
    assert learning.reach(rounds) == side


def test_curves_are_smoothed_means_over_seeds_with_their_range():
    runs = [
        made(series=[0.1, 0.4, 0.1, 0.4, 0.1, 0.4, 0.1, 0.4]),
        made(series=[0.3] * 8, seed=1, accuracy=0.7),
    ]
    part = one(learning.draw, *runs)
    accuracy, loss = part.figure.axes
    smooth = [10, 20, 30, 20, 30, 20, 30, 25]
    (line,) = lines(accuracy, colours(*runs)["FedAvg"])
    assert line.get_xdata().tolist() == list(range(1, 9))
    assert line.get_ydata() == pytest.approx([(y + 30) / 2 for y in smooth])
    band = accuracy.collections[0].get_paths()[0].vertices
    for round, y in enumerate(smooth, 1):
        assert sorted(set(band[band[:, 0] == round][:, 1].round(6))) == sorted({float(y), 30.0})
    assert lines(loss, colours(*runs)["FedAvg"])[0].get_ydata()[0] == 2.0
    assert legend(part) == ["FedAvg  60.0"]
    assert "moving average of 2 rounds (1 to either side" in part.caption
    assert "Digits, Dirichlet 0.1" in part.caption and "2 seeds, scale small." in part.caption


def test_of_many_methods_the_best_stand_out_and_all_are_in_the_legend():
    names = list(NAMES)[:10]
    runs = [made(name, accuracy=0.2 + place / 20) for place, name in enumerate(names)]
    part = one(learning.draw, *runs)
    ends = {line.get_ydata()[-1]: line.get_linewidth() for line in part.figure.axes[0].get_lines()}
    assert [ends[end] > 1 for end in sorted(ends)] == [False] * 5 + [True] * 5
    assert [text.split("  ")[0] for text in legend(part)] == [
        NAMES[name] for name in reversed(names)
    ]


def test_a_long_curve_is_drawn_with_few_points_and_both_ends():
    (line,) = one(learning.draw, made(rounds=1000)).figure.axes[0].get_lines()
    rounds = line.get_xdata()
    assert len(rounds) == learning.POINTS
    assert (rounds[0], rounds[-1]) == (1, 1000)


def test_a_run_that_is_not_finished_ends_in_a_cross_and_does_not_count():
    runs = [made("fedavg", 0.5), made("moon", 0.9, status="diverged")]
    part = one(learning.draw, *runs)
    assert legend(part) == ["FedAvg  50.0", "MOON  diverged"]
    crosses = [line for line in part.figure.axes[0].get_lines() if line.get_marker() == "x"]
    assert [(line.get_color(), line.get_xdata()[0]) for line in crosses] == [
        (colours(*runs)["MOON"], 8.0)
    ]
    assert "Not counted: MOON (1 diverged of 1)." in part.caption


def test_seeds_that_are_not_finished_are_no_part_of_a_mean():
    runs = [
        made(accuracy=0.5),
        made(accuracy=0.9, seed=1, status="running"),
        made(seed=2, status="missing"),
    ]
    part = one(learning.draw, *runs)
    assert legend(part) == ["FedAvg  50.0"]
    (line,) = part.figure.axes[0].get_lines()
    assert line.get_ydata()[0] == pytest.approx(50 / 8)
    assert "1 seed, scale small. Not counted: FedAvg (1 running, 1 missing of 3)." in part.caption


def test_the_caption_says_where_no_loss_is_recorded():
    part = one(learning.draw, replace(made(), loss=np.full(8, np.nan)))
    assert "No loss is recorded for FedAvg." in part.caption
    assert part.figure.axes[1].get_lines() == []


def test_single_runs_that_differ_in_a_hyperparameter_are_two_lines():
    runs = [made(hparams={"lr": lr}, accuracy=lr) for lr in (0.1, 0.2)]
    part = one(
        learning.draw,
        *(replace(r, folder=Path(str(i))) for i, r in enumerate(runs)),
        name=OTHERS,
        scale="",
    )
    assert legend(part) == ["lr=0.2  20.0", "lr=0.1  10.0"]


# Cost


def test_pareto_front_by_hand():
    """(2, 60) costs as much as (2, 70) and is worse, (3, 70) costs more; two equals both stay."""
    costs, accuracies = [1, 2, 2, 3, 9, 9, np.nan], [50, 70, 60, 70, 80, 80, 99]
    assert pareto.front(costs, accuracies).tolist() == [True, True, False, False, True, True, False]


def test_accuracy_against_total_cost_with_the_front_named():
    runs = [
        made("local", 0.3, cost=(0.0, 1.0)),
        made("fedavg", 0.5, cost=(4.0, 1.5)),
        made("fedproto", 0.6, cost=(0.01, 3.0)),
        made("fedcosr", 0.8, cost=(4.0, 2.0)),
    ]
    part = one(pareto.draw, *runs)
    megabytes, seconds = part.figure.axes
    shown = colours(*runs)
    assert points(megabytes)[shown["Local"]] == pytest.approx((0, 30))
    assert points(megabytes)[shown["FedProto"]] == pytest.approx((0.08, 60))
    assert points(seconds)[shown["Local"]] == pytest.approx((8, 30))
    assert points(seconds)[shown["FedCoSR"]] == pytest.approx((16, 80))
    assert {text.get_text() for text in marked(megabytes, "name")} == {
        "Local",
        "FedProto",
        "FedCoSR",
    }
    assert {text.get_text() for text in marked(seconds, "name")} == {"Local", "FedAvg", "FedCoSR"}
    (front,) = marked(seconds, "front")
    assert front.get_xdata() == pytest.approx([8, 12, 12, 16, 16])
    assert front.get_ydata() == pytest.approx([30, 30, 50, 50, 80])
    (ring,) = marked(seconds, "ring")
    assert sorted(ring.get_xdata()) == [8, 12, 16]


def test_names_on_the_front_do_not_hide_each_other():
    """Six methods of almost the same cost and accuracy, and one with much more of both."""
    seconds = [1, 1.01, 1.02, 1.03, 1.04, 1.05, 9]
    accuracies = [0.3, 0.301, 0.302, 0.303, 0.304, 0.305, 0.9]
    methods = zip(NAMES, accuracies, seconds, strict=False)
    part = one(pareto.draw, *(made(name, a, cost=(1.0, second)) for name, a, second in methods))
    part.figure.draw_without_rendering()
    names = marked(part.figure.axes[1], "name")
    # that of an Annotation has its line in it
    boxes = [Text.get_window_extent(text) for text in names]
    assert len(boxes) == 7
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_one_method_has_no_figure_of_cost():
    assert drawn(pareto.draw, made(), made(seed=1)) == ({}, [])


# Clients and data


def test_scarce_clients_are_red_and_points_are_means_over_seeds():
    runs = [
        made(accuracy=a, seed=seed, data_fraction=0.1, scarce_clients=1)
        for seed, a in enumerate((0.5, 0.7))
    ]
    part = one(per_client.draw, *runs)
    (axes,) = part.figure.axes
    assert [label.get_color() for label in axes.get_xticklabels()] == ["black"] * 3 + [style.SCARCE]
    means = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert means[0].get_ydata() == pytest.approx([50, 70, 50, 70])
    ranges = [line.get_ydata() for line in axes.get_lines() if line.get_marker() != "o"]
    assert ranges == [pytest.approx(ends) for ends in ([40, 60], [60, 80], [40, 60], [60, 80])]
    assert legend(part) == ["FedAvg  60.0 $\\pm$ 10.0; 70.0"]
    assert "Scarce clients, in red, have 10 % of their training data" in part.caption


@pytest.mark.parametrize("scarce", [{}, {"data_fraction": 0.1}])
def test_accuracies_per_client_need_scarce_clients_among_others(scarce: dict[str, Any]):
    assert drawn(per_client.draw, made(**scarce)) == ({}, [])


def test_accuracy_against_local_data_has_a_panel_for_every_partition():
    runs = [
        made(
            name,
            accuracy=base + keep,
            data_fraction=keep,
            partition=partition,
            words=f"digits {partition} data_fraction={keep}",
        )
        for partition in ("dir:0.1", "path:2")
        for keep in (0.05, 0.25)
        for name, base in (("fedavg", 0.3), ("fedcosr", 0.5))
    ]
    part = one(scarcity.draw, *runs)
    assert [axes.get_title(loc="left") for axes in part.figure.axes] == [
        "Digits, Dirichlet 0.1, N=4",
        "Digits, 2 classes per client, N=4",
    ]
    (line,) = lines(part.figure.axes[0], colours(*runs)["FedCoSR"])
    assert (list(line.get_xdata()), line.get_ydata()) == ([5, 25], pytest.approx([55, 75]))
    assert [text.get_text() for text in part.figure.axes[0].get_xticklabels()] == [
        "5\n(45)",
        "25\n(45)",
    ]
    assert legend(part) == ["FedCoSR", "FedAvg"]
    renamed = one(
        scarcity.draw, *runs, report={"titles": {"partitions": {"path:2": "two classes"}}}
    )
    assert renamed.figure.axes[1].get_title(loc="left") == "Digits, two classes, N=4"


def test_one_share_of_the_data_is_no_curve():
    assert drawn(scarcity.draw, made(data_fraction=0.1), made("moon", data_fraction=0.1)) == (
        {},
        [],
    )


def test_circles_have_areas_by_samples():
    part = one(distribution.draw, made(seed=1), made(seed=2))
    (axes,) = part.figure.axes
    (scatter,) = axes.collections
    places = scatter.get_offsets().astype(int).tolist()
    sizes = dict(zip(map(tuple, places), scatter.get_sizes(), strict=True))
    # nobody has class 2
    assert set(sizes) == {(client, label) for client in range(4) for label in range(2)}
    assert sizes[3, 0] / sizes[0, 0] == pytest.approx(4)  # 40 and 10 samples
    assert sizes[0, 1] / sizes[0, 0] == pytest.approx(2)
    assert "largest: 40" in axes.get_title(loc="left")
    assert "seed 1," in part.caption


def test_many_clients_have_the_whole_width():
    crowd = made(clients=50, words="digits dir:0.1 clients=50")
    parts, _ = drawn(distribution.draw, made(), crowd)
    assert list(parts) == ["distributions", "distributions-large"]
    assert parts["distributions-large"].figure.get_size_inches()[0] == style.PAGE


# Variants


def varied(**values: Any) -> Numbers:
    seed, accuracy = values.pop("seed", 0), values.pop("accuracy", 0.5)
    words = " ".join(f"{name}={value}" for name, value in values.items())
    return made("fedcosr", accuracy, seed, variant=words, hparams={**FEDCOSR, **values})


def test_values_of_hyperparameters_have_a_panel_each():
    runs = [varied(batch_size=b, accuracy=b / 100) for b in (16, 4, 64)]
    runs += [
        varied(alpha=a, accuracy=0.4 + a / 10 + seed / 10, seed=seed)
        for a in (0.5, 1.0)
        for seed in (0, 1)
    ]
    part = one(variation.draw, *runs)
    batch, alpha = part.figure.axes
    assert [text.get_text() for text in batch.get_xticklabels()] == ["4", "16", "64"]
    assert means(batch) == [pytest.approx([4, 16, 64])]
    assert (batch.get_xlabel(), alpha.get_xlabel()) == ("batch size", "alpha")
    assert means(alpha) == [pytest.approx([50, 55])]
    dots = [y for scatter in alpha.collections for _, y in scatter.get_offsets()]
    assert sorted(dots) == pytest.approx([45, 50, 55, 60])  # the seeds
    assert not [y for scatter in batch.collections for y in scatter.get_offsets()]


def means(axes: Any) -> list[Any]:
    """Accuracies of the large markers, by line."""
    return [line.get_ydata() for line in axes.get_lines() if len(line.get_ydata()) > 1]


def test_named_variants_are_next_to_each_other_in_every_scenario():
    runs = [
        made(
            "fedcosr",
            accuracy,
            variant=variant,
            partition=partition,
            hparams={**FEDCOSR, "alpha": alpha},
        )
        for partition, shift in (("dir:0.1", 0.0), ("path:2", 0.2))
        for variant, alpha, accuracy in (
            ("FedCoSR", 1.0, 0.6 + shift),
            ("w/o CRL", 0.0, 0.4 + shift),
        )
    ]
    part = one(variation.draw, *runs)
    (axes,) = part.figure.axes
    assert legend(part) == ["FedCoSR", "w/o CRL"]
    whole, without = (line for line in axes.get_lines() if line.get_marker() not in ("", "None"))
    assert whole.get_ydata() == pytest.approx([60, 80])
    assert without.get_ydata() == pytest.approx([40, 60])
    assert (whole.get_xdata() < without.get_xdata()).all()
    assert whole.get_color() != without.get_color()


def test_tau_by_hand():
    loss = np.array([0.0, 0.5, 2.0])
    assert tau_figure.tau({**FEDCOSR, "gamma": 2.0}, loss) == pytest.approx(
        [1, np.exp(-1), np.exp(-4)]
    )
    assert tau_figure.tau({**FEDCOSR, "tau": "linear"}, loss).tolist() == [1, 0.5, 0]
    assert (
        tau_figure.tau({**FEDCOSR, "tau": "fixed", "tau_value": 0.25}, loss).tolist() == [0.25] * 3
    )


def test_tau_is_drawn_next_to_the_accuracy_that_it_leads_to():
    runs = [varied(tau="fixed", tau_value=0.25, accuracy=0.3), varied(tau="linear", accuracy=0.4)]
    runs.append(varied(gamma=0.8, accuracy=0.6))
    part = one(tau_figure.draw, *runs)
    curves, results = part.figure.axes
    labels = ["fixed 0.25", "linear", "$\\gamma = 0.8$"]
    assert [text.get_text() for text in results.get_yticklabels()] == labels
    assert [container.lines[0].get_xdata()[0] for container in results.containers] == pytest.approx(
        [30, 40, 60]
    )
    found = {line.get_label(): line for line in curves.get_lines()}
    assert found[labels[2]].get_ydata()[100] == pytest.approx(np.exp(-0.8))  # L = 1
    shown = [container.lines[0].get_color() for container in results.containers]
    assert [found[label].get_color() for label in labels] == shown


def test_tau_has_no_figure_where_something_else_differs():
    runs = [varied(gamma=0.8), varied(gamma=0.4), varied(alpha=2.0)]
    assert drawn(tau_figure.draw, *runs) == ({}, [])
    others = [replace(made("fedavg"), planned=replace(run.planned, plugin="x")) for run in runs]
    assert drawn(tau_figure.draw, *others) == ({}, [])


# Representations


def stored(folder: Path, number: int = 24, **arrays: Any) -> Path:
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    y = np.arange(number) % 2
    z = random.normal(size=(number, 3)) + 20 * y[:, None]
    np.savez(
        folder / "representations.npz",
        **{"x": random.integers(0, 255, (number, 1, 8, 8)), "y": y, "z": z, **arrays},
    )
    return folder


def test_representations_have_a_panel_for_the_raw_data_and_every_method(tmp_path: Path):
    runs = [
        made("fedavg", representations=6, folder=stored(tmp_path / "a")),
        made("fedcosr", representations=6, folder=stored(tmp_path / "b")),
        made("fedgh", representations=6, folder=stored(tmp_path / "c", z=np.full((24, 3), np.nan))),
        made("moon", representations=6, folder=tmp_path / "nothing"),
    ]
    parts, notes = drawn(embedding.draw, *runs)
    part = parts["representations"]
    panels = [axes for axes in part.figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["raw data", "FedAvg", "FedCoSR"]
    assert all(len(axes.collections[0].get_offsets()) == 24 for axes in panels)
    assert legend(part) == ["0", "1"]
    points = np.asarray(panels[1].collections[0].get_offsets())
    assert np.array_equal(
        points, embedding.embedded(np.load(tmp_path / "a" / "representations.npz")["z"])
    )
    first, second = points[0::2], points[1::2]  # two clusters, far apart
    assert (
        np.linalg.norm(first.mean(0) - second.mean(0))
        > np.linalg.norm(first - first.mean(0), axis=1).max()
    )
    assert [note[:17] for note in notes] == ["No t-SNE of FedGH", "No t-SNE of MOON "]


def test_at_most_a_thousand_points_evenly_over_all(tmp_path: Path):
    folder = stored(tmp_path / "many", 2500, client=np.repeat(np.arange(25), 100))
    arrays = embedding.read(folder / "representations.npz")
    assert len(arrays["y"]) == 1000
    everything = np.load(folder / "representations.npz")["z"]
    rows = [int(np.flatnonzero((everything == z).all(1))[0]) for z in arrays["z"]]
    assert np.bincount(np.array(rows) // 100).tolist() == [40] * 25


# All of them


def main(**options: Any) -> list[Numbers]:
    return [
        made(name, 0.4 + place / 10, seed, partition=partition, cost=(1.0 + place, 2.0), **options)
        for partition in ("dir:0.1", "path:2")
        for place, name in enumerate(("fedavg", "moon", "fedcosr"))
        for seed in (0, 1)
    ]


def test_figures_of_methods_over_scenarios():
    parts, notes = kinds.figures(experiment(*main()), Choice())
    assert [part.name for part in parts] == [
        "curves-digits-dir-0-1",
        "curves-digits-path-2",
        "efficiency-digits-dir-0-1",
        "efficiency-digits-path-2",
        "ranks",
        "distributions",
    ]
    assert notes == []
    assert all("Digits" in part.caption and "scale small" in part.caption for part in parts)


def test_a_method_has_the_same_colour_in_all_figures():
    runs = [
        made(
            method,
            accuracy,
            data_fraction=keep,
            scarce_clients=2,
            words=f"digits dir:0.1 data_fraction={keep}",
        )
        for method, accuracy in (("moon", 0.6), ("fedper", 0.5))
        for keep in (0.1, 0.2)
    ]
    parts, _ = kinds.figures(experiment(*runs), Choice())
    names = {part.name.split("-")[0] for part in parts}
    assert names == {"curves", "scarcity", "clients", "efficiency", "distributions"}
    shown = colours(*runs)
    for part in parts:
        if part.name.split("-")[0] != "distributions":
            handles = part.figure.legends[0].legend_handles
            found = [handle.get_color() for handle in handles]
            assert (
                dict(zip([text.split("  ")[0] for text in legend(part)], found, strict=True))
                == shown
            )
    curves = next(part for part in parts if part.name.startswith("curves")).figure.axes[0]
    assert (
        lines(curves, shown["MOON"])[0].get_ydata()[-1]
        > lines(curves, shown["FedPer"])[0].get_ydata()[-1]
    )


def test_captions_name_methods_whose_runs_are_of_an_earlier_version():
    runs = [made("fedavg"), replace(made("moon"), outdated=True)]
    for kind in (learning.draw, pareto.draw):
        assert "From an earlier version of the method: MOON." in one(kind, *runs).caption


def test_a_note_says_that_scenarios_are_too_few_for_ranks():
    parts, notes = drawn(critical_difference.draw, made("fedavg"), made("moon"), made("fedcosr"))
    assert parts == {}
    assert notes == [
        "No critical-difference diagram: Friedman's test needs 2 scenarios that all methods have,"
        " there are 1."
    ]


@pytest.mark.parametrize(
    "states", [("finished", "missing"), ("failed", "finished"), ("running", "missing")]
)
def test_half_a_sweep(states: tuple[str, str]):
    """Every other run is not there, whatever the kind; nothing breaks, and captions say so."""
    runs = [
        made(
            name,
            0.5,
            seed,
            status=states[place % 2],
            data_fraction=keep,
            scarce_clients=1,
            words=f"digits dir:0.1 data_fraction={keep}",
        )
        for keep in (0.1, 0.2)
        for place, name in enumerate(("fedavg", "moon", "fedper"))
        for seed in (0, 1)
    ]
    parts, notes = kinds.figures(experiment(*runs), Choice())
    assert all("Not counted: " in part.caption for part in parts if part.name != "distributions")
    assert {"curves-digits-dir-0-1-data-fraction-0-1", "distributions"} <= {
        part.name for part in parts
    }
    assert any(note.startswith("No critical-difference diagram") for note in notes)
    assert all(part.figure.axes for part in parts)


def test_a_sweep_that_has_not_started_has_notes_only():
    parts, notes = kinds.figures(experiment(*main(status="missing")), Choice())
    assert parts == []
    assert (
        "No learning curves of digits, Dirichlet 0.1, N=4: no run has been evaluated after a round."
        in notes
    )


def everything() -> list[Numbers]:
    """Runs that have a figure of every kind but representations."""
    runs = [
        made(
            name,
            base + fraction + seed / 50,
            seed,
            data_fraction=fraction,
            scarce_clients=1,
            words=f"digits dir:0.1 data_fraction={fraction}",
        )
        for fraction in (0.1, 0.2)
        for name, base in (("fedavg", 0.3), ("moon", 0.4))
        for seed in (0, 1)
    ]
    return runs + [varied(alpha=a, seed=seed) for a in (0.5, 1.0) for seed in (0, 1)]


def test_files_are_the_same_whenever_they_are_made():
    def files() -> dict[str, list[bytes]]:
        parts, _ = kinds.figures(experiment(*everything()), Choice())
        drawn = {part.name.split("-")[0]: part.figure for part in parts}  # one of a kind
        return {name: [style.rendered(one, form) for form in FORMS] for name, one in drawn.items()}

    first = files()
    assert {*first} == {*("curves", "scarcity", "clients", "values", "efficiency", "distributions")}
    begin = [b"%PDF", b"\x89PNG", b"<?xml"]
    for name, contents in first.items():
        assert all(content.startswith(b) for content, b in zip(contents, begin, strict=True)), name
    assert first == files()


def test_a_pdf_has_no_date_and_fonts_that_publishers_take():
    content = style.rendered(one(learning.draw, made()).figure, "pdf")
    assert b"CreationDate" not in content
    assert b"/Type3" not in content


def test_files_do_not_depend_on_the_users_settings_and_leave_them_alone():
    plain = style.rendered(one(pareto.draw, *pair()).figure, "png")
    own = {"font.size": 20, "axes.facecolor": "red", "lines.linewidth": 9, "font.family": "serif"}
    with matplotlib.rc_context(own):
        before = dict(matplotlib.rcParams)
        assert style.rendered(one(pareto.draw, *pair()).figure, "png") == plain
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("kind", [learning.draw, pareto.draw])
def test_a_figure_is_laid_out_once_and_drawn_once_for_each_file(
    kind: Any, monkeypatch: pytest.MonkeyPatch
):
    part = one(kind, made(), made("moon", 0.7))
    assert "figure" not in vars(part)  # nothing is drawn before it is asked for
    figure = part.figure
    draws = []
    monkeypatch.setattr(figure, "draw", lambda *how: draws.append(type(figure).draw(figure, *how)))
    found = []
    forms: tuple[tuple[Any, bytes], ...] = (("png", b"\x89PNG"), ("pdf", b"%PDF"))
    for form, begin in forms:
        assert style.rendered(figure, form).startswith(begin)
        found.append([axes.get_position().bounds for axes in figure.axes])
    assert len(draws) == 2
    # on the left, its label beside it; 0.125 before
    assert found[0] == found[1] and found[0][0][0] < 0.1


def test_drawing_packages_are_imported_when_something_is_drawn():
    """A report that shows tables only does not wait for them."""
    heavy = {"matplotlib", "seaborn", "sklearn", "pandas", "scipy"}
    files = [*Path(kinds.__file__).parent.glob("*.py"), Path(tau_figure.__file__)]
    assert len(files) > 10
    for path in files:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & heavy, path.name


@pytest.mark.parametrize("form", FORMS)
def test_a_picture_of_a_partition_is_the_same_whenever_it_is_drawn(tmp_path: Path, form: str):
    counts = np.array([[30, 0, 7], [0, 400, 1]])
    for name in ("first", "second"):
        distribution.picture(counts, "Digits, IID, 2 clients", tmp_path / f"{name}.{form}")
    first = (tmp_path / f"first.{form}").read_bytes()
    assert first == (tmp_path / f"second.{form}").read_bytes()
    if form == "png":
        with Image.open(io.BytesIO(first)) as found:
            assert found.size == (int(300 * (2.4 + 1.4)), int(300 * (1.6 + 0.7)))
