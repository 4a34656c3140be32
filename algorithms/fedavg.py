"""FedAvg (McMahan et al., "Communication-efficient learning of deep networks from decentralized
data", AISTATS 2017), Algorithm 1.

Idea: clients train copies of the global model, and the server averages them.
Paper: https://arxiv.org/abs/1602.05629
Code: none of the authors found
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model on every client's test data (pre).
Deviations: none.
"""

from pflbench.api import Algorithm, Client, Message, Model, Replies, State
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


class FedAvg(Algorithm):
    title = "FedAvg"
    family = "Standard"

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """ClientUpdate(k, w) of the box."""
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        reply = {"theta": theta, "n": client.n}
        return reply, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        """w <- sum_k (n_k / n) w_k."""
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
