"""An experiment as figures see it: runs that differ in their seed only are one group, with a label and a look."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pflbench.report.figures import style
from pflbench.report.figures.style import Look
from pflbench.report.grouping import layout
from pflbench.report.grouping.headings import Heading
from pflbench.report.load.runs import Choice, Experiment, Floats, Numbers
from pflbench.report.tables.captions import span

ROUND = {
    "last": "in the last round",
    "last10": "in the last ten evaluated rounds (mean)",
    "best": "in the round that is best on the test samples, which is optimistic",
    "validation": "in the round that is best on held-out training samples",
}
LATER = ("missing", "running")
NAMED = 6  # methods with runs to come that a caption names; of more it says the number


@dataclass(frozen=True)
class Group:
    """A line or a point of a figure."""

    method: str  # title
    variant: str  # empty: the method as it is
    setting: Heading
    label: str  # in legends: the method, its variant, or both
    look: Look
    runs: tuple[Numbers, ...]  # one a seed
    choice: Choice

    @property
    def done(self) -> list[Numbers]:
        """The runs whose numbers count."""
        return layout.counted(self.runs)

    @property
    def accuracies(self) -> Floats:
        """(seeds,) mean over clients in percent."""
        return np.array([layout.accuracy(run, self.choice) for run in self.done], dtype=float)

    @property
    def accuracy(self) -> float:
        """Its mean over seeds; nan without any."""
        return float(self.accuracies.mean()) if self.done else float("nan")

    @property
    def std(self) -> float:
        """Over clients in percent, mean over seeds."""
        return (
            float(np.mean([layout.client_std(run) for run in self.done]))
            if self.done
            else float("nan")
        )

    @property
    def config(self) -> dict[str, Any]:
        """Of its runs, but for the seed."""
        return self.runs[0].planned.config

    @property
    def state(self) -> str:
        """Empty if a run counts, else how its first one stands."""
        return "" if self.done else _state(self.runs[0])


@dataclass(frozen=True)
class Overview:
    """All groups: setting by setting, and there in the order of the tables."""

    groups: tuple[Group, ...]
    scale: str
    choice: Choice

    @property
    def settings(self) -> dict[Heading, list[Group]]:
        """The groups of every setting."""
        found: dict[Heading, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.setting, []).append(group)
        return found

    def name(self, kind: str, setting: Heading) -> str:
        """Of a figure that there is one of for every setting: safe for files."""
        slug = re.sub("[^a-z0-9]+", "-", setting.key.lower()).strip("-")[:60]
        return f"{kind}-{slug}" if len(self.settings) > 1 else kind

    @property
    def moment(self) -> str:
        """When an accuracy is measured, for captions."""
        own = (
            "each method at its own point"
            if len({group.method for group in self.groups}) > 1
            else "at the method's point"
        )
        return f"{ROUND[self.choice.round]}, {f'at the point {self.choice.point}' if self.choice.point else own}"

    @property
    def measure(self) -> str:
        """What an accuracy is, for captions."""
        return f"mean accuracy over clients{', by test samples,' if self.choice.weighted else ''} {self.moment}"

    def caption(self, text: str, groups: Iterable[Group]) -> str:
        """The text, then seeds, scale, and the runs that are not counted."""
        shown = list(groups)
        number = span(len(group.done) for group in shown if group.done)
        scale = f", scale {self.scale}" if self.scale else ""
        return " ".join(
            filter(
                None,
                [text, f"{number} seed{'' if number == '1' else 's'}{scale}.", _lacking(shown)],
            )
        )


def overview(experiment: Experiment, choice: Choice) -> Overview:
    """The groups are the cells of the tables."""
    cells = list(layout.lay_out(experiment, ()).places())
    named = {row.title: _split(row.title) for _, row, _ in cells}
    variants: dict[str, list[str]] = {}
    for method, variant in named.values():
        variants.setdefault(method, []).append(variant)
    looks = {method: _looks(method, found) for method, found in variants.items()}
    groups = []
    for column, row, runs in cells:
        method, variant = named[row.title]
        label = row.title if len(looks) > 1 else variant or method
        groups.append(Group(method, variant, column, label, looks[method][variant], runs, choice))
    scales = {str(run.about["scale"]) for run in experiment.runs if run.about.get("scale")}
    return Overview(tuple(groups), experiment.plan.scale or ", ".join(sorted(scales)), choice)


def ranked(groups: Iterable[Group]) -> list[Group]:
    """By accuracy, best first; those without one at the end."""
    return sorted(groups, key=lambda group: -group.accuracy if group.done else 1.0)


def _split(title: str) -> tuple[str, str]:
    """Method and variant of a row."""
    method, _, variant = title.partition(": ")
    return method, variant


def _looks(method: str, variants: Sequence[str]) -> dict[str, Look]:
    """Where a method has several variants, its own look is that of the one without a name."""
    own = {
        variant: style.look(method) for variant in variants if variant == "" or len(variants) == 1
    }
    return {**style.variant_looks([variant for variant in variants if variant not in own]), **own}


def _state(run: Numbers) -> str:
    return "without an accuracy" if run.status == "finished" else run.status


def _lacking(groups: Sequence[Group]) -> str:
    """Runs that do not count: what went wrong by name, what is still to come by name or number."""
    planned: Counter[str] = Counter()
    lacking: dict[str, Counter[str]] = {}
    for group in groups:
        planned[group.label] += len(group.runs)
        missed = [_state(run) for run in group.runs if not layout.counted([run])]
        lacking.setdefault(group.label, Counter()).update(missed)
    to_come = sum(states[state] for states in lacking.values() for state in LATER)
    if sum(bool(states[state]) for states in lacking.values() for state in LATER) > NAMED:
        lacking = {
            label: Counter({s: n for s, n in states.items() if s not in LATER})
            for label, states in lacking.items()
        }
        rest = [f"{to_come} of all {sum(planned.values())} runs, which are not done yet"]
    else:
        rest = []
    told = [
        f"{label} ({', '.join(f'{number} {state}' for state, number in states.items())} of {planned[label]})"
        for label, states in lacking.items()
        if states
    ]
    return f"Not counted: {', '.join(told + rest)}." if told + rest else ""
