"""FedAvg (McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017),
Algorithm 1.

Down: theta. Up: theta, n. Private: nothing. Scored: the new global model on every client's test data (pre).
Deviations: none.
"""

from pflbench.api import Algorithm, Client, Message, Model, Replies, State, Taxonomy
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


class FedAvg(Algorithm):
    title = "FedAvg"
    taxonomy = Taxonomy("FL", "Standard", label_skew="no", data_scarcity="no")
    down, up = "theta", "theta + 1"

    def local(self, client: Client, message: Message) -> tuple[Message, State]:  # ClientUpdate(k, w)
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {}

    def aggregate(self, server: State, replies: Replies) -> State:  # w <- sum_k (n_k / n) w_k
        return {"theta": weighted_mean(replies, "theta")}

    def personal(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
