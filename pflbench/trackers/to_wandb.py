"""Weights & Biases: a run for every run; in files that `wandb sync` sends, unless WANDB_MODE says
otherwise.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when it is imported

import wandb

from pflbench.trackers.points import Point, TrackedRun

OFFLINE = "offline"


class WeightsAndBiases:
    """A folder of wandb's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mode = os.environ.get("WANDB_MODE", OFFLINE)
        self.place = f"{folder}/wandb"
        self.hint = ""
        if self.mode == OFFLINE:
            self.hint = f"send it with: wandb sync {self.place}/offline-run-*"

    def start(self, run: TrackedRun) -> "WandbRun":
        """Begin a run; what an earlier session left in files is replaced."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in (self.folder / "wandb").glob(f"offline-run-*-{run.id}"):
            shutil.rmtree(path)
        settings = wandb.Settings(
            silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True
        )
        begun = wandb.init(
            dir=str(self.folder),
            project=os.environ.get("WANDB_PROJECT", f"pflbench-{run.group}"),
            id=run.id,
            name=run.id,
            config={**run.parameters, **run.tags},
            mode=self.mode,  # type: ignore[arg-type]  # wandb says what is wrong with it
            resume=None if self.mode == OFFLINE else "allow",
            reinit="create_new",
            settings=settings,
        )
        return WandbRun(begun)


class WandbRun:
    """A run in wandb. Rounds before the one that it goes on with are there already."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.first = run.starting_step

    def write(self, points: Sequence[Point]) -> None:
        for point in points:
            if point.round >= self.first:
                self.run.log(dict(point.values), step=point.round)

    def end(self, status: str) -> None:
        self.run.summary["status"] = status
        self.run.finish(exit_code=0 if status == "finished" else 1)


def make(where: str, folder: Path) -> WeightsAndBiases:
    """The tracker of a folder."""
    return WeightsAndBiases((Path(where) if where else folder).absolute())
