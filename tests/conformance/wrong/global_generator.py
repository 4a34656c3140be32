"""GlobalGenerator (nobody, 2000): adds noise from the global random generator.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

import torch

from pflbench.api import Algorithm, Client, Message, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class GlobalGenerator(FedAvg):  # type: ignore[valid-type,misc]
    title = "GlobalGenerator"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        reply, state = super().client_update(client, message)
        noisy = {name: p + 1e-3 * torch.randn(p.shape) for name, p in reply["theta"].items()}
        return {**reply, "theta": noisy}, state
