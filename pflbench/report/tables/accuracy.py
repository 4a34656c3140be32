"""The table of accuracies in the FedCoSR paper's form, with its marks."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pflbench.report.grouping.headings import differing, value
from pflbench.report.grouping.layout import (
    Layout,
    accuracy,
    client_std,
    counted,
    lay_out,
    seed_std,
    state,
)
from pflbench.report.load.runs import Choice, Experiment, Numbers
from pflbench.report.render import latex, text
from pflbench.report.render.grid import label_of
from pflbench.report.render.marks import MEASURES, Cell, Column, Marked, Row, State, Table, mark
from pflbench.report.render.parts import TablePart
from pflbench.report.tables.captions import how, over_seeds

BASE = "main"  # the experiment with which others are compared
MAJORITY = Row("Majority class", "baseline", "baseline")
PAGE = dataclasses.replace(text.MARKDOWN, places=("*", "\u2020", "\u2021"), bold="%s")


def base_of(layout: Layout, everything: Sequence[Experiment]) -> Layout | None:
    """The base experiment of the same scale; none for itself, or where it is not there."""
    name = BASE if layout.plan.scale in ("", "paper") else f"{BASE}-{layout.plan.scale}"
    found = [one for one in everything if one.plan.name == name and name != layout.plan.name]
    return lay_out(found[0], everything) if found else None


def table(layout: Layout, choice: Choice, base: Layout | None = None) -> TablePart:
    """The part of a report; some run must be done."""
    marked = marks_of(layout, choice, base)
    said, label = caption(marked, layout, choice), label_of(layout.plan.name, "accuracy")
    heads = [f"{column.group}: {column.title}" for column in marked.table.columns]
    return TablePart(
        "accuracy",
        "Accuracy",
        f"{said} {text.legend(marked, PAGE)}",
        ("Method", *heads),
        *_page(marked),
        latex.fragment(marked, said, label),
        latex.document(marked, said, label),
        text.long_csv(marked),
        text.markdown(marked, said),
    )


def marks_of(layout: Layout, choice: Choice, base: Layout | None = None) -> Marked:
    """The numbers and their marks, those against the base too."""
    bases = {
        column.key: _base(layout, column.key, base) if base else "" for column in layout.columns
    }
    columns = tuple(Column(c.key, c.title, c.group, bases[c.key]) for c in layout.columns)
    before = (
        _table(base, tuple(Column(c.key, c.title) for c in base.columns), choice) if base else None
    )
    return mark(
        _table(layout, columns, choice), choice.decimals, before if any(bases.values()) else None
    )


def cell(runs: Sequence[Numbers], choice: Choice) -> Cell:
    """The numbers of a method in a setting, from a run a seed."""
    found = [(accuracy(run, choice), client_std(run)) for run in counted(runs)]
    return _summary(found, choice, state(runs))


def majority(runs: Sequence[Numbers], choice: Choice) -> Cell:
    """The same for answering every client's most frequent training label; all methods of a seed have the same."""
    guesses: dict[int, Numbers] = {}
    for run in sorted(
        runs, key=lambda run: run.clients.size == 0
    ):  # those first that tell which clients are scored
        seed = run.planned.config["seed"]
        if run.about and seed not in guesses and np.isfinite(guess := run.majority()).any():
            scored = (
                np.isfinite(run.clients) if run.clients.size == guess.size else np.isfinite(guess)
            )
            guesses[seed] = dataclasses.replace(run, clients=np.where(scored, guess, np.nan))
    found = [(accuracy(run, choice), client_std(run)) for run in guesses.values()]
    return _summary(found, choice, "ok" if found else "missing")


def caption(marked: Marked, layout: Layout, choice: Choice) -> str:
    """What the numbers are; the legend of the marks is not in it."""
    weights = "weighted by their test samples" if choice.weighted else "each counting once"
    spread = {
        "clients": f"and std over clients (each counting once), both averaged over {over_seeds(layout)}",
        "seeds": f"averaged over {over_seeds(layout)}, and std over seeds",
    }[choice.std]
    said = [
        f"{layout.plan.title.rstrip('.')}.",
        f"Accuracy (%) on the clients' own test samples, mean over clients ({weights}), {spread}.",
        how(layout, choice),
    ]
    if marked.table.baselines:
        said.append(
            f"{MAJORITY.title}: each client always answers its most frequent training label."
        )
    if any(column.base for column in marked.table.columns):
        said.append(
            f"The base setting is that of the experiment {BASE} that differs only in the number of clients, in the"
            " parameter of the Dirichlet distribution, or in the classes per client."
        )
    return " ".join(said)


def _table(layout: Layout, columns: tuple[Column, ...], choice: Choice) -> Table:
    cells = {place: cell(runs, choice) for place, runs in layout.cells.items()}
    guesses = {
        (MAJORITY.title, column.key): majority(layout.column(column.key), choice)
        for column in columns
    }
    known = any(guess.state == "ok" for guess in guesses.values())
    rows = (*layout.rows, MAJORITY) if known else layout.rows
    return Table(columns, rows, {**cells, **(guesses if known else {})})


def _summary(found: Sequence[tuple[float, float]], choice: Choice, state: State) -> Cell:
    """Means over seeds of accuracy and std over clients, or std over seeds."""
    if not found:
        return Cell(state=state)
    means, spreads = zip(*found, strict=True)
    std = float(np.mean(spreads)) if choice.std == "clients" else seed_std(means)
    return Cell(float(np.mean(means)), None if math.isnan(std) else std, state, len(found))


def _base(layout: Layout, key: str, base: Layout) -> str:
    """The base's column whose setting differs in one thing; empty if there is none."""
    mine = {run.planned.config["algorithm"]: run.planned.config for run in layout.column(key)}
    for column in base.columns:
        for run in base.column(column.key):
            other, own = run.planned.config, mine.get(run.planned.config["algorithm"])
            if own and own.get("hparams") == other.get("hparams") and _one_thing(own, other):
                return column.key
    return ""


def _one_thing(own: dict[str, object], other: dict[str, object]) -> bool:
    """Clients (with their participation), beta, or classes per client."""
    names = set(differing([own, other])) - {"representations"}
    kinds = {str(value(config, "partition")).partition(":")[0] for config in (own, other)}
    return (names <= {"clients", "participation"} and "clients" in names) or (
        names == {"partition"} and kinds in ({"dir"}, {"path"})
    )


def _page(
    marked: Marked,
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[float | None, ...], ...]]:
    """Cells as text, and the accuracies to sort them by."""
    table = marked.table
    texts, numbers = [], []
    for row in (*table.methods, None, *table.baselines):
        line: list[str] = [text.AVERAGED if row is None else row.title]
        values: list[float | None] = [None]
        for column in table.columns:
            if row is None:
                pair = [text.average(marked, column, measure, PAGE) for measure in MEASURES]
                values.append(marked.averages[column.key, "accuracy"])
            else:
                pair = [text.cell(marked, row, column, measure, PAGE) for measure in MEASURES]
                values.append(table.cell(row.title, column.key).value("accuracy"))
            line.append(" \u00b1 ".join(pair))
        texts.append(tuple(line))
        numbers.append(tuple(values))
    return tuple(texts), tuple(numbers)
