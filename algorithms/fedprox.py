"""FedProx (Li et al., "Federated optimization in heterogeneous networks", MLSys 2020), Algorithm 2.

Idea: FedAvg with a pull of every local model to the global one.
Paper: https://arxiv.org/abs/1812.06127
Code: https://github.com/litian96/FedProx
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model on every client's test data (pre).
Deviations: every client solves its local problem by `epochs` passes of SGD; there are no stragglers
that do less. Clients are drawn uniformly and averaged by n_k; the box draws them by n_k and takes
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
        """w_k = argmin_w h_k(w; w^t), h_k(w; w^t) = F_k(w) + (mu / 2) ||w - w^t||^2, inexactly."""
        w_t = message["theta"]
        h = proximal(cross_entropy_loss, w_t, self.hp.mu)
        theta = local_sgd(h, w_t, client, self.hp)
        reply = {"theta": theta, "n": client.n}
        return reply, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
