"""All figures of an experiment: each kind is drawn where its runs have what it shows."""

import dataclasses
from collections.abc import Iterator

from pflbench.errors import UserError
from pflbench.papers.fedcosr import tau_figure
from pflbench.report.figures import (
    circles,
    embedding,
    learning,
    pareto,
    per_client,
    scarcity,
    style,
    variation,
)
from pflbench.report.grouping.overview import Overview, overview
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.render.parts import FigurePart


def figures(experiment: Experiment, choice: Choice) -> tuple[list[FigurePart], list[str]]:
    """Figures with names that differ, and notes on what is not there."""
    seen = overview(experiment, choice)
    parts: dict[str, FigurePart] = {}
    notes = []
    for kind in KINDS:
        for found in kind(seen):
            if isinstance(found, str):
                notes.append(found)
            else:
                name, number = found.name, 1
                while name in parts:
                    number += 1
                    name = f"{found.name}-{number}"
                parts[name] = dataclasses.replace(found, name=name)
    return list(parts.values()), notes


def ranks(seen: Overview) -> Iterator[FigurePart | str]:
    """The critical-difference diagram of methods (or variants) over settings, where there are enough."""
    import pandas as pd

    from pflbench.report.stats import critical

    if len({group.label for group in seen.groups}) < 2:
        return
    rows = [
        (group.label, group.setting.key, run.planned.config["seed"], accuracy)
        for group in seen.groups
        for run, accuracy in zip(group.done, group.accuracies, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["method", "setting", "seed", "accuracy"])
    found = critical.friedman(frame)
    if not isinstance(found, critical.Ranking):
        yield f"No critical-difference diagram: {found.reason}."
        return
    try:
        figure = critical.diagram(found, style.PAGE)
    except UserError as error:
        yield f"No critical-difference diagram: {error}."
        return
    data = ", ".join(dict.fromkeys(group.setting.data for group in seen.groups))
    text = f"{critical.caption(found)} Ranks are by {seen.measure}, mean over seeds. Data: {data}."
    yield FigurePart(
        "ranks", "Critical differences", seen.caption(text, seen.groups), lambda: figure
    )


KINDS = (
    learning.draw,
    scarcity.draw,
    per_client.draw,
    variation.draw,
    tau_figure.draw,
    pareto.draw,
    ranks,
    embedding.draw,
    circles.draw,
)
