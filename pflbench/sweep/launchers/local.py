"""Runs in processes of this machine, each with one thread; a process that dies takes its own run
with it only.
"""

import _thread
import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from pflbench.errors import UserError
from pflbench.output import warnings_in_one_line
from pflbench.simulation import fork_server
from pflbench.sweep.launchers.task import Task, do, failed

STOP = "stop"
SECONDS_TO_SAVE = 60.0  # that a run has to write its checkpoint when the sweep is stopped


class Worker:
    """A process that does one task after another."""

    def __init__(self, device: str) -> None:
        context = fork_server.context()
        self.device = device
        self.task: Task | None = None
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        fork_server.start(self.process)
        theirs.close()

    def died(self) -> str:
        """How, in words."""
        self.process.join(5)
        code = self.process.exitcode
        why = "killed, out of memory?" if code == -signal.SIGKILL else f"exit code {code}"
        return f"its process died ({why})"


class Local:
    """As many processes as there are `devices`, one run at a time on each."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = list(devices)
        self.workers: list[Worker] = []

    def room(self) -> int:
        """How many more tasks can be submitted now."""
        return len(self.devices) - sum(worker.task is not None for worker in self.workers)

    def submit(self, task: Task) -> None:
        """Start a task on an idle worker, or on a new one."""
        self.workers = [
            worker
            for worker in self.workers
            if worker.task is not None or worker.process.is_alive()
        ]
        idle = [worker for worker in self.workers if worker.task is None]
        if not idle:
            devices = list(self.devices)
            for worker in self.workers:
                devices.remove(worker.device)
            idle = [Worker(devices[0])]
            self.workers += idle
        worker = idle[0]
        worker.task = replace(task, device=worker.device)
        with contextlib.suppress(OSError):  # it is dead: `ended` will find out
            worker.pipe.send(worker.task)

    def ended(self, timeout: float) -> dict[str, str | None]:
        """The tasks that have ended; see `Launcher`. A worker that died is replaced when it is
        needed.
        """
        busy = {worker.pipe: worker for worker in self.workers if worker.task is not None}
        answers: dict[str, str | None] = {}
        for ready in wait(list(busy), timeout):
            assert isinstance(ready, Connection)
            worker = busy[ready]
            assert worker.task is not None
            try:
                answers[worker.task.run.id] = ready.recv()
            except (EOFError, OSError):
                answers[worker.task.run.id] = failed(worker.task, worker.died())
                self.workers.remove(worker)
                ready.close()
            worker.task = None
        return answers

    def stop(self) -> None:
        """Let all running tasks save a checkpoint and end."""
        for worker in self.workers:
            with contextlib.suppress(OSError):
                worker.pipe.send(STOP)
        deadline = time.monotonic() + SECONDS_TO_SAVE
        for worker in self.workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.pipe.close()
            worker.process.join(1)
            worker.process.kill()
            worker.process.join()
        self.workers = []


def devices(name: str, jobs: int, runs_per_gpu: int = 1, limit: int | None = None) -> list[str]:
    """The device of every run at a time: `jobs` on the CPU, `runs_per_gpu` on every GPU (or on the
    one named).
    """
    if not name.startswith("cuda"):
        return [name] * jobs
    import torch

    gpus = (
        [name] if ":" in name else [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    )
    if not gpus:
        raise UserError("device 'cuda' cannot be used here: torch finds no GPU")
    return (gpus * runs_per_gpu)[:limit]


def _work(pipe: Connection) -> None:
    """In a worker: tasks come in, answers go out. A second thread hears the parent while a run is
    at work.
    """
    tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, _interrupt)
    busy = threading.Event()
    threading.Thread(target=_listen, args=(pipe, tasks, busy), daemon=True).start()
    try:
        while (task := tasks.get()) is not None:
            busy.set()
            with warnings_in_one_line():
                answer = do(task)
            busy.clear()
            pipe.send(answer)
    except (OSError, KeyboardInterrupt):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # an idle process that is stopped just ends


def _interrupt(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: saving must not be broken off
    raise KeyboardInterrupt


def _listen(
    pipe: Connection, tasks: "queue.SimpleQueue[Task | None]", busy: threading.Event
) -> None:
    while True:
        try:
            received = pipe.recv()
        except Exception:  # of a task whose data are gone, too
            os._exit(1)  # the parent is dead and its lease is free: not one more line is written
        if received == STOP:
            tasks.put(None)
            if busy.is_set():
                # the main thread saves a checkpoint and ends
                _thread.interrupt_main(signal.SIGTERM)
        else:
            tasks.put(received)
