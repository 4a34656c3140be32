"""SmallZ (an example of pflbench, 2026): a regularizer.

Idea: FedAvg with a penalty on the norm of representations.
Paper: none
Code: none
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model on every client's test data (pre).
Deviations: none.
"""

from dataclasses import dataclass

from torch import Tensor

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Net, Replies, State, hparam
from pflbench.ops import cross_entropy, local_sgd, weighted_mean


@dataclass(frozen=True)
class SmallZHparams(Hparams):
    mu: float = hparam(0.01, (0.0, 1.0), "weight of the penalty; 0 is FedAvg")


class SmallZ(Algorithm):
    title = "SmallZ"
    family = "Regularization"
    hp: SmallZHparams

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(self.loss, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {}

    def loss(self, net: Net, x: Tensor, y: Tensor) -> Tensor:
        """CE(theta; b) + (mu / 2) mean ||z||^2."""
        z = net.body(x)
        penalty: Tensor = z.square().sum(1).mean()
        return cross_entropy(net.head(net.drop(z)), y) + self.hp.mu / 2 * penalty

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
