"""What a sweep is asked for: an experiment by its name, its table, and the command that makes it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pflbench.methods import registry
from pflbench.records.plan import Plan
from pflbench.records.status import stem_of
from pflbench.sweep import experiment
from pflbench.sweep.experiment import Table

NAMED = 3  # methods, or data sets, that a title names; more are counted


@dataclass(frozen=True)
class Asked:
    """An experiment, and the command that makes all of it: what chooses among its runs, and where
    they are done, is left out.
    """

    name: str
    table: Table
    command: str


def without_file(table: Table, name: str | None, command: str, data_root: Path | None) -> Asked:
    """An experiment that is in no file, with a name and a title of its own."""
    plan = experiment.make(name or "grid", table, data_root=data_root)
    ids = " ".join(sorted(stem_of(run.id) for run in plan.runs))
    label = name or f"grid-{hashlib.sha256(ids.encode()).hexdigest()[:6]}"
    return Asked(label, {"title": _title(plan), **table}, command)


def _title(plan: Plan) -> str:
    """For tables: "FedAvg and Local on digits"."""
    plugins = dict.fromkeys(planned.plugin for planned in plan.runs)
    methods = [registry.load(plugin).title for plugin in plugins]
    data = list(dict.fromkeys(planned.run.dataset for planned in plan.runs))
    return f"{_enumerated(methods, 'methods')} on {_enumerated(data, 'data sets')}"


def _enumerated(names: Sequence[str], what: str) -> str:
    if len(names) > NAMED:
        return f"{len(names)} {what}"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
