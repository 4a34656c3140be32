"""APFL (Deng, Kamani and Mahdavi, "Adaptive personalized federated learning", arXiv 2020).

Idea: each client mixes a private model with its copy of the global one, by a share that it learns.
Paper: https://arxiv.org/abs/2003.13461
Code: https://github.com/MLOPTPSU/FedTorch
Down: w. Up: w_i (w after local training), n. Private: v_i, the share alpha_i.
Evaluated: alpha_i v_i + (1 - alpha_i) w_i after training (post); series "global" is w, "private" v_i.
Deviations: a round is a number of passes over the data. As in the authors' code, alpha takes one
step per round, on its first batch; there it is fixed by default (`adaptive`), and logits are mixed
(`mix`), not parameters. Clients are weighted by samples, not equally.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Net, Params
from pflbench.api import Replies, State, hparam, log
from pflbench.ops import blend, completed, cross_entropy, leaves, parameters, weighted_mean

Logits = Callable[[Params], Tensor]  # of the samples of a batch: theta -> (B, C)


@dataclass(frozen=True)
class APFLHparams(Hparams):
    optimizer: str = hparam("sgd", ["sgd"], "the method is made of gradient steps of its own")
    keep_optimizer: bool = hparam(False, [False], "its gradient steps have no state", tune=False)
    local_momentum: float = hparam(0.0, [0.0], "its gradient steps have no state", tune=False)
    weight_decay: float = hparam(0.0, [0.0], "its gradient steps are written out", tune=False)
    clip: float = hparam(0.0, [0.0], "its gradient steps are written out", tune=False)
    alpha: float = hparam(0.5, (0.0, 1.0), "share of the private model, at the start if adaptive")
    adaptive: bool = hparam(True, [True, False], "clients learn their alpha")
    alpha_lr: float | None = hparam(None, (0.0, 1.0), "rate of alpha; none: lr")
    alpha_decay: float = hparam(0.0, (0.0, 0.1), "decay of alpha; the authors' code has 0.02")
    mix: str = hparam("parameters", ["parameters", "logits"], "what is mixed")
    unseen: str = hparam(
        "mix", ["mix", "global"], "what is evaluated of a client that never trained", tune=False
    )


class APFL(Algorithm):
    title = "APFL"
    family = "Model interpolation"
    evaluation_point = "post"
    hp: APFLHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        private, alpha = self.private(client)
        w = parameters(self.task, message["theta"])
        v = parameters(self.task, private)
        own = self.training_net(client, message["theta"], "train")
        mixed = self.training_net(client, private, "mixed")
        adapt = self.hp.adaptive
        factor = self.hp.rate_factor(client.round)
        for x, y in client.batches(self.hp.batch_size, self.hp.epochs):
            logits = logits_of(own, x), logits_of(mixed, x)
            w, v, alpha = self.step(w, v, alpha, *logits, y, adapt, factor)
            adapt = False  # in the first batch only
        log(alpha=alpha)
        reply = {"theta": completed(own, w), "n": client.n}
        return reply, {"v": completed(mixed, v), "alpha": alpha}

    def private(self, client: Client) -> tuple[Params, Tensor]:
        """v_i and alpha_i; a client that never trained has the initial ones."""
        if client.state:
            return client.state["v"], client.state["alpha"]
        return self.task.initial, torch.tensor(self.hp.alpha, device=client.y.device)

    def training_net(self, client: Client, theta: Params, stream: str) -> Net:
        draws = client.generator("dropout", stream)
        return self.task.net(theta, self.hp.dropout, draws).train()

    def step(
        self,
        w: Params,
        v: Params,
        alpha: Tensor,
        own: Logits,
        mixed: Logits,
        y: Tensor,
        adapt: bool,
        factor: float = 1.0,
    ) -> tuple[Params, Params, Tensor]:
        """w <- w - eta grad CE(w); v <- v - eta grad_v CE(u), u = alpha v + (1 - alpha) w;
        alpha <- clip(alpha - eta_alpha d CE(u) / d alpha): all gradients at the old values.

        `factor` is that of both rates in this round.
        """
        eta = factor * self.hp.lr
        g_w = self.global_gradient(w, own, y)
        g_v, g_alpha = self.mixed_gradients(w, v, alpha, mixed, y)
        new_w = moved(w, -eta, g_w)
        new_v = moved(v, -eta, g_v)
        if adapt:
            rate = eta if self.hp.alpha_lr is None else factor * self.hp.alpha_lr
            alpha = (alpha - rate * (g_alpha + self.hp.alpha_decay * alpha)).clamp(0, 1)
        return new_w, new_v, alpha

    def global_gradient(self, w: Params, own: Logits, y: Tensor) -> Params:
        leaf_w = leaves(w)
        value = cross_entropy(own(leaf_w), y)
        log(loss=value.detach())
        gradients = torch.autograd.grad(value, list(leaf_w.values()))
        return dict(zip(w, gradients, strict=True))

    def mixed_gradients(
        self, w: Params, v: Params, alpha: Tensor, mixed: Logits, y: Tensor
    ) -> tuple[Params, Tensor]:
        """Gradients of the mixture's loss in v, which has the factor alpha, and in alpha."""
        leaf_v = leaves(v)
        leaf_alpha = alpha.detach().requires_grad_()
        value = self.mixed_loss(w, leaf_v, leaf_alpha, mixed, y)
        log(loss_mixed=value.detach())
        *g_v, g_alpha = torch.autograd.grad(value, [*leaf_v.values(), leaf_alpha])
        return dict(zip(v, g_v, strict=True)), g_alpha

    def mixed_loss(self, w: Params, v: Params, alpha: Tensor, logits: Logits, y: Tensor) -> Tensor:
        if self.hp.mix == "logits":
            return cross_entropy(alpha * logits(v) + (1 - alpha) * logits(w), y)
        return cross_entropy(logits(blend(alpha, v, w)), y)

    def aggregate(self, server: State, replies: Replies) -> State:
        """w <- sum_i p_i w_i."""
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        if not client.state and self.hp.unseen == "global":
            return message["theta"]
        return self.mixture(client, message["theta"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.mixture(client, reply["theta"])

    def mixture(self, client: Client, w: Params) -> Model:
        v, alpha = self.private(client)
        if self.hp.mix == "logits":
            return {"v": v, "w": w, "alpha": alpha}
        of_mixture = {name: v[name] for name in self.task.statistics}  # v was trained in mixtures
        return {**blend(alpha, v, w), **of_mixture}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "alpha" not in model:
            return super().predict(model, x)
        alpha = model["alpha"]
        scores: Tensor = alpha * self.net(model["v"])(x) + (1 - alpha) * self.net(model["w"])(x)
        return scores

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        v, _ = self.private(client)
        return {"global": message["theta"], "private": v}


def moved(theta: Params, rate: float, direction: Params) -> Params:
    """theta + rate * direction, in row-major layout."""
    return {name: p.add(direction[name], alpha=rate).contiguous() for name, p in theta.items()}


def logits_of(net: Net, x: Tensor) -> Logits:
    """theta -> the network's logits for a batch."""

    def logits(theta: Params) -> Tensor:
        scores: Tensor = functional_call(net, theta, (x,))
        return scores

    return logits
