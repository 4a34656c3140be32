"""SCAFFOLD (Karimireddy et al., "SCAFFOLD: Stochastic controlled averaging for federated learning",
ICML 2020), options I and II of its algorithm box.

Idea: FedAvg whose local steps are corrected by the difference of global and own mean gradients.
Paper: https://arxiv.org/abs/1910.06378
Code: https://github.com/owkin/FLamby (pull request 84, by the first author)
Down: x, c. Up: y_i, the change of c_i, n. Private: c_i.
Evaluated: the new global model on every client's test data (pre).
Deviations: models and control variates are weighted by n_i, in the box equally (`weights`). A round
is a number of passes over the data, so the number of steps K differs between clients. c is always
sent; the authors' code rebuilds it from successive models, which full participation allows.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pflbench.api import Algorithm, Client, Hparams, Loss, Message, Model, Params
from pflbench.api import Replies, State, hparam
from pflbench.ops import cross_entropy_loss, difference, gradient, linear, local_sgd, server_step
from pflbench.ops import weighted_mean, zeros


@dataclass(frozen=True)
class SCAFFOLDHparams(Hparams):
    optimizer: str = hparam("sgd", ["sgd"], "c_i is computed from plain gradient steps")
    keep_optimizer: bool = hparam(False, [False], "its gradient steps have no state", tune=False)
    local_momentum: float = hparam(
        0.0, [0.0], "c_i is computed from plain gradient steps", tune=False
    )
    clip: float = hparam(0.0, [0.0], "c_i is computed from plain gradient steps", tune=False)
    server_lr: float = hparam(1.0, (0.0, 2.0), "eta_g, share of the clients' mean in the new model")
    control: str = hparam(
        "steps",
        ["steps", "full", "none"],
        "c_i: mean gradient of the local steps (option II), gradient of all data (option I), or 0",
    )
    weights: str = hparam("samples", ["samples", "uniform"], "weight clients by n_i or equally")


class SCAFFOLD(Algorithm):
    title = "SCAFFOLD"
    family = "Variance reduction"
    hp: SCAFFOLDHparams

    def costs(self) -> tuple[str, str]:
        return "2 * theta", "2 * theta + 1"

    def init_server(self) -> State:
        """x; C = sum_i a_i c_i over all clients; the weights a_i of those seen so far, 0 elsewhere."""
        x = self.task.initial
        return {"x": x, "C": zeros(x, torch.float64), "a": torch.zeros(self.task.clients)}

    def init_client(self) -> State:
        return {"c": zeros(self.task.initial)}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        message = {"theta": server["x"], "c": self.global_control(server)}
        return dict.fromkeys(ids, message)

    def global_control(self, server: State) -> Params:
        """c = C / (N mean a): clients that were never seen count with c_i = 0 and the mean weight."""
        seen = server["a"] > 0
        mean = server["a"].sum().double() / seen.sum().clamp(min=1)
        whole = self.task.clients * mean.clamp(min=1)
        return {name: (total / whole).float() for name, total in server["C"].items()}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        x = message["theta"]
        c = message["c"]
        c_i = client.state["c"]
        y = local_sgd(self.corrected_loss(c, c_i), x, client, self.hp)
        new = self.new_control(client, c, c_i, x, y)
        return {"theta": y, "dc": difference(new, c_i), "n": client.n}, {"c": new}

    def corrected_loss(self, c: Params, c_i: Params) -> Loss:
        """y <- y - eta (grad CE(y; b) + c - c_i)."""
        return linear(cross_entropy_loss, difference(c, c_i))

    def new_control(self, client: Client, c: Params, c_i: Params, x: Params, y: Params) -> Params:
        if self.hp.control == "none":
            return zeros(c_i)
        if self.hp.control == "full":
            return self.full_gradient(client, x)
        steps = client.steps(self.hp.epochs * math.ceil(len(client.y) / self.hp.batch_size))
        if steps == 0:
            return c_i
        eta = self.hp.lr * self.hp.rate_factor(client.round)
        new = {}
        for name in c_i:  # c_i - c + (x - y) / (K eta), in float64: a small difference
            if name in self.task.statistics:
                new[name] = c_i[name]  # 0: no gradient moves it
                continue
            moved = (x[name].double() - y[name].double()) / (steps * eta)
            new[name] = (c_i[name].double() - c[name].double() + moved).float()
        return new

    def full_gradient(self, client: Client, x: Params) -> Params:
        """grad CE(x) over all training data."""
        total = zeros(x)
        net = self.net(x)
        for inputs, y in client.samples():
            g = gradient(net, inputs, y, name="")(dict(net.named_parameters()))
            share = len(y) / len(client.y)
            total.update({name: total[name] + share * g[name] for name in g})
        return total

    def aggregate(self, server: State, replies: Replies) -> State:
        """x <- (1 - eta_g) x + eta_g sum_i p_i y_i; C <- C + sum_i a_i (c_i^+ - c_i)."""
        weights = self.client_weights(replies)
        mean = weighted_mean(replies, "theta", weights)
        C = server["C"]
        a = server["a"].clone()
        for id in sorted(replies):
            change = replies[id]["dc"]
            C = {name: total + weights[id] * change[name].double() for name, total in C.items()}
            a[id] = weights[id]
        x = server_step(self.task, self.hp.server_lr, mean, server["x"])
        return {"x": x, "C": C, "a": a}

    def client_weights(self, replies: Replies) -> dict[int, Tensor]:
        """a_i: n_i, or 1 for every client."""
        if self.hp.weights == "uniform":
            return {id: torch.ones(()) for id in replies}
        return {id: reply["n"] for id, reply in replies.items()}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
