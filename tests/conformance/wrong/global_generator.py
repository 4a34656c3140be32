"""GlobalGenerator (nobody, 2000): adds noise from the global random generator.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model (pre).
Deviations: it is wrong.
"""

import torch

from pflbench import registry
from pflbench.api import Algorithm, Client, Message, State

FedAvg: type[Algorithm] = registry.load("fedavg")


class GlobalGenerator(FedAvg):  # type: ignore[valid-type,misc]
    title = "GlobalGenerator"

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        reply, state = super().local(client, message)
        noisy = {name: p + 1e-3 * torch.randn(p.shape) for name, p in reply["theta"].items()}
        return {**reply, "theta": noisy}, state
