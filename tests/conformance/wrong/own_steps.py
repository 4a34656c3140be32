"""OwnSteps (nobody, 2000): FedAvg with gradient steps that know no option of training.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Message, State
from pflbench.methods import registry
from pflbench.ops import gradient

FedAvg: type[Algorithm] = registry.load("fedavg")


class OwnSteps(FedAvg):  # type: ignore[valid-type,misc]
    title = "OwnSteps"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = message["theta"]
        for x, y in client.batches(self.hp.batch_size):
            g = gradient(self.net(theta), x, y)(theta)
            theta = {name: p - self.hp.lr * g[name] for name, p in theta.items()}
        return {"theta": theta, "n": client.n}, {}
