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
from pflbench.report.grouping import selection
from pflbench.report.grouping.overview import Overview, overview
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.render.parts import FigurePart
from pflbench.report.words import slug


def figures(experiment: Experiment, choice: Choice) -> tuple[list[FigurePart], list[str]]:
    """The figures of an experiment, with names that differ, and notes on what is not there."""
    parts: dict[str, FigurePart] = {}
    notes = _lacking(experiment)
    for found in _all(overview(_chosen(experiment), choice)):
        if isinstance(found, str):
            notes.append(found)
            continue
        name, number = slug(found.name), 1
        while name in parts:
            number += 1
            name = f"{slug(found.name)}-{number}"
        parts[name] = dataclasses.replace(found, name=name)
    return list(parts.values()), notes


def _chosen(experiment: Experiment) -> Experiment:
    """With the methods that figures are to show; few have colours of their own, also of many."""
    plan = experiment.plan
    methods = plan.report.figures.methods or plan.report.methods
    options = dataclasses.replace(plan.report, methods=methods)
    return dataclasses.replace(experiment, plan=dataclasses.replace(plan, report=options))


def _lacking(experiment: Experiment) -> list[str]:
    called = [selection.method_names(run) for run in experiment.runs]
    asked = experiment.plan.report.figures.methods
    missing = [n for n in asked if not any(selection.is_called(n, names) for names in called)]
    return [f"Not in the figures, since no run has it: method {name!r}." for name in missing]


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
