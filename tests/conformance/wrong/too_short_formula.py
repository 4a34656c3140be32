"""TooShortFormula (nobody, 2000): forgets in its formula that n is sent.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class TooShortFormula(FedAvg):  # type: ignore[valid-type,misc]
    title = "TooShortFormula"

    def costs(self) -> tuple[str, str]:
        return "theta", "theta"
