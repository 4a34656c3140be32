"""Where a number comes from: code, versions of packages, machine."""

import contextlib
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("pflbench", "torch", "numpy", "scipy")
BITS = ("ONEDNN_MAX_CPU_ISA", "MKL_CBWR")  # settings that choose other instructions


def environment(device: str, workers: int) -> dict[str, Any]:
    """What a run is done with: a part of `run.json`."""
    return {
        "code": code_version(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "device": device,
            "workers": workers,
            **({"gpu": gpu(device)} if device.startswith("cuda") else {}),
        },
    }


def gpu(device: str) -> dict[str, str]:
    """What a GPU is, and what it is used with."""
    import torch

    driver = "unknown"
    with contextlib.suppress(OSError):
        driver = Path("/proc/driver/nvidia/version").read_text().partition("\n")[0]
    return {
        "model": torch.cuda.get_device_name(device),
        "driver": driver,
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
    }


def kind_of_machine(device: str = "cpu") -> str:
    """What the last bits of a number depend on: the processor and what of it is used, the GPU if
    it is one, torch and numpy.
    """
    import torch

    settings = [f"{name}={os.environ[name]}" for name in BITS if name in os.environ]
    words = [_processor(), torch.backends.cpu.get_cpu_capability(), *settings]
    if device.startswith("cuda"):
        there = gpu(device)
        words += [there["model"], f"CUDA {there['cuda']}", f"cuDNN {there['cudnn']}"]
    return ", ".join([*words, f"torch {version('torch')}", f"numpy {version('numpy')}"])


def _processor() -> str:
    """The model of the processor, where the system tells."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def code_version() -> dict[str, Any]:
    """The commit of the checkout that the code runs from, if it does, and whether it was
    changed.
    """
    here = Path(__file__).parents[2]
    if not (here / ".git").exists():
        return {}
    changed = bool(_git(here, "status", "--porcelain", "--untracked-files=no"))
    return {"commit": _git(here, "rev-parse", "HEAD"), "changed": changed}


def _git(folder: Path, *words: str) -> str | None:
    try:
        return subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
