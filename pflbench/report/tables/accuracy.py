"""The table of accuracies, with marks."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pflbench.records.report_options import Std
from pflbench.report.grouping.headings import differing, value
from pflbench.report.grouping.layout import (
    Layout,
    accuracy,
    client_std,
    counted,
    lay_out,
    outdated,
    seed_std,
    state,
)
from pflbench.report.load.runs import Choice, Experiment, Numbers
from pflbench.report.render import latex, text
from pflbench.report.render.grid import label_of
from pflbench.report.render.marks import Cell, Column, Marked, Row, Table, mark
from pflbench.report.render.notation import Style
from pflbench.report.render.parts import TablePart
from pflbench.report.tables.captions import how, over_seeds, title
from pflbench.report.tables.notes import below_tables

BASE = "main"  # the experiment with which others are compared
MAJORITY = Row("Majority class", "baseline", "baseline")


def base_of(layout: Layout, everything: Sequence[Experiment]) -> Layout | None:
    """The base experiment of the same scale; none for itself, or where it is not there or nobody
    asks for the comparison.
    """
    name = BASE if layout.plan.scale in ("", "paper") else f"{BASE}-{layout.plan.scale}"
    found = [one for one in everything if one.plan.name == name and name != layout.plan.name]
    if not found or "base" not in layout.style.marks:
        return None
    whole = dataclasses.replace(layout.options, methods=(), scenarios=())
    plan = dataclasses.replace(found[0].plan, report=whole)
    return lay_out(dataclasses.replace(found[0], plan=plan), everything)


def table(layout: Layout, choice: Choice, base: Layout | None = None) -> TablePart:
    """The part of a report; some run must be finished."""
    options = layout.options
    style = dataclasses.replace(layout.style, explained=not options.caption)
    marked = marks_of(layout, choice, base)
    notes = below_tables(layout)
    said = options.caption or caption(marked, layout, choice)
    label = options.label or label_of(layout.plan.name, "accuracy")
    heads = [": ".join(filter(None, [c.group, c.title])) for c in marked.table.columns]
    texts, numbers = _page(marked, style)
    return TablePart(
        "accuracy",
        "Accuracy",
        " ".join(filter(None, [said, text.legend(marked, style, style.page)])),
        ("Method", *heads),
        texts,
        numbers,
        latex.fragment(marked, style, said, label, notes),
        latex.document(marked, style, said, label, notes),
        text.long_csv(marked),
        text.markdown(marked, style, said, notes),
        tuple(notes),
        _looks(marked, style),
    )


def marks_of(layout: Layout, choice: Choice, base: Layout | None = None) -> Marked:
    """The numbers and their marks, those against the base too."""
    bases = {c.key: _base(layout, c.key, base) if base else "" for c in layout.columns}
    columns = tuple(Column(c.key, c.title, c.group, bases[c.key]) for c in layout.columns)
    before = None
    if base and any(bases.values()):
        before = _table(base, tuple(Column(c.key, c.title) for c in base.columns), choice)
    return mark(_table(layout, columns, choice), layout.options.decimals, before)


def cell(runs: Sequence[Numbers], choice: Choice, std: Std) -> Cell:
    """The numbers of a method in a scenario, from one run per seed."""
    shown = counted(runs)
    if not shown:
        return Cell(state=state(runs))
    mean, spread = _summary(shown, choice, std)
    notes = tuple(dict.fromkeys(note for run in shown for note in run.notes))
    return Cell(mean, spread, state(runs), len(shown), outdated(runs), notes)


def majority(runs: Sequence[Numbers], choice: Choice, std: Std) -> Cell:
    """The same for answering every client's most frequent training label; all methods of a seed
    have the same.
    """
    guesses: dict[int, Numbers] = {}
    evaluated_first = sorted(runs, key=lambda run: run.clients.size == 0)
    for run in evaluated_first:  # these say which clients are evaluated
        seed, guess = run.planned.config["seed"], run.majority()
        if seed not in guesses and np.isfinite(guess).any():
            known = run.clients if run.clients.size == guess.size else guess
            clients = np.where(np.isfinite(known), guess, np.nan)
            guesses[seed] = dataclasses.replace(run, clients=clients)
    if not guesses:
        return Cell()
    mean, spread = _summary(list(guesses.values()), choice, std)
    return Cell(mean, spread, "ok", len(guesses))


def caption(marked: Marked, layout: Layout, choice: Choice) -> str:
    """What the numbers are; the legend of the marks is not in it."""
    said = [title(layout), _numbers(marked, layout, choice), how(layout, choice)]
    if marked.table.baselines:
        rule = "each client always answers its most frequent training label"
        said.append(f"{MAJORITY.title}: {rule}.")
    if any(column.base for column in marked.table.columns):
        said.append(
            f"The base scenario is that of the experiment {BASE} that differs only in the number of"
            " clients, the parameter of the Dirichlet distribution, or the classes per client."
        )
    return " ".join(filter(None, said))


def _numbers(marked: Marked, layout: Layout, choice: Choice) -> str:
    """What an accuracy is a mean of, and what its std is over."""
    seeds, std = over_seeds(layout), layout.options.std
    what = "Accuracy (%) on the clients' own test samples"
    if layout.style.full_captions:
        weights = "weighted by their test samples" if choice.weighted else "each counting once"
        spread = {
            "clients": f"and std over clients (each counting once), both means over {seeds}",
            "seeds": f"mean over {seeds}, and std over seeds",
        }[std]
        return f"{what}, mean over clients ({weights}), {spread}."
    weights = ", weighted by their test samples" if choice.weighted else ""
    if std == "clients":
        return f"{what}: mean over clients{weights} and std over clients, averaged over {seeds}."
    alone = all(cell.value("std") is None for cell in marked.table.cells.values())
    over = f"of {seeds}" if alone else f"mean and std over {seeds}"
    return f"{what}, averaged over clients{weights}: {over}."


def _table(layout: Layout, columns: tuple[Column, ...], choice: Choice) -> Table:
    std = layout.options.std
    cells = {(row.title, key): cell(runs, choice, std) for (row, key), runs in layout.cells.items()}
    guesses = {
        (MAJORITY.title, column.key): majority(layout.column(column.key), choice, std)
        for column in columns
        if "majority" in layout.style.rows
    }
    if not any(guess.state == "ok" for guess in guesses.values()):
        return Table(columns, layout.rows, cells)
    return Table(columns, (*layout.rows, MAJORITY), {**cells, **guesses})


def _summary(runs: Sequence[Numbers], choice: Choice, std: Std) -> tuple[float, float | None]:
    """The mean over seeds of accuracy, and of std over clients, or std over seeds."""
    means = [accuracy(run, choice) for run in runs]
    spreads = [client_std(run) for run in runs]
    spread = float(np.mean(spreads)) if std == "clients" else seed_std(means)
    return float(np.mean(means)), None if math.isnan(spread) else spread


def _base(layout: Layout, key: str, base: Layout) -> str:
    """The base's column whose scenario differs in one thing; empty if there is none."""
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
    if names == {"partition"}:
        kinds = {str(value(config, "partition")).partition(":")[0] for config in (own, other)}
        return kinds in ({"dir"}, {"path"})
    return "clients" in names and names <= {"clients", "participation"}


