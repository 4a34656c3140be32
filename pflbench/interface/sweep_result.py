"""The runs of a sweep as pandas frames: those of single runs, below each other."""

import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pflbench.errors import UserError, unknown
from pflbench.interface.loading import LoadedRun
from pflbench.report import summary
from pflbench.report.load import runs
from pflbench.sweep.scheduler import Sweep

WORDS = ["method", "scenario", "variant", "seed"]  # what a run is, in the first columns
RESULTS = [
    "status",
    "accuracy",
    "std",
    "point",
    "round",
    "rounds",
    "megabytes",
    "seconds",
    "reason",
]


class SweepResult:
    """All runs of a sweep, also those that were finished before. `runs` has a row for each; `rounds`,
    `clients`, `logs`, `notes` and `hyperparameters` are the frames of all runs, below each other.
    `result[id]` is one run, and so is `result.run("ditto", seed=0)`.
    """

    def __init__(self, made: Sweep, data_root: Path | None, device: str) -> None:
        self.folder = made.folder
        self._made = made
        self._data_root = data_root
        self._device = device

    def __getitem__(self, id: str) -> LoadedRun:
        if id not in self._made.runs:
            raise unknown("run of this sweep", id, self._made.runs)
        planned = self._made.runs[id]
        folder = self._made.reader.state(planned).folder
        return LoadedRun(folder, planned.plugin, self._data_root, self._device)

    def __len__(self) -> int:
        return len(self._made.runs)

    def __iter__(self) -> Iterator[LoadedRun]:
        """The runs that have records."""
        return (self[id] for id in self._recorded)

    def run(self, method: str | None = None, **which: Any) -> LoadedRun:
        """The one run with these values in `runs`: of a method, a scenario, a seed."""
        asked = {**({"method": method} if method else {}), **which}
        found = self.runs
        for name, value in asked.items():
            if name not in found:
                raise unknown("column of runs", name, found.columns)
            found = found[found[name] == value]
        if len(found) != 1:
            words = ", ".join(f"{name}={value!r}" for name, value in asked.items())
            raise UserError(f"{len(found)} runs have {words or 'any values'}: name one of them")
        return self[str(found.index[0])]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run, by its id: method, scenario, variant, seed, how it ended, accuracy at the
        method's evaluation point (mean and std over clients), megabytes and seconds per round.
        """
        rows = []
        for id, words in self._words.items():
            row: dict[str, Any] = {"status": self._made.ended.get(id, "stopped"), "reason": ""}
            row["reason"] = str(self._made.leases.status(id).get("reason", ""))
            if id in self._recorded:
                row |= summary.row(runs.single_run(self[id].folder, runs.Choice()))
            rows.append({**row, **words, "id": id})
        return pd.DataFrame(rows).set_index("id").reindex(columns=[*WORDS, *RESULTS])

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per run and round, see `LoadedRun.rounds`."""
        return self._joined("rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per run, round and client, see `LoadedRun.clients`."""
        return self._joined("clients")

    @cached_property
    def logs(self) -> pd.DataFrame:
        """All that the methods logged, see `LoadedRun.logs`."""
        return self._joined("logs")

    @cached_property
    def notes(self) -> pd.DataFrame:
        """What the records say is off, by run and round."""
        return self._joined("notes")

    @cached_property
    def hyperparameters(self) -> pd.DataFrame:
        """The hyperparameters of every run, and their defaults."""
        return self._joined("hyperparameters")

    def warn_of_failures(self) -> None:
        """A warning for every run that did not finish."""
        for id, state in self._made.ended.items():
            if state not in ("finished", "outdated"):
                reason = self._made.leases.status(id).get("reason", "the same call resumes it")
                warnings.warn(f"{state}: {self._made.runs[id].name}: {reason}", stacklevel=3)

    @property
    def _words(self) -> dict[str, dict[str, Any]]:
        return {
            id: {
                "method": planned.run.algorithm,
                "scenario": planned.scenario,
                "variant": planned.variant,
                "seed": planned.run.seed,
            }
            for id, planned in self._made.runs.items()
        }

    @cached_property
    def _recorded(self) -> list[str]:
        """The runs that have records: one that failed early has none."""
        reader = self._made.reader
        reader.refresh()
        folders = {id: reader.state(run).folder for id, run in self._made.runs.items()}
        return [id for id, folder in folders.items() if (folder / "run.json").is_file()]

    def _joined(self, name: str) -> pd.DataFrame:
        frames = []
        for id in self._recorded:
            frame = getattr(self[id], name)
            if frame.index.name:
                frame = frame.reset_index()
            for place, (key, value) in enumerate(self._words[id].items()):
                frame = frame.copy() if place == 0 else frame
                frame.insert(place, key, value)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=WORDS)

    def __repr__(self) -> str:
        return f"<{len(self)} runs in {self.folder}>\n{self.runs!r}"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return str(self.runs.to_html())
