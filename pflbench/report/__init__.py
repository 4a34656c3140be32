"""Results to tables and figures; reads files only.

The package can be called: `pflbench.report(...)` is the function in `pflbench.interface`.
"""

from pflbench.callable_package import make_callable

make_callable(__name__)
