"""ServerMomentum (Hsu et al., "Measuring the effects of non-identical data distribution for federated
visual classification", 2019: FedAvgM): an idea on the server alone.

Idea: the server moves by a running sum of the clients' mean changes, as SGD with momentum does.
Paper: https://arxiv.org/abs/1909.06335
Code: none of the authors found
Down: theta. Up: theta, n. Private: nothing; the server keeps the velocity.
Evaluated: the new global model on every client's test data (pre).
Deviations: none.
"""

from dataclasses import dataclass

import torch

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, hparam
from pflbench.ops import cross_entropy_loss, local_sgd, parameters, weighted_mean


@dataclass(frozen=True)
class ServerMomentumHparams(Hparams):
    beta: float = hparam(0.5, (0.0, 0.99), "momentum of the server; 0 is FedAvg")


class ServerMomentum(Algorithm):
    title = "ServerMomentum"
    family = "Server optimization"
    hp: ServerMomentumHparams

    def init_server(self) -> State:
        trained = parameters(self.task, self.task.initial)
        still = {name: torch.zeros_like(p) for name, p in trained.items()}
        return {"theta": self.task.initial, "velocity": still}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        message = {"theta": server["theta"]}
        return dict.fromkeys(ids, message)

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        """v <- beta v + (mean - theta); theta <- theta + v. Running statistics are the mean's."""
        theta = server["theta"]
        mean = weighted_mean(replies, "theta")
        v = {
            name: self.hp.beta * old + mean[name] - theta[name]
            for name, old in server["velocity"].items()
        }
        moved = {name: theta[name] + step for name, step in v.items()}
        return {"theta": {**mean, **moved}, "velocity": v}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
