"""All tables of an experiment, and what must be said with them."""

from collections.abc import Sequence

from pflbench.report.grouping.layout import counted, lay_out
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.render.parts import TablePart
from pflbench.report.tables import (
    accuracy,
    efficiency,
    fairness,
    hyperparameters,
    new_clients,
    published,
    significance,
    variability,
)
from pflbench.report.tables.notes import section_notes


def tables(
    experiment: Experiment, everything: Sequence[Experiment], choice: Choice, margin: float = 0.01
) -> tuple[list[TablePart], list[str]]:
    """The tables that the runs allow, and notes: what is missing, failed or refused, and which
    number means what.

    `everything` are the experiments of the folder; in it is the one that others are compared with.
    `margin`, a fraction of accuracy, is that of convergence.
    """
    if not experiment.runs:
        return [], ["No tables: the plan has no runs."]
    layout = lay_out(experiment, everything)
    if not layout.rows:
        return [], ["No tables: the experiment has none of the methods and scenarios to show."]
    notes = section_notes(layout, choice)
    if not counted(layout.runs):
        return [], [*notes, "No tables: no finished run has an accuracy to show."]
    parts = [accuracy.table(layout, choice, accuracy.base_of(layout, everything))]
    for made, said in (
        variability.tables(layout, choice),
        fairness.tables(layout, choice),
        new_clients.tables(layout, choice),
        efficiency.tables(layout, margin),
        significance.tables(layout, choice),
        hyperparameters.tables(layout),
        published.tables(layout, choice, margin),
    ):
        parts += made
        notes += said
    return parts, notes
