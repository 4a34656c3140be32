"""TwoClassesNeeded (nobody, 2000): takes it for granted that a client has two classes.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model (pre).
Deviations: it is wrong.
"""

from pflbench import registry
from pflbench.api import Algorithm, Client, Message, State

FedAvg: type[Algorithm] = registry.load("fedavg")


class TwoClassesNeeded(FedAvg):  # type: ignore[valid-type,misc]
    title = "TwoClassesNeeded"

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        first, second, *_ = client.counts.nonzero().flatten().tolist()
        assert first != second
        reply, state = super().local(client, message)
        return reply, state
