"""A sweep: every run of a plan that nobody has done, claimed, done somewhere, and put down."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pflbench import config
from pflbench.records.leases import FINAL, HEARTBEAT, Lease, Leases
from pflbench.records.plan import Planned
from pflbench.records.run_folder import Unwritable
from pflbench.sweep.launchers.task import Launcher, Task

LOOK_AGAIN = 5.0  # seconds after which a run that another sweep holds is looked at again
GLANCE = 0.5  # seconds between two looks at the running runs


@dataclass
class Sweep:
    """The runs of a plan at work. `watch` is called from time to time, and with the run's id when one has ended."""

    folder: Path
    runs: Mapping[str, Planned]
    launcher: Launcher
    scale: str
    checkpoint_every: int = 10
    state_memory: float = 2.0
    data_root: Path | None = None
    retry_failed: bool = False
    watch: Callable[["Sweep", str | None], None] = lambda sweep, ended: None
    ended: dict[str, str] = field(default_factory=dict)  # how every run ended
    waiting: list[str] = field(
        default_factory=list
    )  # runs that have not ended and are not at work here
    leases: dict[str, Lease] = field(default_factory=dict)  # of the runs at work here
    elsewhere: dict[str, float] = field(
        default_factory=dict
    )  # runs that another sweep holds, and when to look again

    def run(self) -> None:
        """Do all of it. Returns when every run has ended, here or elsewhere."""
        self.ledger = Leases(self.folder)
        self.ledger.open()
        self.waiting = self._left()
        over = threading.Event()
        threading.Thread(target=self._beat, args=(over,), daemon=True).start()
        try:
            while self.waiting or self.leases:
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
            for run in list(self.leases):
                self._put_down(run)

    def add(self, runs: Mapping[str, Planned]) -> None:
        """More runs, while it is at work; those that it has are left as they are."""
        new = {id: run for id, run in runs.items() if id not in self.runs}
        self.runs = {**self.runs, **new}
        self.waiting += new

    def _left(self) -> list[str]:
        """The runs that have not ended, in order; a failed one only on request."""
        left, leases = [], self.ledger.leases()
        for run in self.runs:
            status = self.ledger.status(run).get("status")
            if status in FINAL or (status == "failed" and not self.retry_failed):
                self.ended[run] = str(status)
                if run in leases and self.ledger.expired(leases[run]):
                    leases[run].unlink(
                        missing_ok=True
                    )  # its owner died between the last record and giving it back
            else:
                left.append(run)
        return left

    def _next(self) -> Task | None:
        """The first run that is free, taken out of the waiting ones."""
        for run in list(self.waiting):
            if self.elsewhere.get(run, 0.0) > time.monotonic():
                continue
            lease = self.ledger.claim(run)
            before = self.ledger.status(run)
            if lease is None:
                self.elsewhere[run] = time.monotonic() + LOOK_AGAIN
                continue
            self.waiting.remove(run)
            self.elsewhere.pop(run, None)
            if before.get("status") in FINAL or (
                before.get("status") == "failed" and not self.retry_failed
            ):
                lease.release()  # it ended between our looking and our claiming
                self.ended[run] = before["status"]
                self.watch(self, run)
                continue
            self.leases[run] = lease
            self.ledger.note(run, "started")
            planned = self.runs[run]
            chosen = config.read(planned.config)
            how = self.checkpoint_every, self.state_memory, self.data_root
            return Task(chosen, planned.plugin, self.folder, lease, self.scale, *how)
        return None

    def _put_down(self, run: str) -> None:
        """A run is at work here no more: say how it ended, and let go of it."""
        lease = self.leases.pop(run)
        if not lease.held():  # taken over while this process slept: it ends elsewhere
            self.waiting.append(run)
            return
        self.ended[run] = str(self.ledger.status(run).get("status", "stopped"))
        with contextlib.suppress(Unwritable):  # the run's own records matter more than its history
            self.ledger.note(run, self.ended[run])
        lease.release()
        self.watch(self, run)

    def _beat(self, over: threading.Event) -> None:
        """Touch the leases of all runs at work here; in a thread, for the screen may block this process."""
        while not over.wait(HEARTBEAT):
            for lease in list(self.leases.values()):
                with contextlib.suppress(Unwritable):  # then it expires, which is right
                    lease.touch()
