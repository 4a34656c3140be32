"""APFL (Deng, Kamani and Mahdavi, "Adaptive personalized federated learning", arXiv 2020),
Algorithm 1.

Idea: a client mixes a private model v with its copy of the global model w, and learns how much.
Paper: https://arxiv.org/abs/2003.13461
Code: https://github.com/MLOPTPSU/FedTorch
Down: w. Up: w_i (w after local training), n. Private: v_i, alpha_i.
Evaluated: alpha v + (1 - alpha) w_i after training (post).
Deviations: clients are weighted by samples, not equally.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Message,
    Model,
    Params,
    Replies,
    State,
    hparam,
    log,
)
from pflbench.ops import blend, gradient, weighted_mean


@dataclass(frozen=True)
class APFLHparams(Hparams):
    optimizer: str = hparam("sgd", ["sgd"], "the steps are the method's own")
    alpha: float = hparam(0.5, (0.0, 1.0), "share of the private model in the mixture at the start")
    adaptive: bool = hparam(True, [False, True], "alpha is learned")


class APFL(Algorithm):
    title = "APFL"
    family = "Model interpolation"
    evaluation_point = "post"
    hp: APFLHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def init_client(self) -> State:
        return {"v": self.task.initial, "alpha": torch.tensor(self.hp.alpha)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """One step of w and v per batch; alpha moves in the first one."""
        w, v, alpha = message["theta"], client.state["v"], client.state["alpha"]
        net = self.task.net(w, self.hp.dropout, client.generator("dropout", "train")).train()
        for number, (x, y) in enumerate(client.batches(self.hp.batch_size, self.hp.epochs)):
            g_w = gradient(net, x, y)(w)
            g = gradient(net, x, y, name="")(blend(alpha, v, w))
            moved = self.alpha_step(alpha, v, w, g) if number == 0 else alpha
            v = {name: p.sub(alpha * g[name], alpha=self.hp.lr) for name, p in v.items()}
            w = {name: p.sub(g_w[name], alpha=self.hp.lr) for name, p in w.items()}
            alpha = moved
        log(alpha=alpha)
        reply = {"theta": w, "n": client.n}
        return reply, {"v": v, "alpha": alpha}

    def alpha_step(self, alpha: Tensor, v: Params, w: Params, g: Params) -> Tensor:
        """alpha <- clip(alpha - eta <v - w, g>, 0, 1), g being the gradient at the mixture."""
        if not self.hp.adaptive:
            return alpha
        products = [((v[name] - w[name]) * g[name]).sum() for name in g]
        return (alpha - self.hp.lr * torch.stack(products).sum()).clamp(0.0, 1.0)

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return blend(client.state["alpha"], client.state["v"], message["theta"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return blend(client.state["alpha"], client.state["v"], reply["theta"])
