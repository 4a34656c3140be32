"""Runs as tasks of a Ray cluster, local or existing; all its machines see the sweep's folder on a
shared file system.

Ray finds room, starts tasks and repeats those whose worker or node died; a repeated task goes on
from its checkpoint. A node that is cut off breaks no connection, and Ray would wait for its tasks
for many minutes: they are repeated as soon as the cluster has given the node up.
"""

import os
import pickle
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pflbench.errors import RunFailed, UserError
from pflbench.sweep.launchers.local import SECONDS_TO_SAVE
from pflbench.sweep.launchers.task import Task, do, failed

RETRIES = 5  # of a task whose worker or node died
REFUSED = (OSError, ValueError, RuntimeError, OverflowError)  # by a cluster that is not one


class OnRay:
    """A cluster at `address` (None: a new one on this machine, with room for `jobs`; "auto": the
    one this machine is part of). A run needs one core, and a part of a GPU where `device` is one.
    """

    def __init__(
        self, address: str | None, jobs: int | None, device: str = "cpu", runs_per_gpu: int = 1
    ) -> None:
        if address is not None:
            os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "3")  # to reach it, a second each
        try:
            import ray
        except ImportError as error:
            raise UserError(
                "--on ray needs Ray; get it with: pip install 'pflbench[ray]'"
            ) from error
        self.ray: Any = ray  # it has no types of its own
        self.jobs = jobs
        self.device = device
        self.gpus = 1 / runs_per_gpu if device.startswith("cuda") else 0
        self.tasks: dict[Any, Task] = {}
        self.left: set[tuple[str, str]] = set()  # runs, and the lost nodes that they were on
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            _reachable(address)
            if address is None:
                os.environ.setdefault("RAY_worker_niceness", "0")  # not in the background
                ray.init(num_cpus=jobs, include_dashboard=False, **quiet)
            else:
                with _without_stderr():
                    ray.init(address=address, **quiet)
        # a ConnectionError of Ray's is an OSError; a port above 65535 is an OverflowError
        except (*REFUSED, ray.exceptions.RayError) as error:
            if _asks_for_token(error):
                raise UserError(
                    f"the Ray cluster at {address!r} asks for a token: set RAY_AUTH_MODE=token and"
                    " RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, as on its machines"
                ) from error
            reason = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
            raise UserError(
                f"no Ray cluster at {address!r}: {reason}; must be auto, HOST:PORT or"
                " ray://HOST:PORT of one that runs ('ray start --head' starts one)"
            ) from error

    def room(self) -> int:
        """How many more tasks can be submitted now; nodes may come and go."""
        resources = self.ray.cluster_resources()
        room = int(resources.get("CPU", 0))
        if self.gpus:
            room = min(room, int(resources.get("GPU", 0) / self.gpus))
        return min(room, self.jobs or room) - len(self.tasks)

    def submit(self, task: Task) -> None:
        """Start a task somewhere."""
        needs = {"num_cpus": 1, "num_gpus": self.gpus, "max_retries": RETRIES, "name": task.run.id}
        there = replace(task, device=self.device)
        content = pickle.dumps(there)
        do_there = self.ray.remote(_do_in).options(**needs)
        self.tasks[do_there.remote(Path.cwd(), task.folder, content)] = task

    def ended(self, timeout: float) -> dict[str, str | None]:
        """The tasks that have ended; see `Launcher`."""
        self._repeat_lost()
        if not self.tasks:
            time.sleep(timeout)
            return {}
        ready, _ = self.ray.wait(list(self.tasks), num_returns=len(self.tasks), timeout=timeout)
        answers: dict[str, str | None] = {}
        for reference in ready:
            task = self.tasks.pop(reference)
            try:
                answers[task.run.id] = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                first_line = str(error).strip().partition("\n")[0]
                reason = f"Ray gave up after {RETRIES} retries: {first_line}"
                answers[task.run.id] = failed(task, reason)
        return answers

    def _repeat_lost(self) -> None:
        """Submit tasks again whose node the cluster has given up."""
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        for reference, task in list(self.tasks.items()):
            there = (task.run.id, task.lease.machine())
            if there[1] and there[1] not in alive and there not in self.left:
                self.left.add(there)
                self.ray.cancel(reference, force=True)  # Ray need not repeat it, too
                del self.tasks[reference]
                self.submit(task)

    def stop(self) -> None:
        """Let all running tasks save a checkpoint and end."""
        for reference in self.tasks:
            self.ray.cancel(reference)  # a Ctrl-C inside the task
        if self.tasks:
            self.ray.wait(list(self.tasks), num_returns=len(self.tasks), timeout=SECONDS_TO_SAVE)

    def close(self) -> None:
        """Leave the cluster; one that was started for this sweep ends."""
        self.ray.shutdown()


def _reachable(address: str | None) -> None:
    """Knock at HOST:PORT, because Ray itself tries for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdecimal() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Inside, nothing arrives at standard error: Ray complains there once a second, also of what we
    say in one line.
    """
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def _asks_for_token(error: BaseException | None) -> bool:
    """Whether a cluster could not be reached without a token, or with a wrong one. Ray says so in
    errors of many kinds.
    """
    said = ("AuthenticationError", "uthentication token")
    while error is not None:
        if any(word in f"{type(error).__name__}: {error}" for word in said):
            return True
        error = error.__cause__
    return False


def _do_in(folder: Path, results: Path, content: bytes) -> str | None:
    """Do a task where relative paths mean what they mean to the user; say so if this machine does
    not see the files of the sweep.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which `nohup` and shells may ignore
    for path in (folder, results / "leases"):
        if not path.is_dir():
            return _unshared(str(path))
    os.chdir(folder)
    try:
        task: Task = pickle.loads(content)
    except RunFailed as error:  # its data
        return _unshared(str(error))
    import ray

    node = ray.get_runtime_context().get_node_id()
    return do(replace(task, lease=task.lease.attempted(node)))


def _unshared(what: str) -> str:
    return (
        f"machine {socket.gethostname()} of the Ray cluster does not see all files ({what}); all its"
        " machines need the working folder, --out and --data-root on one shared file system"
    )
