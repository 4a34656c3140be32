"""Where a number comes from: configuration, data, code, versions, machine."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pflbench import config
from pflbench.data import class_counts
from pflbench.methods import registry
from pflbench.simulation.client_worker import Setup

PACKAGES = ("pflbench", "torch", "numpy", "scipy")


def about(setup: Setup, workers: int, scale: str | None = None) -> dict[str, Any]:
    """The content of `run.json`, but for the run's id."""
    run, split, data = setup.run, setup.partition, setup.data
    cls = registry.load(setup.plugin)
    return {
        "config": config.as_json(run),
        "scale": scale,
        "method": {
            "title": cls.title,
            "evaluation_point": cls.evaluation_point,
            "one_shot": cls.one_shot,
            "costs": dict(zip(("down", "up"), setup.algorithm().costs(), strict=True)),
        },
        "data": {"title": data.title, "digest": data.digest, "classes": data.classes},
        "partition": {
            "digest": split.digest,
            **{
                f"n_{part}": [len(rows) for rows in clients]
                for part, clients in split.parts.items()
            },
            **{
                f"{part}_classes": class_counts.sparse(clients, data.y, data.classes)
                for part, clients in split.parts.items()
            },
        },
        "code": code_version(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "device": setup.device,
            "workers": workers,
        },
    }


def code_version() -> dict[str, Any]:
    """The commit of the checkout that the code runs from, if it does, and whether it was changed."""
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
