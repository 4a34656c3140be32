"""Local: every client trains alone; the reference for what collaboration is worth.

Idea: every client trains alone, for comparison.
Paper: none
Code: none
Down: nothing. Up: nothing. Private: theta_i.
Evaluated: theta_i (post).
Deviations: none. The default learning rate follows the benchmark's reference table, with plain SGD
as for all baselines.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, local_sgd


@dataclass(frozen=True)
class LocalHparams(Hparams):
    lr: float = hparam(0.003, (1e-4, 1.0), "eta, learning rate of local training")


class Local(Algorithm):
    title = "Local"
    family = "Individual training"
    evaluation_point = "post"
    hp: LocalHparams

    def costs(self) -> tuple[str, str]:
        return "0", "0"

    def init_server(self) -> State:
        return {}

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, client.state["theta"], client, self.hp)
        return {}, {"theta": theta}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {}

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.state["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]
