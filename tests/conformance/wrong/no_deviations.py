"""NoDeviations (nobody, 2000): does not say how it deviates.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model (pre).
"""

from pflbench import registry
from pflbench.api import Algorithm

FedAvg: type[Algorithm] = registry.load("fedavg")


class NoDeviations(FedAvg):  # type: ignore[valid-type,misc]
    title = "NoDeviations"
