"""Tables of the methods themselves, from what their plugins say: once per report."""

from collections.abc import Sequence
from typing import Any

from pflbench.errors import UserError
from pflbench.methods import describe, registry
from pflbench.papers import papers
from pflbench.report.render.grid import Head, Value, grid
from pflbench.report.render.parts import TablePart


def plugin_tables(plugins: Sequence[str]) -> tuple[list[TablePart], list[str]]:
    """Families of methods, by name or path; of one that cannot be loaded a
    note.
    """
    found: dict[str, dict[str, Any]] = {}
    notes = []
    for plugin in dict.fromkeys(plugins):
        try:
            details = describe.details(registry.load(plugin))
        except UserError as error:
            notes.append(f"Not in the tables of methods: {error}.")
            continue
        found[details["name"]] = details
    if not found:
        return [], notes
    order = [title for paper in papers() for title in paper.methods]
    order += [method["title"] for method in found.values()]
    known = sorted(found.values(), key=lambda method: order.index(method["title"]))
    return [_methods(known)], notes


def _methods(known: Sequence[dict[str, Any]]) -> TablePart:
    names = ("title", "family", "evaluated", "evaluated_model")
    rows: list[list[Value]] = [[str(method[name]) for name in names] for method in known]
    heads = [Head("Method"), Head("Family"), Head("Evaluated"), Head("Evaluated model", width=0.5)]
    caption = (
        "The methods. Evaluated: when the reported accuracy is measured, before local training (pre)"
        " or right after it (post)."
    )
    return grid("methods", "Methods", caption, heads, rows, "tab:methods")
