"""StateInModule (nobody, 2000): keeps the server's momentum in a variable of the module.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Params, Replies, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class StateInModule(FedAvg):  # type: ignore[valid-type,misc]
    title = "StateInModule"

    def aggregate(self, server: State, replies: Replies) -> State:
        theta = super().aggregate(server, replies)["theta"]
        for name, p in theta.items():
            MOMENTUM[name] = 0.9 * MOMENTUM.get(name, 0 * p) + p - server["theta"][name]
        return {"theta": {name: p + MOMENTUM[name] for name, p in server["theta"].items()}}


MOMENTUM: Params = {}
