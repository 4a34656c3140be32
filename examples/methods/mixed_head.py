"""MixedHead (an example of pflbench, 2026): a personal head.

Idea: FedAvg in which a client keeps its trained head and mixes it with the global one it receives.
Paper: none
Code: none
Down: theta. Up: theta, n. Private: pi_i, the client's head after its last training.
Evaluated: the new global body under the mixed head (pre).
Deviations: none.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, hparam
from pflbench.ops import blend, cross_entropy_loss, join, local_sgd, phi, pi, weighted_mean


@dataclass(frozen=True)
class MixedHeadHparams(Hparams):
    alpha: float = hparam(0.5, (0.0, 1.0), "share of the own head in the mixture; 0 is FedAvg")


class MixedHead(Algorithm):
    title = "MixedHead"
    family = "Model interpolation"
    hp: MixedHeadHparams

    def init_client(self) -> State:
        return {"pi": pi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        start = self.personal_model(client, message)
        theta = local_sgd(cross_entropy_loss, start, client, self.hp)
        return {"theta": theta, "n": client.n}, {"pi": pi(theta)}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        """The body as received; the head alpha pi_i + (1 - alpha) pi."""
        head = blend(self.hp.alpha, client.state["pi"], pi(message["theta"]))
        return join(phi(message["theta"]), head)

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
