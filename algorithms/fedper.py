"""FedPer (Arivazhagan et al., "Federated learning with personalization layers", arXiv 2019),
Algorithms 1 and 2.

Idea: a shared body and own heads, trained together.
Paper: https://arxiv.org/abs/1912.00818
Code: none of the authors found
Down: phi. Up: phi, n. Private: pi_i.
Evaluated: the new global body with the client's own head (pre).
Deviations: none.
"""

from pflbench.api import Algorithm, Client, Message, Model, Replies, State
from pflbench.ops import (
    cross_entropy_loss,
    join,
    local_sgd,
    phi,
    pi,
    weighted_mean,
)


class FedPer(Algorithm):
    title = "FedPer"
    family = "Model splitting"

    def costs(self) -> tuple[str, str]:
        return "phi", "phi + 1"

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial)}

    def init_client(self) -> State:
        return {"pi": pi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """Body and head are trained jointly; the body is sent, the head stays."""
        theta = self.personal_model(client, message)
        theta = local_sgd(cross_entropy_loss, theta, client, self.hp)
        reply = {"phi": phi(theta), "n": client.n}
        return reply, {"pi": pi(theta)}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"phi": weighted_mean(replies, "phi")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return join(message["phi"], client.state["pi"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return join(reply["phi"], client.state["pi"])
