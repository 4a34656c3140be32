"""PostWithoutModel (nobody, 2000): wants to be scored after training, without a model for it.

Down: theta. Up: theta, n. Private: nothing. Scored: the global model.
Deviations: it is wrong.
"""

from pflbench import registry
from pflbench.api import Algorithm, Client, Message

FedAvg: type[Algorithm] = registry.load("fedavg")


class PostWithoutModel(FedAvg):  # type: ignore[valid-type,misc]
    title = "PostWithoutModel"
    scored = "post"

    def trained(self, client: Client, message: Message, reply: Message) -> None:
        return None
