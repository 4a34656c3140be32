"""NoDeviations (nobody, 2000): does not say how it deviates.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
"""

from pflbench.api import Algorithm
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class NoDeviations(FedAvg):  # type: ignore[valid-type,misc]
    title = "NoDeviations"
