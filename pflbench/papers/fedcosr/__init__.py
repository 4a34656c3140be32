"""The FedCoSR paper (IEEE Transactions on Cybernetics 2025): its published numbers and how it
presents them.
"""

from collections.abc import Iterator
from typing import Any

from pflbench.papers.fedcosr import scenarios, tables
from pflbench.papers.fedcosr.looks import LOOKS
from pflbench.papers.fedcosr.style import STYLE
from pflbench.papers.paper import Paper


def _figures(overview: Any) -> Iterator[Any]:
    from pflbench.papers.fedcosr import tau_figure  # draws with the report's own means

    return tau_figure.draw(overview)


PAPER = Paper(
    key="fedcosr",
    name="FedCoSR",
    proposed=tables.PROPOSED,
    seeds=tables.SEEDS,
    groups=tables.GROUPS,
    columns=scenarios.COLUMNS,
    datasets=scenarios.DATASETS,
    column_of=scenarios.column_of,
    heading=scenarios.heading,
    accuracy=tables.accuracy(),
    conditions=(
        "The paper states neither its number of rounds nor which round it reports; data, scale and"
        " evaluation point may differ."
    ),
    costs=tables.costs(),
    cost_conditions="means over its six main scenarios",
    classification=tuple(tables.paper_table("methods")),
    style=STYLE,
    looks=LOOKS,
    figures=_figures,
)
