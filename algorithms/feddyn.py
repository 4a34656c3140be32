"""FedDyn (Acar et al., "Federated learning based on dynamic regularization", ICLR 2021).

Idea: FedAvg with local losses that change every round, so that local and global optima agree.
Paper: https://arxiv.org/abs/2111.04263
Code: https://github.com/alpemreacar/FedDyn
Down: w. Up: theta_i, n. Private: g_i, the sum of the client's own moves, in units of parameters
(the box has the gradient -alpha g_i).
Evaluated: the mean of the newest client models (pre); series "cloud" is w, which is sent.
Deviations: clients are weighted by n_i, in the box equally (`weights`). As in the authors' code the
mean is evaluated, not w, and gradients are clipped; weight decay, decreasing rates and an alpha for
each client by its share of the samples are left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pflbench.api import Algorithm, Client, Cohort, Hparams, Message, Model, Params
from pflbench.api import Replies, State, hparam, log
from pflbench.ops import cross_entropy_loss, linear, local_sgd, parameters, proximal, weighted_mean
from pflbench.ops import zeros


@dataclass(frozen=True)
class FedDynHparams(Hparams):
    alpha: float = hparam(0.01, (0.0, 1.0), "weight of the regularization")
    clip: float = hparam(10.0, (0.0, 100.0), "bound of the norm of a gradient; 0: none")
    dynamic: bool = hparam(True, [True, False], "g_i is learned; false: it stays 0, as in FedProx")
    weights: str = hparam("samples", ["samples", "uniform"], "weight clients by n_i or equally")


class FedDyn(Algorithm):
    title = "FedDyn"
    family = "Regularization"
    hp: FedDynHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def init_server(self) -> State:
        """w; the mean of the client models; G = sum_i a_i g_i over all clients; the weights a_i of
        those seen so far, 0 elsewhere.
        """
        initial = self.task.initial
        moved = parameters(self.task, initial)
        return {
            "w": initial,
            "mean": initial,
            "G": zeros(moved, torch.float64),
            "a": torch.zeros(self.task.clients),
        }

    def init_client(self) -> State:
        moved = parameters(self.task, self.task.initial)
        return {"g": zeros(moved)}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        message = {"theta": server["w"]}
        return dict.fromkeys(ids, message)

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """theta_i = argmin CE(theta) + (alpha / 2) ||theta - w||^2 + alpha <g_i, theta>, inexactly;
        g_i <- g_i + theta_i - w.
        """
        w = message["theta"]
        g = client.state["g"]
        alpha = self.hp.alpha
        regularized = proximal(cross_entropy_loss, w, alpha)
        loss = linear(regularized, {name: alpha * p for name, p in g.items()})
        theta = local_sgd(loss, w, client, self.hp)
        if self.hp.dynamic:
            g = {name: g[name] + theta[name] - w[name] for name in g}
        return {"theta": theta, "n": client.n}, {"g": g}

    def aggregate(self, server: State, replies: Replies) -> State:
        """G <- G + sum_i a_i (theta_i - w); w <- sum_i p_i theta_i + G / (N mean a)."""
        weights = self.client_weights(replies)
        mean = weighted_mean(replies, "theta", weights)
        G = server["G"]
        a = server["a"].clone()
        for id in sorted(replies):
            a[id] = weights[id]
            if self.hp.dynamic:
                G = self.with_move(G, weights[id], replies[id]["theta"], server["w"])
        whole = self.task.clients * a.sum().double() / (a > 0).sum()  # N mean a, of the seen
        w = dict(mean)
        for name, total in G.items():
            w[name] = (mean[name].double() + total / whole).to(mean[name].dtype)
        squares = [(total / whole).square().sum() for total in G.values()]
        log(displacement=torch.stack(squares).sum().sqrt())
        return {"w": w, "mean": mean, "G": G, "a": a}

    def with_move(self, G: Params, weight: Tensor, theta: Params, w: Params) -> Params:
        return {
            name: total + weight * (theta[name].double() - w[name].double())
            for name, total in G.items()
        }

    def client_weights(self, replies: Replies) -> dict[int, Tensor]:
        """a_i: n_i, or 1 for every client."""
        if self.hp.weights == "uniform":
            return {id: torch.ones(()) for id in replies}
        return {id: reply["n"] for id, reply in replies.items()}

    def evaluation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        message = {"theta": server["mean"], "w": server["w"]}
        return dict.fromkeys(cohort.ids, message)

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"cloud": message["w"]}
