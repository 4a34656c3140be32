"""What Python sees: `pflbench.run`, `pflbench.sweep`, `pflbench.load` and `pflbench.report`.

The command line is made of the same parts. Mistakes are `UserError`, with one clear line; nothing
here ends the process, keeps a signal handler or changes torch's settings.
"""

from pflbench.interface.loading import LoadedRun, load
from pflbench.interface.one_run import run

__all__ = ["LoadedRun", "load", "run"]
