"""The conformance kit: named checks that every method must pass, for plugins of others too.

`checks("path/to/my_method.py")` yields a result for each check; `toy("fedavg")` is a small federation for
tests of a method's own identities, `played`, `personal`, `equal` and `bare` what such tests need.
"""

from pflbench.testing import (  # noqa: F401 - they hold the checks
    description,
    purity,
    robustness,
    traffic,
    training,
)
from pflbench.testing.kit import CHECKS, CheckResult, checks, describe, names, run_check
from pflbench.testing.problem import TOY, bare, equal, personal, played, split_by_class, toy

__all__ = [
    "CHECKS",
    "TOY",
    "CheckResult",
    "bare",
    "checks",
    "describe",
    "equal",
    "names",
    "personal",
    "played",
    "run_check",
    "split_by_class",
    "toy",
]
