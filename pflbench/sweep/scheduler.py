"""A sweep: every run of a plan that nobody has done, claimed, done somewhere, and put down."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pflbench.data.prepared import Data
from pflbench.methods import versions
from pflbench.records.leases import FINAL, HEARTBEAT, Lease, Leases
from pflbench.records.plan import Planned
from pflbench.records.run_folder import Unwritable
from pflbench.records.status import OUTDATED, RunState, RunStatus, StatusReader
from pflbench.records.verification import how_it_ended, unusable
from pflbench.sweep.launchers.task import Launcher, Task

LOOK_AGAIN = 5.0  # seconds after which a run that another sweep holds is looked at again
GLANCE = 0.5  # seconds between two looks at the running runs


@dataclass
class Sweep:
    """The runs of a plan at work. `watch` is called from time to time, and with the run's id when
    one has ended.
    """

    folder: Path
    runs: Mapping[str, Planned]
    data: Mapping[str, Data]  # by the name of the data set
    launcher: Launcher
    scale: str
    checkpoint_every: int = 10
    state_memory: float = 2.0
    save_models: bool = False
    strict: bool = False
    retry_failed: bool = False
    keep_outdated: bool = False
    watch: Callable[["Sweep", str | None], None] = lambda sweep, ended: None
    ended: dict[str, str] = field(default_factory=dict)  # how every run ended
    outdated: dict[str, RunState] = field(default_factory=dict)  # finished in another version only
    # runs that have neither ended nor started here
    waiting: list[str] = field(default_factory=list)
    held: dict[str, Lease] = field(default_factory=dict)  # of the runs at work here
    elsewhere: dict[str, float] = field(default_factory=dict)  # held by others; when to look again

    def open(self) -> None:
        """Make the folder and see which runs are left."""
        self.leases = Leases(self.folder)
        self.leases.open()
        self.reader = StatusReader(self.leases, versions.current)
        self.waiting = [run for run in self.runs if not self._has_ended(run)]

    def run(self) -> None:
        """Do all that `open` has left. Returns when every run has ended, here or elsewhere."""
        over = threading.Event()
        threading.Thread(target=self._beat, args=(over,), daemon=True).start()
        try:
            while self.waiting or self.held:
                if self.launcher.room() > 0 and (task := self._next()):
                    self.launcher.submit(task)
                    self.watch(self, None)
                    continue
                for run, obstacle in self.launcher.ended(GLANCE).items():
                    self._put_down(run)
                    if obstacle:
                        raise Unwritable(obstacle)
                self.watch(self, None)
        except BaseException:
            self.launcher.stop()
            raise
        finally:
            over.set()
            self.launcher.close()  # before any lease is given back: nothing is written after that
            for run in list(self.held):
                self._put_down(run)

    def add(self, runs: Mapping[str, Planned]) -> None:
        """More runs, while it is at work; those that it has are left as they are."""
        new = {id: run for id, run in runs.items() if id not in self.runs}
        self.runs = {**self.runs, **new}
        self.waiting += new

    def status(self, run: str) -> RunStatus:
        """How far a run is; one of another version only that is run again is missing."""
        found = self.reader.status(self.runs[run])
        if found.outdated and not self.keep_outdated:
            return RunStatus(found.planned, "missing", self.folder / run, found.planned.version)
        return found

    def _has_ended(self, run: str) -> bool:
        """Whether there is nothing to do for a run; a failed one is done again only on request."""
        found = self.reader.state(self.runs[run])
        if found.outdated:
            self.outdated[run] = found
            if self.keep_outdated:
                self.ended[run] = OUTDATED
            return self.keep_outdated
        if found.state not in FINAL and (found.state != "failed" or self.retry_failed):
            return False
        if unusable(found.folder):
            return False
        self.ended[run] = found.state
        lease = self.reader.held.get(run)
        if lease is not None and self.leases.expired(lease):
            # its owner died between the last record and giving it back
            lease.unlink(missing_ok=True)
        return True

    def _next(self) -> Task | None:
        """The first run that is free, taken out of the waiting ones."""
        for run in list(self.waiting):
            if self.elsewhere.get(run, 0.0) > time.monotonic():
                continue
            lease = self.leases.claim(run)
            if lease is None:
                self.elsewhere[run] = time.monotonic() + LOOK_AGAIN
                continue
            self.waiting.remove(run)
            self.elsewhere.pop(run, None)
            before = how_it_ended(self.folder / run)[0]
            ended = before in FINAL or (before == "failed" and not self.retry_failed)
            if ended and not unusable(self.folder / run):
                lease.release()  # it ended between our looking and our claiming
                self.ended[run] = before
                self.watch(self, run)
                continue
            self.held[run] = lease
            self.leases.note(run, "started")
            planned = self.runs[run]
            return Task(
                planned.run,
                planned.plugin,
                self.data[planned.run.dataset],
                self.folder,
                lease,
                self.scale,
                self.checkpoint_every,
                self.state_memory,
                save_models=self.save_models,
                strict=self.strict,
            )
        return None

    def _put_down(self, run: str) -> None:
        """A run is at work here no more: say how it ended, and let go of it."""
        lease = self.held.pop(run)
        if not lease.held():  # taken over while this process slept: it ends elsewhere
            self.waiting.append(run)
            return
        self.ended[run] = str(self.leases.status(run).get("status", "stopped"))
        with contextlib.suppress(Unwritable):  # the run's own records matter more than its history
            self.leases.note(run, self.ended[run])
        lease.release()
        self.watch(self, run)

    def _beat(self, over: threading.Event) -> None:
        """Touch the leases of all runs at work here; in a thread, for the screen may block this
        process.
        """
        while not over.wait(HEARTBEAT):
            for lease in list(self.held.values()):
                with contextlib.suppress(Unwritable):  # then it expires, which is right
                    lease.touch()
