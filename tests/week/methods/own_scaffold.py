"""SCAFFOLD (Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning",
ICML 2020), Algorithm 1 with option II.

Idea: control variates of server and client correct the drift of every local step.
Paper: https://arxiv.org/abs/1910.06378
Code: https://github.com/owkin/FLamby
Down: x, c. Up: y_i, the change of c_i, n. Private: c_i.
Evaluated: the new global model on every client's test data (pre).
Deviations: clients are weighted by samples, both in x and in c.
"""

from dataclasses import dataclass

import torch

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import blend, cross_entropy_loss, linear, local_sgd, weighted_mean


@dataclass(frozen=True)
class SCAFFOLDHparams(Hparams):
    optimizer: str = hparam("sgd", ["sgd"], "c_i assumes plain steps")
    server_lr: float = hparam(1.0, (0.0, 2.0), "eta_g, step of the server")


class SCAFFOLD(Algorithm):
    title = "SCAFFOLD"
    family = "Variance reduction"
    hp: SCAFFOLDHparams

    def costs(self) -> tuple[str, str]:
        return "2 * theta", "2 * theta + 1"

    def init_server(self) -> State:
        return {"theta": self.task.initial, "c": zeros(self.task.initial)}

    def init_client(self) -> State:
        return {"c": zeros(self.task.initial)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """y <- y - eta (grad CE(y; b) + c - c_i); then c_i and its change."""
        x, c, c_i = message["theta"], message["c"], client.state["c"]
        drift = {name: c[name] - c_i[name] for name in c}
        y = local_sgd(linear(cross_entropy_loss, drift), x, client, self.hp)
        new = self.control(client, x, y, drift)
        change = {name: new[name] - c_i[name] for name in new}
        reply = {"theta": y, "change": change, "n": client.n}
        return reply, {"c": new}

    def control(self, client: Client, x: Params, y: Params, drift: Params) -> Params:
        """c_i - c + (x - y) / (K eta), K being the number of steps; in float64."""
        steps = -(-len(client.y) // self.hp.batch_size) * self.hp.epochs
        scale = max(steps, 1) * self.hp.lr
        return {
            name: ((x[name].double() - y[name].double()) / scale - d.double()).float()
            for name, d in drift.items()
        }

    def aggregate(self, server: State, replies: Replies) -> State:
        """x moves to the mean of y_i; c by the changes, a client that is absent having none."""
        x = blend(self.hp.server_lr, weighted_mean(replies, "theta"), server["theta"])
        share = len(replies) / self.task.clients
        moved = weighted_mean(replies, "change")
        c = {name: p + share * moved[name] for name, p in server["c"].items()}
        return {"theta": x, "c": c}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]


def zeros(theta: Params) -> Params:
    """One zero for every parameter."""
    return {name: torch.zeros_like(p) for name, p in theta.items()}
