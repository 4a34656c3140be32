"""One run of a sweep, wherever it is done."""

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pflbench.config import Run
from pflbench.data.prepared import Data
from pflbench.errors import RunFailed, UserError
from pflbench.methods import versions
from pflbench.records.leases import Lease, LeaseLost
from pflbench.records.run_folder import RunFolder, Unwritable
from pflbench.records.verification import unusable
from pflbench.simulation import runner


@dataclass(frozen=True)
class Task:
    """A run that this sweep has the lease of."""

    run: Run
    plugin: str
    data: Data  # pickles as the path of its prepared folder
    folder: Path  # of the sweep
    lease: Lease
    scale: str
    checkpoint_every: int = 10
    state_memory: float = 2.0
    device: str = "cpu"
    save_models: bool = False
    strict: bool = False  # never goes on with what was started on another kind of machine


class Launcher(Protocol):
    """Something that does runs, some at a time."""

    def room(self) -> int:
        """How many more tasks can be submitted now."""

    def submit(self, task: Task) -> None:
        """Start a task."""

    def ended(self, timeout: float) -> dict[str, str | None]:
        """The tasks that have ended, by the run's id, after at most `timeout` seconds of waiting:
        None where `do` returned and the run's records say the rest, else why nothing more can be
        done here.
        """

    def stop(self) -> None:
        """Let all running tasks save a checkpoint and end."""

    def close(self) -> None:
        """Leave nothing behind."""


def do(task: Task) -> str | None:
    """Do a run, or what is left of it. How it ended is in its `status.json`; the answer says why
    the whole sweep cannot go on, if that is so.
    """
    if versions.current(task.plugin) not in ("", task.run.version):
        return failed(
            task,
            "the method's code changed after the sweep started;"
            " the same command runs it as it is now",
        )
    try:
        setup = runner.prepare(task.run, task.plugin, device=task.device, data=task.data)
        damaged = unusable(task.folder / task.run.id) != ""
        runner.execute(
            setup,
            task.folder,
            fresh=damaged,
            strict=task.strict,
            checkpoint_every=task.checkpoint_every,
            state_memory=task.state_memory,
            save_models=task.save_models,
            scale=task.scale,
            lease=task.lease,
        )
    except (KeyboardInterrupt, LeaseLost):
        pass  # the run's records say what happened
    except RunFailed as failure:
        status = RunFolder(task.folder / task.run.id, task.run.id).status
        if status.get("status") != "failed":  # it failed before the first round
            return failed(task, str(failure), failure.details)
    except Unwritable as error:
        return str(error)
    except runner.AnotherMachine as error:
        return recorded(task, "stopped", error.round, str(error))
    except Exception as error:
        reason = str(error)
        if not isinstance(error, UserError):
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        return failed(task, reason, traceback.format_exc())
    return None


def failed(task: Task, reason: str, details: str = "") -> str | None:
    """Record that a run failed where the run itself could not."""
    return recorded(task, "failed", 0, reason, details)


def recorded(task: Task, status: str, round: int, reason: str, details: str = "") -> str | None:
    """Record how a run ended where the run itself could not; the answer is that of `do`."""
    if not task.lease.held():
        return None  # another process has the run now
    records = RunFolder(task.folder / task.run.id, task.run.id)
    try:
        records.folder.mkdir(parents=True, exist_ok=True)
        records.finish(status, round, reason, details)
    except (OSError, Unwritable) as error:
        return str(error)
    return None
