"""Where the marks that the FedCoSR paper prints differ from those that its own numbers ask for.

Its averages are over all methods that have a number, Local and FedCoSR among them: no other choice
comes as near to the printed ones, though most of those are off in the last digits. Its + and -
compare with the main table; for std, too, + means better, that is lower.
"""

from dataclasses import dataclass
from typing import Literal

from pflbench.errors import unknown
from pflbench.papers.fedcosr import tables
from pflbench.papers.fedcosr.scenarios import TABLES
from pflbench.report.render.marks import Cell, Column, Marked, Measure, Row, Table, mark


@dataclass(frozen=True)
class Difference:
    """A mark that the paper prints and its numbers contradict; all are in its second table."""

    column: str
    method: str
    measure: Measure
    kind: Literal["superscript", "arrow", "sign"]
    printed: str
    computed: str
    reason: str


DIFFERENCES = tuple(
    Difference(**line)  # type: ignore[arg-type]
    for line in tables.paper_table("misprints")
)


def published(name: str) -> Marked:
    """One of the paper's tables (`main`, `scalability_heterogeneity`), with the marks that its
    numbers ask for.
    """
    if name not in TABLES:
        raise unknown("table of the paper", name, TABLES)
    return mark(_table(name), base=None if name == "main" else _table("main"))


def _table(name: str) -> Table:
    """FedPAC has no number at beta=0.01: the text says that its optimization problem can be
    infeasible there.
    """
    columns = tuple(Column(c.key, c.title, c.group, c.base) for c in TABLES[name])
    cells = {}
    for (method, key), (accuracy, std) in tables.accuracy().items():
        known = Cell(accuracy, std, "ok", tables.SEEDS) if accuracy else Cell(state="failed")
        cells[method, key] = known
    return Table(columns, tuple(_rows()), cells)


def _rows() -> list[Row]:
    """Its own method is the proposed one, in a group of its own."""
    rows = []
    for group, methods in tables.GROUPS.items():
        for method in methods:
            own = method == tables.PROPOSED
            rows.append(Row(method, "proposed", "proposed") if own else Row(method, group))
    return rows
