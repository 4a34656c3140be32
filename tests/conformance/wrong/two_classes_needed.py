"""TwoClassesNeeded (nobody, 2000): takes it for granted that a client has two classes.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Message, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class TwoClassesNeeded(FedAvg):  # type: ignore[valid-type,misc]
    title = "TwoClassesNeeded"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        first, second, *_ = client.counts.nonzero().flatten().tolist()
        assert first != second
        reply, state = super().client_update(client, message)
        return reply, state
