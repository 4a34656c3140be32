"""Runs at work, shown as their rounds end: a thread reads their records and writes to trackers.

No run waits for a tracker, and none can be harmed by one. Only what is recorded is shown.
"""

import threading
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from pflbench.records import run_folder
from pflbench.trackers.points import Reader, described
from pflbench.trackers.tracker import Session, Tracker, make, reason

PAUSE = 0.5  # seconds between two looks at the records
PATIENCE = 60.0  # seconds that trackers have when the last run has ended


class Live:
    """Several trackers at work for the runs of a folder: each as NAME or NAME=WHERE."""

    def __init__(self, asked: Iterable[str], folder: Path) -> None:
        made = {one.partition("=")[0]: make(one, folder) for one in asked}
        self.followers = [Follower(name, tracker, folder) for name, tracker in made.items()]

    def __enter__(self) -> Self:
        for follower in self.followers:
            follower.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        deadline = time.monotonic() + PATIENCE
        for follower in self.followers:
            follower.over.set()
        for follower in self.followers:
            follower.thread.join(max(0.0, deadline - time.monotonic()))
            if follower.thread.is_alive():
                _warn(follower.name, f"it has not taken all after {PATIENCE:.0f} seconds")

    def see(self, at_work: Iterable[str], ended: str | None = None) -> None:
        """These runs are at work, and this one is no more."""
        runs = list(at_work)
        for follower in self.followers:
            follower.see(runs, ended)


class Follower:
    """Writes runs to a tracker, in a thread of its own. A tracker that fails is named in a warning
    and left alone from then on.
    """

    def __init__(self, name: str, tracker: Tracker, folder: Path) -> None:
        self.name = name
        self.tracker = tracker
        self.folder = folder
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.over = threading.Event()
        self._runs: dict[str, Followed] = {}
        self._ended: set[str] = set()

    def see(self, at_work: Iterable[str], ended: str | None) -> None:
        for run in at_work:
            if run not in self._runs:
                self._runs[run] = Followed(self.folder / run, self.tracker)
        if ended is not None:
            self._ended.add(ended)

    def _work(self) -> None:
        try:
            while not self.over.wait(PAUSE):
                self._look()
            self._ended |= set(self._runs)
            self._look()
        except Exception as error:  # of any kind: they are the packages' own
            _warn(self.name, reason(error))

    def _look(self) -> None:
        """Write what is new, and close what has ended."""
        ended = self._ended & set(self._runs)
        for run, followed in list(self._runs.items()):
            followed.show(run in ended)
        for run in ended:
            del self._runs[run]
        self._ended -= ended


class Followed:
    """A run, as far as it is written to the tracker."""

    def __init__(self, folder: Path, tracker: Tracker) -> None:
        self.folder = folder
        self.tracker = tracker
        self.reader = Reader(folder)
        self.session: Session | None = None

    def show(self, ended: bool) -> None:
        """Write what is new, and say at the end how the run ended."""
        path = self.folder / "status.json"
        if not ended and path.exists():
            return  # records of an earlier attempt: the run has not started yet
        status = str(run_folder.read_or_nothing(path).get("status", "stopped"))
        found = self.reader.new()
        if found and self.session is None:
            self.session = self.tracker.start(described(self.folder))
        if self.session is not None:
            self.session.write(found)
            if ended:
                self.session.end(status)


def _warn(tracker: str, why: str) -> None:
    warnings.warn(
        f"tracker {tracker} failed: {why}; the runs continue, and 'pflbench export' writes what is missing",
        stacklevel=2,
    )
