"""WaitsForAll (nobody, 2000): counts on a reply from every client of the cohort.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Cohort, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class WaitsForAll(FedAvg):  # type: ignore[valid-type,misc]
    title = "WaitsForAll"

    def round(self, server: State, cohort: Cohort) -> State:
        replies = cohort.call(self.client_update, self.download(server, cohort.ids))
        everyone = {id: replies[id] for id in cohort.ids}
        state: State = self.aggregate(server, everyone)
        return state
