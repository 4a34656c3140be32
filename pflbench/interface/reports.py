"""A report, from Python and from the command line."""

import contextlib
import io
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from pflbench.errors import UserError
from pflbench.records import archive
from pflbench.report import build, summary
from pflbench.report.load import parallel
from pflbench.report.load.runs import ROUNDS, Choice

ALLOWED: dict[str, tuple[str, ...]] = {
    "round": ROUNDS,
    "point": ("pre", "post"),
    "only": build.KINDS,
}


@dataclass(frozen=True)
class MadeReport:
    """What a report shows, and where it was written. `tables` are frames by experiment and name of
    the table, `summary` has a row for every group of seeds.
    """

    folder: Path
    written: tuple[Path, ...]
    summary: pd.DataFrame
    tables: Mapping[str, Mapping[str, pd.DataFrame]] = field(repr=False)
    notes: Mapping[str, tuple[str, ...]]  # by experiment

    def table(self, name: str = "accuracy") -> pd.DataFrame:
        """A table of the only experiment that has it."""
        found = [tables[name] for tables in self.tables.values() if name in tables]
        if len(found) != 1:
            names = sorted({name for tables in self.tables.values() for name in tables})
            raise UserError(
                f"{len(found)} experiments have a table {name!r}; there are: {', '.join(names)}"
            )
        return found[0]


def report(
    folder: str | Path,
    *,
    out: str | Path | None = None,
    experiments: Sequence[str] = (),
    only: Sequence[str] = (),
    proposed: str | None = None,
    round: str = "last",
    point: str | None = None,
    weighted: bool = False,
    margin: float = 1.0,
    **looks: Any,
) -> MadeReport:
    """Tables, figures and a page of all runs in a folder or an archive of one, as `pflbench report`
    writes them.

    `proposed` is your method. `looks` are the keys of `[report]` in an experiment: methods,
    scenarios, titles, caption, label, decimals, rows, marks, std, style, published, figures.

        made = pflbench.report("results/runs", proposed="mine", decimals=1)
        made.table("accuracy")
    """
    place = Path(folder)
    given = {**({"proposed": proposed} if proposed else {}), **looks}
    choice = chosen(round, point, weighted, only)
    target = Path(out) if out else archive.stem(place) / "report"
    with contextlib.ExitStack() as kept:
        records = kept.enter_context(archive.opened(place))
        if threading.active_count() > 1:  # as in a notebook: a fork would copy locks of others
            kept.enter_context(parallel.in_this_process())
        made = build.report(
            records, target, choice, experiments, only, margin / 100, build.Given(given)
        )
    rows = summary.grouped([run for one in made.experiments for run in one.runs], weighted)
    tables = {
        section.name: {part.name: _frame(part.csv) for part in section.tables if part.csv}
        for section in made.sections
    }
    notes = {section.name: section.notes for section in made.sections if section.notes}
    return MadeReport(target, made.written, pd.DataFrame(rows), tables, notes)


def chosen(
    round: str, point: str | None, weighted: bool, only: Sequence[str], dashes: str = ""
) -> Choice:
    """Which numbers a report shows; `dashes` are before the names of options."""
    given = {"round": [round], "point": [point] if point else [], "only": only}
    for name, values in given.items():
        for value in values:
            if value not in ALLOWED[name]:
                raise UserError(f"{dashes}{name} {value}: must be {' or '.join(ALLOWED[name])}")
    return Choice(round, point, weighted)  # type: ignore[arg-type]


def _frame(text: str) -> pd.DataFrame:
    """A table with all its digits."""
    return pd.read_csv(io.StringIO(text))
