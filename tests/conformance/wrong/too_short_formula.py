"""TooShortFormula (nobody, 2000): forgets in its formula that n is sent.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model (pre).
Deviations: it is wrong.
"""

from pflbench import registry
from pflbench.api import Algorithm

FedAvg: type[Algorithm] = registry.load("fedavg")


class TooShortFormula(FedAvg):  # type: ignore[valid-type,misc]
    title = "TooShortFormula"
    up = "theta"