Texts = tuple[tuple[str, ...], ...]
SortKeys = tuple[tuple[float | None, ...], ...]


def _page(marked: Marked, style: Style) -> tuple[Texts, SortKeys]:
    """Cells as text, and the accuracies to sort them by."""
    table = marked.table
    texts, numbers = [], []
    for row in text.rows_of(table, style):
        pairs = [text.pair(marked, row, column, style, style.page) for column in table.columns]
        texts.append((text.MEAN if row is None else row.title, *pairs))
        if row is None:
            values = [marked.means[column.key, "accuracy"] for column in table.columns]
        else:
            values = [
                table.cell(row.title, column.key).value("accuracy") for column in table.columns
            ]
        numbers.append((None, *values))
    return tuple(texts), tuple(numbers)


def _looks(marked: Marked, style: Style) -> Texts:
    """What is bold or underlined on the page: what LaTeX prints so."""
    found = []
    for row in text.rows_of(marked.table, style):
        proposed = row is not None and row.kind == "proposed"
        looks = ["bold" if proposed or row is None else ""]
        for column in marked.table.columns:
            shown = text.cell(marked, row, column, "accuracy", style, style.latex) if row else ""
            bold, underlined = r"\textbf" in shown, r"\underline" in shown
            looks.append("bold" if bold else "underlined" if underlined else "")
        found.append(tuple(looks))
    return tuple(found)
