"""LG-FedAvg (Liang et al., "Think locally, act globally: Federated learning with local and global representations",
2020), Algorithm 1.

Down: pi. Up: pi, n. Private: phi_i. Scored: the client's own base with the new global head (pre).
Deviations: as in the FedCoSR paper the last layer alone is shared (the authors share the last two on CIFAR-10;
`head_layers` chooses); heads are weighed by n_i (the authors' code weighs them equally); all start from the common
initial model (the authors from one trained by FedAvg). The FedCoSR paper states a cost of 2 theta; it is 2 pi.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, Taxonomy, setting
from pflbench.ops import cross_entropy_loss, local_sgd, phi, pi, weighted_mean


@dataclass(frozen=True)
class Settings(Hparams):
    epochs: int = setting(5, (0, 50), "r, passes over the local data in a round, base and head jointly")
    participation: float = setting(0.1, (0.05, 1.0), "at most this share of the clients takes part in a round")


class LGFedAvg(Algorithm):
    title = "LG-FedAvg"
    taxonomy = Taxonomy("PFL", "Model splitting", label_skew="yes", data_scarcity="no")
    down, up = "pi", "pi + 1"
    cost_note = "only the head travels, as the paper's own text says; about 200 times less on CIFAR-10"
    hp: Settings

    def init_server(self) -> State:
        return {"pi": pi(self.task.initial)}

    def init_client(self) -> State:
        return {"phi": phi(self.task.initial)}

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, {**client.state["phi"], **message["pi"]}, client, self.hp)
        return {"pi": pi(theta), "n": client.n}, {"phi": phi(theta)}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"pi": weighted_mean(replies, "pi")}

    def personal(self, client: Client, message: Message) -> Model:
        return {**client.state["phi"], **message["pi"]}

    def trained(self, client: Client, message: Message, reply: Message) -> Model:
        return {**client.state["phi"], **reply["pi"]}
