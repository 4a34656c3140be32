"""CountsEveryone (nobody, 2000): divides by the samples of all clients, whoever was selected.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class CountsEveryone(FedAvg):  # type: ignore[valid-type,misc]
    title = "CountsEveryone"

    def round(self, server: State, cohort) -> State:
        train = cohort._engine.worker.setup.partition.train
        share = sum(len(train[id]) for id in cohort.ids) / sum(map(len, train))
        return {
            "theta": {name: share * p for name, p in super().round(server, cohort)["theta"].items()}
        }
