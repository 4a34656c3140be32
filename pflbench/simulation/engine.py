"""Run one client function for a cohort: one after another, or in persistent worker processes.

Both give the same bits: every worker computes with one thread, random streams have names, and
nothing is shared.
"""

import pickle
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch

from pflbench.api import Message
from pflbench.errors import RunFailed
from pflbench.simulation import fork_server, messages
from pflbench.simulation.client_worker import ClientJob, ClientResult, ClientWorker, Setup


class Engine(Protocol):
    """Does the jobs of clients; the results come in any order."""

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]: ...

    def close(self) -> None: ...


def start(setup: Setup, workers: int) -> Engine:
    """An engine with this many workers; one means: in this process."""
    return Serial(setup) if workers == 1 else Processes(setup, workers)


class Serial:
    """In this process, one client after another."""

    def __init__(self, setup: Setup) -> None:
        self.worker = ClientWorker(setup)

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        """Do the jobs in the order given."""
        return [self.worker.work(job) for job in jobs]

    def close(self) -> None:
        """Nothing to stop."""


class Processes:
    """Persistent worker processes; the client with most samples first, so that none is waited for
    at the end.
    """

    def __init__(self, setup: Setup, workers: int) -> None:
        self.sizes = [len(rows) for rows in setup.partition.train]
        context = fork_server.context()
        self.workers: dict[Connection, BaseProcess] = {}
        self.shared: dict[int, bytes] = {}  # messages of the jobs at hand, by identity
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_worker, args=(theirs, setup), daemon=True)
            fork_server.start(process)
            theirs.close()
            self.workers[ours] = process

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        """Hand out jobs as workers become free."""
        waiting = sorted(jobs, key=lambda job: self.sizes[job.client])
        self.shared = {
            key: b"" for key, times in Counter(id(job.message) for job in jobs).items() if times > 1
        }
        busy: dict[Connection, ClientJob] = {}
        results: list[ClientResult] = []
        for pipe in self.workers:
            self._hand_out(pipe, waiting, busy)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                results.append(self._receive(ready, busy.pop(ready)))
                self._hand_out(ready, waiting, busy)
        return results

    def _hand_out(
        self, pipe: Connection, waiting: list[ClientJob], busy: dict[Connection, ClientJob]
    ) -> None:
        if waiting:
            job = busy[pipe] = waiting.pop()
            try:
                pipe.send_bytes(
                    _pickled(replace(job, message={}, state=messages.packed(job.state)))
                )
                pipe.send_bytes(self._message(job.message))
            except OSError:
                raise self._dead(pipe, job) from None

    def _message(self, message: Message) -> bytes:
        """A message as bytes; one that goes to several clients is pickled once."""
        content = self.shared.get(id(message)) or _pickled(messages.packed(message))
        if id(message) in self.shared:
            self.shared[id(message)] = content
        return content

    def _receive(self, pipe: Connection, job: ClientJob) -> ClientResult:
        try:
            answer = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._dead(pipe, job) from None
        if isinstance(answer, RunFailed):
            raise answer
        assert isinstance(answer, ClientResult)
        return replace(
            answer, reply=messages.unpacked(answer.reply), state=messages.unpacked(answer.state)
        )

    def _dead(self, pipe: Connection, job: ClientJob) -> RunFailed:
        process = self.workers[pipe]
        process.join(5)
        code = process.exitcode
        reason = "out of memory?" if code == -signal.SIGKILL else f"exit code {code}"
        return RunFailed(
            f"a worker process died ({reason}) in round {job.round + 1}, client {job.client}, {job.stage}(); "
            "the same command resumes, --workers 1 needs the least memory"
        )

    def close(self) -> None:
        """Stop the workers."""
        for pipe in self.workers:
            pipe.close()
        for process in self.workers.values():
            process.join(1)  # an idle worker leaves at once, one at work need not finish
            process.kill()
            process.join()


def _pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)


def _worker(pipe: Connection, setup: Setup) -> None:
    """Do jobs until the other side closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr  # what a plugin prints is no output of the command
    torch.set_num_threads(1)
    worker = ClientWorker(setup)
    while True:
        try:
            job: ClientJob = pickle.loads(pipe.recv_bytes())
            message = messages.unpacked(pickle.loads(pipe.recv_bytes()))
        except (EOFError, OSError):
            return
        try:
            result = worker.work(replace(job, message=message, state=messages.unpacked(job.state)))
            answer: Any = replace(
                result, reply=messages.packed(result.reply), state=messages.packed(result.state)
            )
        except RunFailed as failure:
            answer = failure
        try:
            pipe.send_bytes(_pickled(answer))
        except OSError:
            return
