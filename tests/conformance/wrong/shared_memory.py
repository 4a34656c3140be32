"""SharedMemory (nobody, 2000): puts the server's tensors into the clients' states.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class SharedMemory(FedAvg):  # type: ignore[valid-type,misc]
    title = "SharedMemory"

    def round(self, server: State, cohort) -> State:
        server = super().round(server, cohort)
        cohort.new_states.update({id: {"theta": server["theta"]} for id in cohort.ids})
        return server
