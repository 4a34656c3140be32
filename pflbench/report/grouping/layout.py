"""An experiment in rows and columns: methods, scenarios, and in a cell one run per seed."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pflbench.methods.files import plain
from pflbench.papers import papers
from pflbench.papers.paper import Paper
from pflbench.records.plan import Plan
from pflbench.records.report_options import ReportOptions
from pflbench.report import styles
from pflbench.report.grouping import selection
from pflbench.report.grouping.headings import Heading, differing, headings, value
from pflbench.report.load.runs import OTHERS, Choice, Experiment, Numbers, mean
from pflbench.report.render.marks import Row, State
from pflbench.report.render.notation import Style

PROPOSED, OTHER = "proposed", "other"  # groups of rows that no paper has


@dataclass(frozen=True)
class Layout:
    """An experiment as its tables show it."""

    plan: Plan
    columns: tuple[Heading, ...]
    rows: tuple[Row, ...]
    cells: Mapping[tuple[Row, str], tuple[Numbers, ...]]  # by row and key of the column
    twice: tuple[Numbers, ...] = ()  # runs that are there already, from another folder: left out
    lacking: tuple[str, ...] = ()  # what the report should show and no run has

    @property
    def options(self) -> ReportOptions:
        return self.plan.report

    @property
    def style(self) -> Style:
        """Of the table of accuracies."""
        return styles.style_of(self.options)

    @property
    def runs(self) -> list[Numbers]:
        return [run for runs in self.cells.values() for run in runs]

    def cell(self, row: Row, column: str) -> tuple[Numbers, ...]:
        return self.cells.get((row, column), ())

    def column(self, key: str) -> list[Numbers]:
        """All runs of a scenario."""
        return [run for (_, column), runs in self.cells.items() if column == key for run in runs]

    def places(self) -> Iterator[tuple[Heading, Row, tuple[Numbers, ...]]]:
        """Every planned cell: scenario by scenario, and there method by method."""
        for column in self.columns:
            for row in self.rows:
                if runs := self.cell(row, column.key):
                    yield column, row, runs

    @property
    def proposed(self) -> str:
        """The title of the proposed method; "" where there is none."""
        return next((row.title for row in self.rows if row.kind == "proposed"), "")


def counted(runs: Sequence[Numbers]) -> list[Numbers]:
    """The runs with an accuracy to show."""
    return [run for run in runs if run.has_numbers]


def outdated(runs: Sequence[Numbers]) -> bool:
    """Whether the numbers of a cell are of an earlier version of the method."""
    return any(run.outdated for run in counted(runs))


def state(runs: Sequence[Numbers]) -> State:
    """Of a cell: all of its runs count, some do, or none does and why."""
    if done := len(counted(runs)):
        return "ok" if done == len(runs) else "partial"
    there = {run.status for run in runs}
    states: tuple[State, ...] = ("damaged", "diverged", "failed")
    return next((state for state in states if state in there), "missing")


def seeds(runs: Sequence[Numbers]) -> str:
    """How many of the planned ones a number is of."""
    done = len(counted(runs))
    return f"{done}" if done == len(runs) else f"{done} of {len(runs)}"


def accuracy(run: Numbers, choice: Choice) -> float:
    """Mean over clients, in percent."""
    return 100 * float(mean(run.clients, run.sizes("test") if choice.weighted else None))


def client_std(run: Numbers) -> float:
    """Over clients, each counting once, in percent."""
    return 100 * float(np.nanstd(run.clients))


def seed_std(values: Sequence[float]) -> float:
    """Over seeds, as a sample; nan of a single one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def run_frame(layout: Layout, choice: Choice) -> pd.DataFrame:
    """method, scenario, seed, accuracy (percent) of every run that counts, as `stats` takes it."""
    rows = [
        (row.title, column.key, run.planned.config["seed"], accuracy(run, choice))
        for column, row, runs in layout.places()
        for run in counted(runs)
    ]
    return pd.DataFrame(rows, columns=["method", "scenario", "seed", "accuracy"])


def client_frame(layout: Layout) -> pd.DataFrame:
    """method, scenario, seed, client, accuracy (percent), scarce (see `scarce_of`)."""
    rows = []
    for column, row, runs in layout.places():
        for run in counted(runs):
            config = run.planned.config
            scarce = scarce_of(config)
            rows += [
                (row.title, column.key, config["seed"], client, 100 * float(x), client in scarce)
                for client, x in enumerate(run.clients)
            ]
    names = ["method", "scenario", "seed", "client", "accuracy", "scarce"]
    return pd.DataFrame(rows, columns=names)


def scarce_of(config: Mapping[str, Any]) -> range:
    """The last clients of a run, where they have a part of their data and the others all."""
    clients = int(config["clients"])
    scarce = min(config["scarce_clients"] or 0, clients) if config["data_fraction"] < 1 else 0
    return range(clients - scarce, clients)


