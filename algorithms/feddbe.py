"""FedDBE (Zhang et al., "Eliminating domain bias for federated learning in representation space",
NeurIPS 2023): the domain bias eliminator DBE with FedAvg.

Idea: a private vector added to representations takes a client's bias; their mean is held in place.
Paper: https://arxiv.org/abs/2311.14975
Code: https://github.com/TsingZ0/DBE
Down: theta, the global mean r of representations (not in the first round). Up: theta, n; in the
first round the client's mean r_i, n. Private: m_i.
Evaluated: head(body(x) + m_i) of the new global model (pre); series "global" is without m_i.
Deviations: the initial period, in which clients train without sending a model to get r, is the first
round, with its cohort; in the authors' code all clients train before the rounds, uncounted.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pflbench.api import Algorithm, Client, Hparams, Loss, Message, Model, Net
from pflbench.api import Replies, State, hparam
from pflbench.ops import cross_entropy, leaves, local_sgd, representations, values, weighted_mean


@dataclass(frozen=True)
class FedDBEHparams(Hparams):
    kappa: float = hparam(50.0, (0.0, 100.0), "weight of the pull of the mean representation to r")
    mu: float = hparam(1.0, (0.01, 1.0), "share of a batch in the running mean of representations")
    m_lr: float | None = hparam(None, (0.0, 1.0), "rate of m_i; none: lr")
    init_epochs: int = hparam(1, (0, 50), "passes of the initial period")
    init: str = hparam(
        "running", ["running", "all_data"], "r_i: running mean of its passes, or mean of all data"
    )


class RunningMean:
    """s <- (1 - mu) s + mu mean_b(z), from 0; gradients flow through the newest batch only."""

    def __init__(self, width: int, mu: float, device: torch.device) -> None:
        self.s = torch.zeros(width, device=device)
        self.mu = mu

    def add(self, z: Tensor) -> Tensor:
        s = (1 - self.mu) * self.s + self.mu * z.flatten(1).mean(0)
        self.s = s.detach()
        return s


class FedDBE(Algorithm):
    title = "FedDBE"
    family = "Representation debiasing"
    hp: FedDBEHparams

    def costs(self) -> tuple[str, str]:
        return "theta + k", "theta + 1"

    def init_client(self) -> State:
        return {"m": torch.zeros(self.task.width)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        if "r" not in message:
            return {"r": self.initial_mean(client, message), "n": client.n}, client.state
        m = leaves({"m": client.state["m"]})
        mean = self.running_mean(client)
        loss = self.debiased_loss(m["m"], message["r"], mean)
        rate = self.hp.lr if self.hp.m_lr is None else self.hp.m_lr
        theta = local_sgd(loss, message["theta"], client, self.hp, besides=[(m, rate)])
        return {"theta": theta, "n": client.n}, values(m)

    def running_mean(self, client: Client) -> RunningMean:
        return RunningMean(self.task.width, self.hp.mu, client.y.device)

    def initial_mean(self, client: Client, message: Message) -> Tensor:
        """r_i, of a model that is trained for it and thrown away."""
        mean = self.running_mean(client)

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            mean.add(z)
            return cross_entropy(net.head(net.drop(z)), y)

        hp = replace(self.hp, epochs=self.hp.init_epochs)
        theta = local_sgd(loss, message["theta"], client, hp)
        if self.hp.init == "all_data":
            return representations(theta, client).flatten(1).mean(0)
        return mean.s

    def debiased_loss(self, m: Tensor, r: Tensor, mean: RunningMean) -> Loss:
        """CE(head(z + m_i), y) + kappa / (2 k) ||s - r||^2."""

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            s = mean.add(z)
            pull = self.hp.kappa / 2 * (s - r).square().mean()
            return cross_entropy(net.head(net.drop(shifted(z, m))), y) + pull

        return loss

    def aggregate(self, server: State, replies: Replies) -> State:
        """r = sum_i p_i r_i once; then theta = sum_i p_i theta_i."""
        if "r" not in server:
            return {"theta": server["theta"], "r": weighted_mean(replies, "r")}
        return {"theta": weighted_mean(replies, "theta"), "r": server["r"]}

    def personal_model(self, client: Client, message: Message) -> Model:
        return {"theta": message["theta"], "m": client.state["m"]}

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model | None:
        if "theta" not in reply:
            return None
        return {"theta": reply["theta"], "m": client.state["m"]}

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "m" not in model:
            return super().predict(model, x)
        net = self.net(model["theta"])
        scores: Tensor = net.head(shifted(net.body(x), model["m"]))
        return scores


def shifted(z: Tensor, m: Tensor) -> Tensor:
    """z + m, for representations of any shape."""
    return z + m.reshape(z.shape[1:])
