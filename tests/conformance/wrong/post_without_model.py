"""PostWithoutModel (nobody, 2000): wants to be evaluated after training, without a model for it.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model.
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Message
from pflbench.methods import registry

FedAvg: type[Algorithm] = registry.load("fedavg")


class PostWithoutModel(FedAvg):  # type: ignore[valid-type,misc]
    title = "PostWithoutModel"
    evaluation_point = "post"

    def trained_model(self, client: Client, message: Message, reply: Message) -> None:
        return None
