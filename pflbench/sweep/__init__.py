"""Many runs: experiments, scheduling, progress and tuning.

The package can be called: `pflbench.sweep(...)` is the function in `pflbench.interface`.
"""

from pflbench.callable_package import make_callable

make_callable(__name__)
