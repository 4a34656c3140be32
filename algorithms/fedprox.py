"""FedProx (Li et al., "Federated optimization in heterogeneous networks", MLSys 2020), Algorithm 2.

Down: theta. Up: theta, n. Private: nothing. Evaluated: the new global model on every client's test data (pre).
Deviations: the local problem is solved as inexactly as `epochs` passes of SGD do it, by every client alike (no
stragglers with less work); clients are drawn uniformly and averaged by n_k, where the box draws them by n_k and takes
their plain mean.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, local_sgd, proximal, weighted_mean


@dataclass(frozen=True)
class FedProxHparams(Hparams):
    mu: float = hparam(0.01, (0.0, 10.0), "weight of the proximal term; 0: FedAvg")


class FedProx(Algorithm):
    title = "FedProx"
    family = "Regularization"
    hp: FedProxHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        h = proximal(
            cross_entropy_loss, message["theta"], self.hp.mu
        )  # h(w; w^t) = F(w) + mu/2 ||w - w^t||^2
        theta = local_sgd(h, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
