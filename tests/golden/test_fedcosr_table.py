"""The FedCoSR paper's style leaves the table of accuracies as it was before there were styles: the
files here were written by that code, from the same made-up runs.
"""

from pathlib import Path
from typing import Any

import pytest

from pflbench.report.load.runs import Choice, Numbers
from pflbench.report.tables.all_tables import tables
from tests.factories.runs import PAPER, experiment, only, run

HERE = Path(__file__).parent / "fedcosr_table"
METHODS = ("local", "fedavg", "moon", "fedproto", "mine", "fedcosr")
COUNTS = ([{"0": 3, "1": 1}, {"2": 5}], [{"0": 1, "1": 3}, {"2": 2}])


def made_up(partitions: tuple[str, ...], lift: float) -> list[Numbers]:
    """Two seeds of every method; of one a seed failed, of another all are missing."""
    found = []
    for column, partition in enumerate(partitions):
        for row, name in enumerate(METHODS):
            for seed in (0, 1):
                level = 0.5 + 0.37 * ((7 * row + 3 * column + seed) % 11) / 11 + lift
                lost = {("moon", 1): "failed"}.get((name, seed), "finished")
                lost = "missing" if (name, column) == ("local", 1) else lost
                about: dict[str, Any] = {"data": "CIFAR-10", "counts": COUNTS}
                clients = [level - 0.04 * row, level + 0.01]
                where: dict[str, Any] = {"dataset": "cifar10", "partition": partition}
                found.append(run(name, clients, seed=seed, status=lost, about=about, **where))
    return found


@pytest.mark.parametrize("form", ["tex", "md", "csv"])
def test_the_table_is_as_it_was(form: str):
    options = {**PAPER, "proposed": "fedcosr"}
    main = experiment(*made_up(("dir:0.1", "path:2"), 0.0), name="main", report=options)
    other = made_up(("dir:0.01", "dir:1", "path:5"), 0.05)
    trial = experiment(*other, name="scalability", title="Skew", report=options)
    parts, _ = tables(trial, [main, trial], Choice())
    part = only(parts, "accuracy")
    forms = {"tex": part.latex, "md": part.markdown, "csv": part.csv}
    assert forms[form] == (HERE / f"accuracy.{form}").read_text(encoding="utf-8")
