"""DefaultOutsideRange (nobody, 2000): has a default that its range does not allow.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Hparams, hparam
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class DefaultOutsideRange(FedAvg):  # type: ignore[valid-type,misc]
    title = "DefaultOutsideRange"
    hp: "Settings"


@dataclass(frozen=True)
class Settings(Hparams):
    mu: float = hparam(0.1, (0.2, 1.0), "weight of nothing")
