"""UnknownName (nobody, 2000): has a name in its formula that nobody defines.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model (pre).
Deviations: it is wrong.
"""

from pflbench import registry
from pflbench.api import Algorithm

FedAvg: type[Algorithm] = registry.load("fedavg")


class UnknownName(FedAvg):  # type: ignore[valid-type,misc]
    title = "UnknownName"
    down = "thetta"
