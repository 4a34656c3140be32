"""FedBABU (Oh et al., "FedBABU: Towards enhanced representation for federated image
classification", ICLR 2022).

Idea: only the body is trained and shared, on a head that stays random; fine-tuning personalizes.
Paper: https://arxiv.org/abs/2106.06042
Code: https://github.com/jhoon-oh/FedBABU
Down: phi. Up: phi, n. Private: nothing; everyone knows pi^0, the common initial head.
Evaluated: the new body with pi^0 after `ft_epochs` passes over the client's training data (pre);
series "global" is the model before them.
Deviations: bodies are weighted by n_i, in the authors' code equally. Every evaluation fine-tunes, at
the rate of training (`ft_lr`); theirs once, at the decayed rate.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, fine_tuned, join, local_sgd, phi, pi, weighted_mean

PARTS = {"full": "", "head": "head", "body": "body"}


@dataclass(frozen=True)
class FedBABUHparams(Hparams):
    ft_epochs: int = hparam(5, (0, 50), "passes of fine-tuning before evaluation")
    ft_lr: float | None = hparam(None, (1e-4, 1.0), "rate of fine-tuning; none: lr")
    ft_part: str = hparam("full", ["full", "head", "body"], "what is fine-tuned")


class FedBABU(Algorithm):
    title = "FedBABU"
    family = "Model splitting"
    hp: FedBABUHparams

    def costs(self) -> tuple[str, str]:
        return "phi", "phi + 1"

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """phi <- phi - eta grad_phi CE(phi, pi^0; b): the head gets no gradient."""
        theta = self.with_initial_head(message["phi"])
        theta = local_sgd(cross_entropy_loss, theta, client, self.hp, part="body")
        reply = {"phi": phi(theta), "n": client.n}
        return reply, {}

    def with_initial_head(self, body: Params) -> Params:
        return join(body, pi(self.task.initial))

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"phi": weighted_mean(replies, "phi")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return self.adapted_model(client, message, self.hp.ft_epochs)

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """A client, new or not, fine-tunes the body with pi^0, as in the paper."""
        hp = self.hp
        theta = self.with_initial_head(message["phi"])
        part = PARTS[hp.ft_part]
        return fine_tuned(theta, client, hp, epochs=epochs, lr=hp.ft_lr, part=part)

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.with_initial_head(reply["phi"])

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": self.with_initial_head(message["phi"])}
