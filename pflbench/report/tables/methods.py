"""The table of the methods themselves, from what their runs recorded: once per report."""

from collections.abc import Sequence
from typing import Any

from pflbench.papers import papers
from pflbench.report.load.runs import Numbers
from pflbench.report.render.grid import Head, Value, grid
from pflbench.report.render.parts import TablePart


def method_tables(runs: Sequence[Numbers]) -> list[TablePart]:
    """Families of the methods of these runs, in the order of published tables."""
    found = {run.planned.config["algorithm"]: run.about["method"] for run in runs if run.about}
    if not found:
        return []
    order = [title for paper in papers() for title in paper.methods]
    order += [method["title"] for method in found.values()]
    return [_methods(sorted(found.values(), key=lambda method: order.index(method["title"])))]


def _methods(known: Sequence[dict[str, Any]]) -> TablePart:
    names = ("title", "family", "evaluation_point", "evaluated_model")
    rows: list[list[Value]] = [[str(method.get(name, "")) for name in names] for method in known]
    heads = [Head("Method"), Head("Family"), Head("Evaluated"), Head("Evaluated model", width=0.5)]
    caption = (
        "The methods. Evaluated: when the reported accuracy is measured, before local training (pre)"
        " or right after it (post)."
    )
    return grid("methods", "Methods", caption, heads, rows, "tab:methods")
