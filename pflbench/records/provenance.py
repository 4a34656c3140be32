"""Where a number comes from: code, versions of packages, machine."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("pflbench", "torch", "numpy", "scipy")


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
        },
    }


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
