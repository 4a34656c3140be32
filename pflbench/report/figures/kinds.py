"""The kinds of figures; each is drawn where an experiment's runs have what it shows."""

import dataclasses
from collections.abc import Iterator

from pflbench.papers import papers
from pflbench.report.figures import (
    critical_difference,
    distribution,
    embedding,
    learning,
    pareto,
    per_client,
    scarcity,
    variation,
)
from pflbench.report.grouping.overview import Overview, overview
from pflbench.report.grouping.selection import is_shown
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.render.parts import FigurePart


def figures(experiment: Experiment, choice: Choice) -> tuple[list[FigurePart], list[str]]:
    """The figures of an experiment, with names that differ, and notes on what is not there."""
    parts: dict[str, FigurePart] = {}
    notes = []
    for found in _all(_chosen(overview(experiment, choice))):
        if isinstance(found, str):
            notes.append(found)
            continue
        name, number = found.name, 1
        while name in parts:
            number += 1
            name = f"{found.name}-{number}"
        parts[name] = dataclasses.replace(found, name=name)
    return list(parts.values()), notes


def _chosen(seen: Overview) -> Overview:
    """With the methods that figures are to show, which look as they do among all."""
    options = seen.options
    wanted = dataclasses.replace(options, methods=options.figures.methods or options.methods)
    groups = tuple(group for group in seen.groups if is_shown(group.runs[0], wanted))
    return dataclasses.replace(seen, groups=groups)


def _all(seen: Overview) -> Iterator[FigurePart | str]:
    yield from learning.draw(seen)
    yield from scarcity.draw(seen)
    yield from per_client.draw(seen)
    yield from variation.draw(seen)
    for paper in papers():
        yield from paper.figures(seen)
    yield from pareto.draw(seen)
    yield from critical_difference.draw(seen)
    yield from embedding.draw(seen)
    yield from distribution.draw(seen)
