"""ParticipantsOnly (nobody, 2000): has a message only for clients that took part.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

import torch

from pflbench.api import Algorithm, Message, Replies, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class ParticipantsOnly(FedAvg):  # type: ignore[valid-type,misc]
    title = "ParticipantsOnly"

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        seen = server.get("seen", dict.fromkeys(ids, torch.tensor(0)))
        return {id: {"theta": server["theta"]} for id in ids if seen[id] == 0}

    def aggregate(self, server: State, replies: Replies) -> State:
        seen = {**server.get("seen", {}), **dict.fromkeys(replies, torch.tensor(0))}
        return {**super().aggregate(server, replies), "seen": seen}
