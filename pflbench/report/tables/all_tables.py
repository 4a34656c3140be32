"""All tables of an experiment, and what must be said beside them."""

from collections.abc import Sequence

from pflbench.report.grouping.layout import counted, lay_out
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import accuracy, efficiency, published, significance, variability
from pflbench.report.tables.captions import notes


def tables(
    experiment: Experiment, everything: Sequence[Experiment], choice: Choice, margin: float = 0.01
) -> tuple[list[TablePart], list[str]]:
    """The tables that the runs allow, and notes: what is missing, failed or refused, and which number means what.

    `everything` are the experiments of the folder; in it is the one that others are compared with. `margin`, a
    fraction of accuracy, is that of convergence.
    """
    if not experiment.runs:
        return [], ["No tables: the plan has no runs."]
    layout = lay_out(experiment, everything)
    said = notes(layout, choice)
    if not counted(layout.runs):
        return [], [*said, "No tables: no run is done with an accuracy to show."]
    parts = [accuracy.table(layout, choice, accuracy.base_of(layout, everything))]
    for more, noted in (
        variability.seeds_table(layout, choice),
        variability.clients_table(layout, choice),
        efficiency.tables(layout, margin),
        significance.tables(layout, choice),
        published.tables(layout, choice),
    ):
        parts += more
        said += noted
    return parts, said
