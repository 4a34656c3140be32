"""UnknownName (nobody, 2000): has a name in its formula that nobody defines.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class UnknownName(FedAvg):  # type: ignore[valid-type,misc]
    title = "UnknownName"

    def costs(self) -> tuple[str, str]:
        return "thetta", "theta + 1"
