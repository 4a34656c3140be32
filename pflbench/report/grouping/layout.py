"""The runs of an experiment in the rows and columns of its tables: methods, settings, and in a cell one run a seed."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pflbench.methods import registry
from pflbench.papers.fedcosr import marks
from pflbench.records.plan import Plan
from pflbench.report.grouping.headings import Heading, differing, headings, value
from pflbench.report.load.runs import OTHERS, Choice, Experiment, Numbers, mean
from pflbench.report.render.marks import Row, State

TITLES = tuple(title for titles in marks.GROUPS.values() for title in titles)


@dataclass(frozen=True)
class Layout:
    """An experiment as its tables show it."""

    plan: Plan
    columns: tuple[Heading, ...]
    rows: tuple[Row, ...]
    cells: Mapping[
        tuple[str, str], tuple[Numbers, ...]
    ]  # by title of the row and key of the column
    twice: tuple[Numbers, ...] = ()  # runs that are there already, from another folder: left out

    @property
    def runs(self) -> list[Numbers]:
        return [run for runs in self.cells.values() for run in runs]

    def cell(self, row: str, column: str) -> tuple[Numbers, ...]:
        return self.cells.get((row, column), ())

    def column(self, key: str) -> list[Numbers]:
        """All runs of a setting."""
        return [run for (_, column), runs in self.cells.items() if column == key for run in runs]

    def places(self) -> Iterator[tuple[Heading, Row, tuple[Numbers, ...]]]:
        """Every planned cell: setting by setting, and there method by method."""
        for column in self.columns:
            for row in self.rows:
                if runs := self.cell(row.title, column.key):
                    yield column, row, runs


def counted(runs: Sequence[Numbers]) -> list[Numbers]:
    """The runs with an accuracy to show."""
    return [run for run in runs if run.has_numbers and bool(np.isfinite(run.clients).any())]


def state(runs: Sequence[Numbers]) -> State:
    """Of a cell: all of its runs count, some do, or none does and why."""
    if done := len(counted(runs)):
        return "ok" if done == len(runs) else "partial"
    if any(run.status == "diverged" for run in runs):
        return "diverged"
    return "failed" if any(run.status == "failed" for run in runs) else "missing"


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
    """method, setting, seed, accuracy (percent) of every run that counts, as `statistics` takes it."""
    rows = [
        (row.title, column.key, run.planned.config["seed"], accuracy(run, choice))
        for column, row, runs in layout.places()
        for run in counted(runs)
    ]
    return pd.DataFrame(rows, columns=["method", "setting", "seed", "accuracy"])


def client_frame(layout: Layout) -> pd.DataFrame:
    """method, setting, seed, client, accuracy (percent), scarce (see `scarce_of`)."""
    rows = [
        (
            row.title,
            column.key,
            run.planned.config["seed"],
            client,
            100 * float(share),
            client in scarce_of(run.planned.config),
        )
        for column, row, runs in layout.places()
        for run in counted(runs)
        for client, share in enumerate(run.clients)
    ]
    return pd.DataFrame(rows, columns=["method", "setting", "seed", "client", "accuracy", "scarce"])


def scarce_of(config: Mapping[str, Any]) -> range:
    """The last clients of a run, where they keep a part of their data and the others all."""
    few = (
        min(config["scarce_clients"] or 0, config["clients"]) if config["data_fraction"] < 1 else 0
    )
    return range(config["clients"] - few, config["clients"])


def lay_out(experiment: Experiment, everything: Sequence[Experiment]) -> Layout:
    """Rows in the paper's order, then methods that it does not have; columns in the plan's."""
    runs, twice = _once(experiment.runs)
    columns = _columns(runs, strays=experiment.plan.name == OTHERS)
    titles = _titles([run for one in (experiment, *everything) for run in one.runs])
    cells: dict[tuple[str, str], tuple[Numbers, ...]] = {}
    rows: dict[Row, str] = {}
    for key, members in columns.items():
        for run, variant in zip(members, _variants(members), strict=True):
            method = titles[run.planned.config["algorithm"]]
            row = _row(method, variant)
            rows[row] = method
            cells[row.title, key] = (*cells.get((row.title, key), ()), run)
    order = [*TITLES, *rows.values()]
    arranged = sorted(rows, key=lambda row: order.index(rows[row]))
    return Layout(experiment.plan, headings(columns), tuple(arranged), cells, tuple(twice))


def _once(runs: Sequence[Numbers]) -> tuple[list[Numbers], list[Numbers]]:
    """A run that a plan has twice counts once; one that is in two folders too, and the second is told of."""
    kept: dict[str, Numbers] = {}
    twice = []
    for run in runs:
        planned = run.planned
        same = json.dumps(
            [planned.setting, planned.variant, planned.config], sort_keys=True, default=str
        )
        if kept.setdefault(same, run).folder != run.folder:
            twice.append(run)
    return list(kept.values()), twice


def _columns(runs: Sequence[Numbers], strays: bool) -> dict[str, list[Numbers]]:
    """Runs by setting. Its words are the plan's, and where runs of the same words differ, these settings too: a cell
    has runs of one setting only. In a plan a method may have settings of its own; among strays these are columns.
    """
    alike: dict[tuple[str, ...], list[Numbers]] = {}
    for run in runs:
        who = () if strays else (run.planned.variant, run.planned.config["algorithm"])
        alike.setdefault((run.planned.setting, *who), []).append(run)
    apart: dict[str, list[str]] = {}
    for (words, *_), members in alike.items():
        names = apart.setdefault(words, [])
        names += [
            name for name in differing([run.planned.config for run in members]) if name not in names
        ]
    columns: dict[str, list[Numbers]] = {}
    for run in runs:
        config, words = run.planned.config, run.planned.setting
        parts = [words or f"{config['dataset']} {config['partition']}"]
        parts += [f"{name}={value(config, name)}" for name in apart[words]]
        columns.setdefault(" ".join(parts), []).append(run)
    return columns


def _variants(members: Sequence[Numbers]) -> list[str]:
    """What a run of a column is called beside its method: its variant, and hyperparameters where those differ."""
    alike: dict[tuple[str, str], list[Numbers]] = {}
    for run in members:
        alike.setdefault((run.planned.variant, run.planned.config["algorithm"]), []).append(run)
    names = {}
    for key, same in alike.items():
        given = [run.planned.config.get("hparams", {}) for run in same]
        known = dict.fromkeys(name for values in given for name in values)
        names[key] = [
            name
            for name in known
            if any(values.get(name) != given[0].get(name) for values in given)
        ]
    called = []
    for run in members:
        planned = run.planned
        own = [
            f"{n}={planned.config['hparams'].get(n)}"
            for n in names[planned.variant, planned.config["algorithm"]]
        ]
        called.append(" ".join(filter(None, [planned.variant, *own])))
    return called


def _titles(runs: Sequence[Numbers]) -> dict[str, str]:
    """Titles of methods by name: their own, or before the first run the paper's; the name is added to equal ones."""
    papers = {registry.plain(title): title for title in TITLES}
    titles = {}
    for run in sorted(
        runs, key=lambda run: bool(run.about)
    ):  # what a run says of its method comes last, and stays
        name = run.planned.config["algorithm"]
        titles[name] = run.method if run.about else papers.get(registry.plain(name), name)
    same = [title for title in titles.values() if list(titles.values()).count(title) > 1]
    return {name: f"{title} ({name})" if title in same else title for name, title in titles.items()}


def _row(method: str, variant: str) -> Row:
    row = marks.row(method)
    return row if variant in ("", method) else Row(f"{method}: {variant}", row.group)
