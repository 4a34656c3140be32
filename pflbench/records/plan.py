"""What a sweep set out to do, kept in its folder as `plans/<name>.json`: there one sees what is
missing.
"""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pflbench.config import Run, as_json, read_run
from pflbench.errors import UserError
from pflbench.records import report_options, run_folder, schema
from pflbench.records.report_options import ReportOptions


@dataclass(frozen=True)
class Planned:
    """A run in its place of an experiment."""

    id: str
    plugin: str  # what registry.load takes
    scenario: str  # in words, as the experiment has it
    variant: str
    run: Run

    @cached_property
    def config(self) -> dict[str, Any]:
        """The run as plain values, as in run.json."""
        return as_json(self.run)

    @property
    def version(self) -> str:
        """Of the method's code when the run was planned; "" where it is unknown."""
        return self.run.version

    @property
    def name(self) -> str:
        """For messages: "fedavg, digits dir:0.1, seed 0"."""
        words = [self.run.algorithm, self.scenario, self.variant, f"seed {self.run.seed}"]
        return ", ".join(filter(None, words))

    def as_json(self) -> dict[str, Any]:
        """As it is stored in a plan."""
        words = {"plugin": self.plugin, "scenario": self.scenario, "variant": self.variant}
        return {"id": self.id, **words, "config": self.config}


@dataclass(frozen=True)
class Plan:
    """All runs of an experiment at a scale."""

    name: str
    title: str
    scale: str
    command: str  # that makes them
    runs: tuple[Planned, ...]
    report: ReportOptions = field(default_factory=ReportOptions)

    def unique(self) -> dict[str, Planned]:
        """Every run once, by its id: all cells of the first seed, then of the next."""
        return {
            planned.id: planned
            for planned in sorted(self.runs, key=lambda planned: planned.run.seed)
        }

    def write(self, folder: Path) -> None:
        """Keep it, in place of an earlier plan of this name."""
        parts = {"runs": [run.as_json() for run in self.runs], "report": self.report.as_json()}
        content = {**vars(self), **parts}
        path = folder / "plans" / f"{self.name}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise run_folder.unwritable(folder, error) from error
        run_folder.write(path, json.dumps(content, indent=1).encode())


def read(folder: Path) -> list[Plan]:
    """The plans of a folder, by name."""
    found = []
    for path in sorted((folder / "plans").glob("*.json")):
        try:
            found.append(_read(path))
        except UserError as error:
            warnings.warn(f"{error}; it is left out", stacklevel=2)
    return found


def _read(path: Path) -> Plan:
    try:
        content = run_folder.read_json(path, schema.PLAN)
        runs = tuple(_planned(**run) for run in content.pop("runs"))
        looks = report_options.read(content.pop("report", {}), str(path))
        return Plan(**content, runs=runs, report=looks)
    except (KeyError, TypeError, UserError) as error:  # the first two are of names
        raise UserError(
            f"{path} is not a plan of this version ({error}); remove it and sweep again"
        ) from error


def _planned(config: Mapping[str, Any], **words: str) -> Planned:
    return Planned(**words, run=read_run(config))
