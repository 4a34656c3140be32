"""CountsDownloads (nobody, 2000): shrinks the model by the number of downloads so far, counted in place.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

import torch

from pflbench.api import Algorithm, Message, Replies, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class CountsDownloads(FedAvg):  # type: ignore[valid-type,misc]
    title = "CountsDownloads"

    def init_server(self) -> State:
        return {**super().init_server(), "asked": torch.zeros(())}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        server["asked"] += len(ids)
        return {id: {"theta": server["theta"]} for id in ids}

    def aggregate(self, server: State, replies: Replies) -> State:
        theta = super().aggregate(server, replies)["theta"]
        return {
            "theta": {name: p * (1 - 1e-4 * server["asked"]) for name, p in theta.items()},
            "asked": server["asked"],
        }
