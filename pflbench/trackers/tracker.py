"""What a tracker is, and which there are."""

import importlib
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pflbench.errors import UserError, unknown
from pflbench.trackers.points import Point, TrackedRun

LONGEST = 200  # characters of a reason
KINDS = ("tensorboard", "mlflow", "wandb")


class Session(Protocol):
    """A run in a tracker. Rounds that the tracker has of an earlier session are not written twice."""

    def write(self, points: Sequence[Point]) -> None:
        """Add the numbers of rounds."""

    def end(self, status: str) -> None:
        """The run is finished, diverged, failed or stopped."""


class Tracker(Protocol):
    """Something that shows runs."""

    place: str  # where it keeps them
    hint: str  # what the user does then, or ""

    def start(self, run: TrackedRun) -> Session:
        """Begin a run, or go on with it."""


def make(asked: str, folder: Path) -> Tracker:
    """The tracker of KIND or KIND=WHERE; without WHERE it keeps its files in the folder."""
    kind, _, where = asked.partition("=")
    if kind not in KINDS:
        raise unknown("tracker", kind, KINDS)
    try:
        module = importlib.import_module(f"pflbench.trackers.to_{kind}")
    except ImportError as error:
        raise UserError(
            f"tracker {kind} needs packages that are not installed ({error.name});"
            " get them with: pip install 'pflbench[trackers]'"
        ) from error
    made: Tracker = module.make(where, folder)
    return made


def reason(error: BaseException) -> str:
    """What went wrong in a tracker, in one line that can be read."""
    text = str(error).strip().partition("\n")[0]
    return textwrap.shorten(text, LONGEST, placeholder=" ...") or type(error).__name__
