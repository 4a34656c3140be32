"""What Python sees: `pflbench.run`, `pflbench.sweep`, `pflbench.load` and `pflbench.report`.

The command line is made of the same parts. Mistakes are `UserError`, with one clear line; nothing
here ends the process, keeps a signal handler or changes torch's settings.
"""

from pflbench.interface.loading import LoadedRun, load
from pflbench.interface.many_runs import sweep
from pflbench.interface.one_run import run
from pflbench.interface.reports import MadeReport, report
from pflbench.interface.sweep_result import SweepResult

__all__ = ["LoadedRun", "MadeReport", "SweepResult", "load", "report", "run", "sweep"]
