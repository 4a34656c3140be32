"""PythonFloat (nobody, 2000): sends a number that is not a tensor.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model (pre).
Deviations: it is wrong.
"""

from pflbench import registry
from pflbench.api import Algorithm, Client, Message, State

FedAvg: type[Algorithm] = registry.load("fedavg")


class PythonFloat(FedAvg):  # type: ignore[valid-type,misc]
    title = "PythonFloat"

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        reply, state = super().local(client, message)
        return {**reply, "n": float(client.n)}, state
