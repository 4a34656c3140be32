"""ReadsTheClock (nobody, 2000): moves the model by the time of day.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

import time

from pflbench.api import Algorithm, Replies, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class ReadsTheClock(FedAvg):  # type: ignore[valid-type,misc]
    title = "ReadsTheClock"

    def aggregate(self, server: State, replies: Replies) -> State:
        theta = super().aggregate(server, replies)["theta"]
        return {"theta": {name: p + 1e-3 * (time.perf_counter() % 1) for name, p in theta.items()}}
