"""pflbench: a benchmark suite for personalized federated learning.

`pflbench.run`, `pflbench.sweep`, `pflbench.load` and `pflbench.report` are in `pflbench.interface`,
which is imported when one of them is first used: the command line must come up at once.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

INTERFACE = f"{__name__}.interface"


def __getattr__(name: str) -> Any:
    if name in ("load", "run"):
        return getattr(importlib.import_module(INTERFACE), name)
    if name in ("report", "sweep"):
        return importlib.import_module(f"{__name__}.{name}")  # packages that can be called
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
