"""An experiment as figures show it: runs that differ in the seed only are one group, with a label
and a look.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pflbench.output import plural
from pflbench.records.report_options import ReportOptions
from pflbench.report import styles
from pflbench.report.figures import style
from pflbench.report.figures.style import Look
from pflbench.report.grouping import layout
from pflbench.report.grouping.headings import Heading
from pflbench.report.load.runs import Choice, Experiment, Floats, Numbers
from pflbench.report.words import ROUND, span

LATER = ("missing", "running")
NAMED = 6  # methods with unfinished runs that a caption names; of more it says the number


@dataclass(frozen=True)
class Group:
    """A line or a point of a figure."""

    method: str  # title
    variant: str  # empty: the method as it is
    scenario: Heading
    label: str  # in legends: the method, its variant, or both
    look: Look
    runs: tuple[Numbers, ...]  # one per seed
    choice: Choice
    proposed: bool = False  # of the method that the report is about

    @property
    def finished(self) -> list[Numbers]:
        """The runs whose numbers count."""
        return layout.counted(self.runs)

    @property
    def accuracies(self) -> Floats:
        """(seeds,) mean over clients in percent."""
        return np.array([layout.accuracy(run, self.choice) for run in self.finished], dtype=float)

    @property
    def accuracy(self) -> float:
        """Its mean over seeds; nan without any."""
        return float(self.accuracies.mean()) if self.finished else float("nan")

    @property
    def std(self) -> float:
        """Over clients in percent, mean over seeds; nan without any."""
        found = [layout.client_std(run) for run in self.finished]
        return float(np.mean(found)) if found else float("nan")

    @property
    def config(self) -> dict[str, Any]:
        """Of its runs, but for the seed."""
        return self.runs[0].planned.config

    @property
    def state(self) -> str:
        """Empty if a run counts, else the state of its first one."""
        return "" if self.finished else _state(self.runs[0])


@dataclass(frozen=True)
class Overview:
    """All groups: scenario by scenario, and there in the order of the tables."""

    groups: tuple[Group, ...]
    scale: str
    choice: Choice
    looks: Mapping[str, Look]  # of methods, by title
    options: ReportOptions = field(default_factory=ReportOptions)

    @property
    def scenarios(self) -> dict[Heading, list[Group]]:
        """The groups of every scenario."""
        found: dict[Heading, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.scenario, []).append(group)
        return found

    def width(self, usual: float) -> float:
        """Inches of a figure: as the report asks, or as usual for its kind."""
        return self.options.figures.width or usual

    def name(self, kind: str, scenario: Heading) -> str:
        """Of a figure that every scenario has one of: safe for files."""
        slug = re.sub("[^a-z0-9]+", "-", scenario.key.lower()).strip("-")[:60]
        return f"{kind}-{slug}" if len(self.scenarios) > 1 else kind

    @property
    def moment(self) -> str:
        """When an accuracy is measured, for captions."""
        where = "at the method's evaluation point"
        if self.choice.point:
            where = f"at the evaluation point {self.choice.point}"
        elif len({group.method for group in self.groups}) > 1:
            where = "each method at its own evaluation point"
        return f"{ROUND[self.choice.round]}, {where}"

    @property
    def measure(self) -> str:
        """What an accuracy is, for captions."""
        weights = ", weighted by test samples," if self.choice.weighted else ""
        return f"mean accuracy over clients{weights} {self.moment}"

    def caption(self, text: str, groups: Iterable[Group]) -> str:
        """The text, then seeds, scale, the runs that are not counted, and those of earlier versions
        of methods.
        """
        shown = list(groups)
        number = span(len(group.finished) for group in shown if group.finished)
        scale = f", scale {self.scale}" if self.scale else ""
        seeds = f"{plural(number, 'seed')}{scale}."
        return " ".join(filter(None, [text, seeds, _not_counted(shown), _outdated(shown)]))


def overview(experiment: Experiment, choice: Choice) -> Overview:
    """The groups are the cells of the tables."""
    laid_out = layout.lay_out(experiment, ())
    variants: dict[str, list[str]] = {}
    for row in laid_out.rows:
        variants.setdefault(row.method, []).append(row.variant)
    methods = _method_looks(laid_out)
    looks = {name: _variant_looks(methods[name], found) for name, found in variants.items()}
    groups = []
    for column, row, runs in laid_out.places():
        label = row.title if len(variants) > 1 else row.variant or row.method
        look = looks[row.method][row.variant]
        own = row.kind == "proposed"
        groups.append(Group(row.method, row.variant, column, label, look, runs, choice, own))
    scales = {str(run.about["scale"]) for run in experiment.runs if run.about.get("scale")}
    scale = experiment.plan.scale or ", ".join(sorted(scales))
    return Overview(tuple(groups), scale, choice, methods, experiment.plan.report)


def best(groups: Sequence[Group], number: int) -> list[Group]:
    """The first so many; the proposed method is always among them, in the last place if need be."""
    rest = [group for group in groups[number:] if group.proposed]
    return [*groups[: number - len(rest)], *rest]


def ranked(groups: Iterable[Group]) -> list[Group]:
    """By accuracy, best first; those without one at the end."""
    return sorted(groups, key=lambda group: -group.accuracy if group.finished else 1.0)


def _method_looks(laid_out: layout.Layout) -> dict[str, Look]:
    """Those of a paper's figures in its style, if it has all methods and proposes the same one."""
    methods = list(dict.fromkeys(row.method for row in laid_out.rows))
    paper = styles.paper_of(laid_out.options)
    own = paper is not None and laid_out.proposed in ("", paper.proposed)
    if paper and own and set(methods) <= set(paper.looks):
        return {method: Look(*paper.looks[method]) for method in methods}
    return style.looks(methods, laid_out.proposed)


def _variant_looks(own: Look, variants: Sequence[str]) -> dict[str, Look]:
    """Where a method has several variants, its own look is that of the one without a name."""
    named = [variant for variant in variants if variant and len(variants) > 1]
    looks = style.variant_looks(named, own.colour if len(named) < len(variants) else "")
    return {variant: looks.get(variant, own) for variant in variants}


def _state(run: Numbers) -> str:
    return "without an accuracy" if run.status == "finished" else run.status


def _outdated(groups: Sequence[Group]) -> str:
    labels = dict.fromkeys(group.label for group in groups if layout.outdated(group.runs))
    return f"From an earlier version of the method: {', '.join(labels)}." if labels else ""


def _not_counted(groups: Sequence[Group]) -> str:
    """Runs that do not count: failures by name, unfinished runs by name or number."""
    planned: Counter[str] = Counter()
    lacking: dict[str, Counter[str]] = {}
    for group in groups:
        planned[group.label] += len(group.runs)
        found = [_state(run) for run in group.runs if not run.has_numbers]
        lacking.setdefault(group.label, Counter()).update(found)
    unfinished = [states[state] for states in lacking.values() for state in LATER if states[state]]
    rest = []
    if len(unfinished) > NAMED:
        total = sum(planned.values())
        rest = [f"{sum(unfinished)} of all {total} runs, which are not finished yet"]
        for states in lacking.values():
            for state in LATER:
                states.pop(state, None)
    named = []
    for label, states in lacking.items():
        if states:
            numbers = ", ".join(f"{number} {state}" for state, number in states.items())
            named.append(f"{label} ({numbers} of {planned[label]})")
    return f"Not counted: {', '.join(named + rest)}." if named + rest else ""
