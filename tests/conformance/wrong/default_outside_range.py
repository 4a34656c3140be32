"""DefaultOutsideRange (nobody, 2000): has a default that its range does not allow.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model (pre).
Deviations: it is wrong.
"""

from dataclasses import dataclass

from pflbench import registry
from pflbench.api import Algorithm, Hparams, setting

FedAvg: type[Algorithm] = registry.load("fedavg")


class DefaultOutsideRange(FedAvg):  # type: ignore[valid-type,misc]
    title = "DefaultOutsideRange"
    hp: "Settings"


@dataclass(frozen=True)
class Settings(Hparams):
    mu: float = setting(0.1, (0.2, 1.0), "weight of nothing")
