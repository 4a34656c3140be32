"""LG-FedAvg (Liang et al., "Think locally, act globally: Federated learning with local and global
representations", 2020), Algorithm 1.

Idea: own bodies and a shared head.
Paper: https://arxiv.org/abs/2001.01523
Code: https://github.com/pliang279/LG-FedAvg
Down: pi. Up: pi, n. Private: phi_i. Evaluated: the client's own body with the new global head (pre).
Deviations: the last layer alone is shared (the authors share the last two on
CIFAR-10; `head_layers` chooses); heads are weighted by n_i (the authors' code weights them equally);
all start from the common initial model (the authors from one trained by FedAvg). All clients take
part in a round (the authors: a tenth of them). The body of a client that has not taken part yet is
untrained, and the record counts such clients.
"""

from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, join, local_sgd, phi, pi, weighted_mean


@dataclass(frozen=True)
class LGFedAvgHparams(Hparams):
    epochs: int = hparam(
        5, (0, 50), "r, passes over the local data in a round, body and head jointly"
    )


class LGFedAvg(Algorithm):
    title = "LG-FedAvg"
    family = "Model splitting"
    hp: LGFedAvgHparams

    def costs(self) -> tuple[str, str]:
        return "pi", "pi + 1"

    def init_server(self) -> State:
        return {"pi": pi(self.task.initial)}

    def init_client(self) -> State:
        return {"phi": phi(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        start = join(client.state["phi"], message["pi"])
        theta = local_sgd(cross_entropy_loss, start, client, self.hp)
        return {"pi": pi(theta), "n": client.n}, {"phi": phi(theta)}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"pi": weighted_mean(replies, "pi")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return join(client.state["phi"], message["pi"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return join(client.state["phi"], reply["pi"])
