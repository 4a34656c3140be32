"""PythonFloat (nobody, 2000): sends a number that is not a tensor.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Message, State
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class PythonFloat(FedAvg):  # type: ignore[valid-type,misc]
    title = "PythonFloat"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        reply, state = super().client_update(client, message)
        return {**reply, "n": float(client.n)}, state
