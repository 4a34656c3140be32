"""What a sweep set out to do, kept in its folder as `plans/<name>.json`: there one sees what is missing."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflbench.errors import UserError
from pflbench.records import run_folder


@dataclass(frozen=True)
class Planned:
    """A run in its place of an experiment."""

    id: str
    plugin: str  # what registry.load takes
    setting: str  # in words, as the experiment has it
    variant: str
    config: dict[str, Any]  # as in run.json

    @property
    def name(self) -> str:
        """For messages: "fedavg, digits dir:0.1, seed 0"."""
        words = [
            self.config["algorithm"],
            self.setting,
            self.variant,
            f"seed {self.config['seed']}",
        ]
        return ", ".join(filter(None, words))


@dataclass(frozen=True)
class Plan:
    """All runs of an experiment at a scale."""

    name: str
    title: str
    scale: str
    command: str  # that makes them
    runs: tuple[Planned, ...]

    def unique(self) -> dict[str, Planned]:
        """Every run once, by its id: all cells of the first seed, then of the next."""
        return {run.id: run for run in sorted(self.runs, key=lambda run: run.config["seed"])}

    def write(self, folder: Path) -> None:
        """Keep it, in place of an earlier plan of this name."""
        content = {**self.__dict__, "runs": [run.__dict__ for run in self.runs]}
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
        content = run_folder.read_json(path)
        try:
            runs = tuple(Planned(**run) for run in content.pop("runs"))
            found.append(Plan(**content, runs=runs))
        except (KeyError, TypeError) as error:
            raise UserError(
                f"{path} is not a plan of this version ({error}); remove it and sweep again"
            ) from error
    return found
