"""Accuracy per client where some have less data than the others."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.grouping.layout import scarce_of
from pflbench.report.grouping.overview import Group, Overview, best, ranked
from pflbench.report.load.runs import Floats, mean
from pflbench.report.render.parts import FigurePart

MOST = 8  # methods that fit next to each other
MARGIN = 0.96  # inches beside the axes
FIT, ROWS = 10, 3  # clients of a row of a narrow figure, unless there are more rows than that
SPREAD = 0.68  # of a client's place that its methods take


def draw(seen: Overview) -> Iterator[FigurePart | str]:
    """A figure for every scenario with scarce clients among others."""
    for scenario, groups in seen.scenarios.items():
        config = groups[0].config
        scarce = scarce_of(config)
        if not scarce:
            continue
        known = [group for group in ranked(groups) if group.finished]
        if not known:
            yield f"No accuracies per client of {scenario.line}: no run has an accuracy."
            continue
        own = "" if config["partition_seed"] is not None else "; every seed has its own partition"
        text = (
            f"Accuracy per client on {scenario.line} {seen.moment}. Scarce clients, in red, have"
            f" {100 * config['data_fraction']:g} % of their training data. Points are means over"
            f" seeds, lines go from the lowest to the highest seed{own}. In the legend: mean and"
            " std over all clients; mean over scarce clients."
        )
        if len(known) > MOST:
            own = ", the proposed one among them," if any(g.proposed for g in known) else ""
            text += f" Only the best {MOST} of {len(known)} methods{own} are shown."
        make = partial(_figure, best(known, MOST), config["clients"], scarce)
        name, title = seen.name("clients", scenario), f"Accuracy per client, {scenario.line}"
        text = seen.caption(text, groups)
        yield FigurePart(name, title, text, make, seen.width(style.PAGE))


def per_client(group: Group) -> Floats:
    """(seeds, clients) percent."""
    return 100 * np.stack([run.clients for run in group.finished])


@style.themed
def _figure(groups: Sequence[Group], number: int, scarce: range, width: float) -> Any:
    """Clients side by side; in a narrow figure in up to three rows."""
    wide = width >= style.WIDE
    rows = 1 if wide else min(ROWS, -(-number // FIT))
    names = {_label(group, scarce): group.look for group in groups}
    columns = min(3, style.legend_columns(list(names), width))
    height = 2.5 if wide else 1.5 * rows + style.LINE * -(-len(names) // columns)
    figure, panels = style.canvas(width, height, rows, sharey=True)
    share = -(-number // rows)
    for place, axes in enumerate(panels):
        clients = range(place * share, min(number, (place + 1) * share))
        _panel(axes, groups, clients, scarce, width - MARGIN)
    panels[-1].set_xlabel("client")
    how: dict[str, Any] = {"lines": False, "markers": True, "ncols": columns, "columnspacing": 1.5}
    style.legend(figure, names, "upper center", **how)
    return figure


def _panel(
    axes: Any, groups: Sequence[Group], clients: range, scarce: range, inches: float
) -> None:
    """Of some clients, on axes of that width."""
    for client in clients[::2]:
        axes.axvspan(client - 0.5, client + 0.5, color="0.96", linewidth=0, zorder=0)
    _points(axes, groups, clients, inches)
    axes.set(xlabel="", ylabel="accuracy (%)", xlim=(clients[0] - 0.6, clients[-1] + 0.6))
    axes.grid(axis="x", visible=False)
    ticks = [clients[place] for place in style.ticks(len(clients), inches)]
    axes.set_xticks(ticks, [str(client) for client in ticks])
    for label, client in zip(axes.get_xticklabels(), ticks, strict=True):
        label.set_color(style.SCARCE if client in scarce else "black")


def _points(axes: Any, groups: Sequence[Group], clients: range, inches: float) -> None:
    import pandas as pd
    import seaborn as sns

    rows = [
        (group.label, client, accuracy)
        for group in groups
        for seed in per_client(group)
        for client, accuracy in enumerate(seed)
        if client in clients
    ]
    looks = {group.label: group.look for group in groups}
    sns.pointplot(
        pd.DataFrame(rows, columns=["label", "client", "accuracy"]),
        x="client",
        y="accuracy",
        hue="label",
        palette={label: look.colour for label, look in looks.items()},
        markers=[look.marker for look in looks.values()],
        markersize=min(4.0, 72 * inches / len(clients) / (len(groups) + 1)),  # none touches another
        markeredgewidth=0,
        dodge=SPREAD if len(groups) > 1 else False,
        linestyle="none",
        errorbar=style.RANGE,
        err_kws={"linewidth": 0.6, "alpha": 0.6},
        native_scale=True,
        legend=False,
        ax=axes,
    )
    style.even_sizes(axes)


def _label(group: Group, scarce: range) -> str:
    means = mean(per_client(group).T)
    few = float(mean(means[scarce.start :]))
    return f"{group.label}  {group.accuracy:.1f} $\\pm$ {group.std:.1f}; {few:.1f}"
