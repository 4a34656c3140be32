"""One run of a sweep, wherever it is done."""

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pflbench.config import Run
from pflbench.errors import RunFailed, UserError
from pflbench.records.leases import Lease, LeaseLost
from pflbench.records.run_folder import RunFolder, Unwritable
from pflbench.simulation import runner


@dataclass(frozen=True)
class Task:
    """A run that this sweep has the lease of."""

    run: Run
    plugin: str
    folder: Path  # of the sweep
    lease: Lease
    scale: str
    checkpoint_every: int = 10
    state_memory: float = 2.0
    data_root: Path | None = None
    device: str = "cpu"


class Launcher(Protocol):
    """A place with room for some runs at a time."""

    def room(self) -> int:
        """How many more tasks can be submitted now."""

    def submit(self, task: Task) -> None:
        """Begin a task."""

    def ended(self, timeout: float) -> dict[str, str | None]:
        """The tasks that have ended, by the run's id, after at most `timeout` seconds of waiting: None where `do`
        returned and the run's records tell the rest, else why nothing more can be done here.
        """

    def stop(self) -> None:
        """Let all running tasks save a checkpoint and end."""

    def close(self) -> None:
        """Leave nothing behind."""


def do(task: Task) -> str | None:
    """Do a run, or what is left of it. How it ended is in its `status.json`; the answer says why the whole sweep
    cannot go on, if that is so.
    """
    try:
        setup = runner.prepare(task.run, task.plugin, task.data_root, task.device)
        how: dict[str, Any] = {
            "checkpoint_every": task.checkpoint_every,
            "state_memory": task.state_memory,
        }
        runner.execute(setup, task.folder, renew=True, scale=task.scale, lease=task.lease, **how)
    except (KeyboardInterrupt, LeaseLost):
        pass  # its records say all there is to say
    except RunFailed as failure:
        if (
            RunFolder(task.folder / task.run.id, task.run.id).status.get("status") != "failed"
        ):  # before the first round
            return failed(task, str(failure), failure.details)
    except Unwritable as error:
        return str(error)
    except Exception as error:
        reason = (
            str(error)
            if isinstance(error, UserError)
            else f"{type(error).__name__}: {error}".partition("\n")[0]
        )
        return failed(task, reason, traceback.format_exc())
    return None


def failed(task: Task, reason: str, details: str = "") -> str | None:
    """Put down that a run failed where the run itself could not."""
    if not task.lease.held():
        return None  # the run is another's now
    records = RunFolder(task.folder / task.run.id, task.run.id)
    try:
        records.folder.mkdir(parents=True, exist_ok=True)
        records.finish("failed", 0, reason, details)
    except (OSError, Unwritable) as error:
        return str(error)
    return None