def lay_out(experiment: Experiment, everything: Sequence[Experiment]) -> Layout:
    """Methods and scenarios as the report's options have them, else in the plan's order; in a
    paper's style methods in the paper's order, others after them. The proposed method is last.
    """
    options = experiment.plan.report
    paper = styles.paper_of(options)
    every, twice = _once(experiment.runs)
    known = _columns(every, single=experiment.plan.name == OTHERS)
    columns = selection.chosen_columns(known, options)
    titles = titles_of([run for one in (experiment, *everything) for run in one.runs])
    cells: dict[tuple[Row, str], tuple[Numbers, ...]] = {}
    for key, members in columns.items():
        for run, variant in zip(members, _variants(members), strict=True):
            if selection.is_shown(run, options):
                row = _row(run, titles[run.planned.config["algorithm"]], variant, options, paper)
                cells[row, key] = (*cells.get((row, key), ()), run)
    used = {key: members for key, members in columns.items() if any(k == key for _, k in cells)}
    rows = _ordered(list(dict.fromkeys(row for row, _ in cells)), cells, options, paper, titles)
    lacking = tuple(selection.not_there(every, known, options))
    heads = headings(used, options, paper)
    return Layout(experiment.plan, heads, tuple(rows), cells, tuple(twice), lacking)


def _row(
    run: Numbers, title: str, variant: str, options: ReportOptions, paper: Paper | None
) -> Row:
    names = {plain(title), *selection.method_names(run)}
    proposed = selection.is_called(options.proposed, names)
    shown = selection.title_for(options.titles.methods, names) or title
    group = (paper.group_of(title) or OTHER) if paper else ""
    group = PROPOSED if proposed else group
    if variant in ("", title):
        return Row(shown, group, "proposed" if proposed else "method")
    return Row(shown, group, variant=variant)


def _ordered(
    rows: Sequence[Row],
    cells: Mapping[tuple[Row, str], Sequence[Numbers]],
    options: ReportOptions,
    paper: Paper | None,
    titles: Mapping[str, str],
) -> list[Row]:
    """Rows in the order of the options, else of the paper, else of the plan; the proposed method
    last.
    """
    first = {row: runs[0] for (row, _), runs in cells.items()}
    methods = list(dict.fromkeys(row.method for row in rows))

    def place(row: Row) -> tuple[bool, float, int]:
        title = titles[first[row].planned.config["algorithm"]]
        names = {plain(title), *selection.method_names(first[row])}
        order = [n for n, name in enumerate(options.methods) if selection.is_called(name, names)]
        if not options.methods and paper and title in paper.methods:
            order = [paper.methods.index(title)]
        return row.group == PROPOSED, min(order, default=math.inf), methods.index(row.method)

    return sorted(rows, key=place)


def _once(runs: Sequence[Numbers]) -> tuple[list[Numbers], list[Numbers]]:
    """Every run once: a plan may have it twice, or it may be in two folders; the second folders are
    returned, too.
    """
    kept: dict[str, Numbers] = {}
    twice = []
    for run in runs:
        planned = run.planned
        content = [planned.scenario, planned.variant, planned.config]
        same = json.dumps(content, sort_keys=True, default=str)
        if kept.setdefault(same, run).folder != run.folder:
            twice.append(run)
    return list(kept.values()), twice


def _columns(runs: Sequence[Numbers], single: bool) -> dict[str, list[Numbers]]:
    """Runs by scenario. Its words are the plan's, and where runs of the same words differ, these
    fields too: a cell has runs of one scenario only. In a plan a method may have fields of its own;
    among single runs these are columns.
    """
    alike: dict[tuple[str, ...], list[Numbers]] = {}
    for run in runs:
        planned = run.planned
        method = () if single else (planned.variant, planned.config["algorithm"])
        alike.setdefault((planned.scenario, *method), []).append(run)
    apart: dict[str, list[str]] = {}
    for (words, *_), members in alike.items():
        names = apart.setdefault(words, [])
        found = differing([run.planned.config for run in members])
        names += [name for name in found if name not in names]
    columns: dict[str, list[Numbers]] = {}
    for run in runs:
        config, words = run.planned.config, run.planned.scenario
        parts = [words or f"{config['dataset']} {config['partition']}"]
        parts += [f"{name}={value(config, name)}" for name in apart[words]]
        columns.setdefault(" ".join(parts), []).append(run)
    return columns


def _variants(members: Sequence[Numbers]) -> list[str]:
    """What a run of a column is called next to its method: its variant, and hyperparameters where
    those differ.
    """
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in members:
        planned = run.planned
        key = planned.variant, planned.config["algorithm"]
        alike.setdefault(key, []).append(planned.config.get("hparams", {}))
    names = {key: _names_that_differ(tables) for key, tables in alike.items()}
    called = []
    for run in members:
        planned = run.planned
        hparams = planned.config.get("hparams", {})
        own = names[planned.variant, planned.config["algorithm"]]
        parts = [planned.variant, *(f"{name}={hparams[name]}" for name in own if name in hparams)]
        called.append(" ".join(filter(None, parts)))
    return called


def _names_that_differ(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    known = dict.fromkeys(name for table in tables for name in table)
    first = tables[0]
    return [name for name in known if any(t.get(name) != first.get(name) for t in tables)]


def titles_of(runs: Sequence[Numbers]) -> dict[str, str]:
    """Titles of methods by name: their own, before the first run a paper's; the name is added to
    equal ones.
    """
    published = {plain(title): title for paper in papers() for title in paper.methods}
    titles = {}
    for run in sorted(runs, key=lambda run: bool(run.about)):  # a method's own title comes last
        name = run.planned.config["algorithm"]
        titles[name] = run.method if run.about else published.get(plain(name), name)
    found = list(titles.values())
    return {
        name: f"{title} ({name})" if found.count(title) > 1 else title
        for name, title in titles.items()
    }
