"""Local: every client trains alone; the reference for what collaboration is worth.

Down: nothing. Up: nothing. Private: theta_i. Scored: theta_i (post).
Deviations: none. The paper's learning rate for it is 0.003, with plain SGD here as for all baselines.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, Taxonomy, setting
from pflbench.ops import cross_entropy_loss, local_sgd


@dataclass(frozen=True)
class Settings(Hparams):
    lr: float = setting(0.003, (1e-4, 1.0), "eta, learning rate of local training")


class Local(Algorithm):
    title = "Local"
    taxonomy = Taxonomy("local", "Individual training")
    scored = "post"
    down, up = "0", "0"
    hp: Settings

    def init_server(self) -> State:
        return {}

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        return {}, {"theta": local_sgd(cross_entropy_loss, client.state["theta"], client, self.hp)}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {}

    def personal(self, client: Client, message: Message) -> Model:
        return client.state["theta"]

    def trained(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]
