"""Where runs are done: the cores of this machine, its GPUs, or a Ray cluster."""

import os
from typing import TYPE_CHECKING

from pflbench.errors import UserError

if TYPE_CHECKING:
    from pflbench.sweep.launchers.task import Launcher


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_launcher(jobs: int | None, device: str, runs_per_gpu: int) -> "Launcher":
    """Processes of this machine."""
    from pflbench.sweep.launchers.local import Local, devices

    return Local(devices(device, jobs or cores(), runs_per_gpu, limit=jobs))


def launcher(
    on: str, address: str | None, jobs: int | None, device: str, runs_per_gpu: int
) -> "Launcher":
    """What `--on` names."""
    if on == "ray":
        from pflbench.sweep.launchers.ray import OnRay

        return OnRay(address, jobs, device, runs_per_gpu)
    if on != "local":
        raise UserError(f"--on {on}: must be local or ray")
    if address is not None:
        raise UserError("--address is the address of a Ray cluster; use it with --on ray")
    return local_launcher(jobs, device, runs_per_gpu)
