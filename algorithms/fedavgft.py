"""FedAvg-FT: FedAvg with fine-tuning (Collins et al., "FedAvg with fine tuning: Local updates lead
to representation learning", NeurIPS 2022).

Idea: FedAvg; for evaluation each client fine-tunes a copy of the global model.
Paper: https://arxiv.org/abs/2205.13692
Code: none of the authors found
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model after `ft_epochs` passes over the client's training data (pre);
series "global" is the model before them.
Deviations: every evaluation fine-tunes, not only the one after the last round. It takes passes over
the training data of all clients, which no round counts: evaluate rarely.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, fine_tuned, local_sgd, weighted_mean

PARTS = {"full": "", "head": "head", "body": "body"}


@dataclass(frozen=True)
class FedAvgFTHparams(Hparams):
    ft_epochs: int = hparam(5, (0, 50), "passes of fine-tuning before evaluation")
    ft_lr: float | None = hparam(None, (1e-4, 1.0), "rate of fine-tuning; none: lr")
    ft_part: str = hparam("full", ["full", "head", "body"], "what is fine-tuned")


class FedAvgFT(Algorithm):
    title = "FedAvg-FT"
    family = "Fine-tuning"
    hp: FedAvgFTHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        reply = {"theta": theta, "n": client.n}
        return reply, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        """theta <- theta - eta grad CE(theta; b), on a copy that is dropped after its evaluation."""
        return self.adapted_model(client, message, self.hp.ft_epochs)

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        hp = self.hp
        part = PARTS[hp.ft_part]
        return fine_tuned(message["theta"], client, hp, epochs=epochs, lr=hp.ft_lr, part=part)

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}
