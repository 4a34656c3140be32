"""Tables of the methods themselves, from what their plugins say: once per report."""

from collections.abc import Sequence
from typing import Any

from pflbench.errors import UserError
from pflbench.methods import describe, registry
from pflbench.papers.fedcosr.tables import paper_table
from pflbench.report.grouping.layout import TITLES
from pflbench.report.render.grid import Head, Value, grid
from pflbench.report.render.parts import TablePart

TAXONOMY = {
    "title": "Method",
    "type": "Type",
    "technique": "Technique",
    "label_skew": "Label skew",
    "data_scarcity": "Data scarcity",
    "scored": "Scored",
}


def plugin_tables(methods: Sequence[str]) -> tuple[list[TablePart], list[str]]:
    """Taxonomy and hyperparameters of plugins, by name or path; of one that cannot be loaded a note."""
    found: dict[str, dict[str, Any]] = {}
    notes = []
    for plugin in dict.fromkeys(methods):
        try:
            details = describe.details(registry.load(plugin))
        except UserError as error:
            notes.append(f"Not in the tables of methods: {error}.")
            continue
        found[details["name"]] = details
    known = sorted(
        found.values(),
        key=lambda m: TITLES.index(m["title"]) if m["title"] in TITLES else len(TITLES),
    )
    return ([_taxonomy(known), _hyperparameters(known)] if known else []), notes


def _taxonomy(known: Sequence[dict[str, Any]]) -> TablePart:
    papers = {line["method"] for line in paper_table("methods")}
    rows: list[list[Value]] = [[str(method[name]) for name in TAXONOMY] for method in known]
    others = [method["title"] for method in known if method["title"] not in papers]
    caption = (
        "The methods. Type, technique and what a method is made for are as in the FedCoSR paper's table of methods"
        + (f"; for {', '.join(others)} as their plugins say" if others else "")
        + ". Scored: the moment of the headline accuracy, before local training (pre) or right after it (post)."
    )
    return grid(
        "methods",
        "Methods",
        caption,
        [Head(title) for title in TAXONOMY.values()],
        rows,
        "tab:methods",
    )


def _hyperparameters(known: Sequence[dict[str, Any]]) -> TablePart:
    rows: list[list[Value]] = []
    for method in known:
        _, lines = describe.hyperparameter_table(method)
        rows += [[method["title"], *line] for line in lines]
    heads = [
        Head("Method"),
        Head("Hyperparameter"),
        Head("Default", width=0.16),
        Head("Range", width=0.14),
    ]
    heads.append(Head("Meaning", width=0.42))
    caption = (
        "Hyperparameters: defaults of the plugins (for some data sets another one), where to search, and meaning. What"
        " a run used is in its run.json."
    )
    return grid("hyperparameters", "Hyperparameters", caption, heads, rows, "tab:hyperparameters")
