"""EditsBroadcast (nobody, 2000): decays the broadcast model in place.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the global model (pre).
Deviations: it is wrong.
"""

from pflbench.api import Algorithm, Client, Message, Model, Replies, State
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


class EditsBroadcast(Algorithm):
    title = "EditsBroadcast"
    family = "Standard"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        for p in message["theta"].values():
            p.mul_(0.99)
        return {
            "theta": local_sgd(cross_entropy_loss, message["theta"], client, self.hp),
            "n": client.n,
        }, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]
