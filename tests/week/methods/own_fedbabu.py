"""FedBABU (Oh, Kim and Yun, "FedBABU: toward enhanced representation for federated image
classification", ICLR 2022), Algorithm 1.

Idea: the head stays at its random initial value; clients fine-tune the network for themselves.
Paper: https://arxiv.org/abs/2106.06042
Code: https://github.com/jhoon-oh/FedBABU
Down: phi. Up: phi, n. Private: nothing.
Evaluated: a fine-tuned copy of the new global body with the initial head (pre).
Deviations: clients are weighted by samples, not equally.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, fine_tuned, join, local_sgd, phi, pi, weighted_mean


@dataclass(frozen=True)
class FedBABUHparams(Hparams):
    tuning_epochs: int = hparam(5, (0, 50), "passes of fine-tuning before evaluation")


class FedBABU(Algorithm):
    title = "FedBABU"
    family = "Model splitting"
    hp: FedBABUHparams

    def costs(self) -> tuple[str, str]:
        return "phi", "phi + 1"

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """SGD on the body alone."""
        theta = local_sgd(
            cross_entropy_loss, self.shared(message["phi"]), client, self.hp, part="body"
        )
        reply = {"phi": phi(theta), "n": client.n}
        return reply, {}

    def shared(self, body: Params) -> Params:
        """A body with the head that all clients have."""
        return join(body, pi(self.task.initial))

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"phi": weighted_mean(replies, "phi")}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = self.shared(message["phi"])
        return fine_tuned(theta, client, self.hp, epochs=self.hp.tuning_epochs, lr=None)
