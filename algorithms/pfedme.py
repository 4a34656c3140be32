"""pFedMe (Dinh, Tran and Nguyen, "Personalized federated learning with Moreau envelopes", NeurIPS
2020), Algorithm 1.

Idea: personal models near the global one, which follows them (Moreau envelopes).
Paper: https://arxiv.org/abs/2006.08848
Code: https://github.com/CharlieDinh/pFedMe
Down: w. Up: w_i, n. Private: theta_i, the personal model, for evaluation only.
Evaluated: theta_i after training (post).
Deviations: per round a pass over the data, not R drawn batches. The inner problem gets K gradient
steps, and its variable goes on from one batch to the next, as in the public code. Clients are
weighted by samples, not equally. Five "local training epochs" are read as K = 5 (`inner_steps`) in
one pass (`epochs`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import blend, completed, gradient, server_step, weighted_mean

Gradient = Callable[[Params], Params]


@dataclass(frozen=True)
class pFedMeHparams(Hparams):
    lr: float = hparam(
        0.01, (1e-4, 1.0), "eta, rate at which w_i follows the personal model; eta lam <= 1"
    )
    optimizer: str = hparam("sgd", ["sgd"], "the method is made of gradient steps of its own")
    keep_optimizer: bool = hparam(False, [False], "its gradient steps have no state", tune=False)
    local_momentum: float = hparam(0.0, [0.0], "its gradient steps have no state", tune=False)
    weight_decay: float = hparam(0.0, [0.0], "it has inner_weight_decay", tune=False)
    clip: float = hparam(0.0, [0.0], "its gradient steps are written out", tune=False)
    lam: float = hparam(10.0, (0.0, 50.0), "lambda, pull of the personal model to w_i")
    inner_steps: int = hparam(5, (1, 50), "K, steps of the personal model on a batch")
    personal_lr: float = hparam(
        0.01, (1e-4, 0.2), "eta_p, rate of the inner steps; eta_p (lam + L) < 2"
    )
    beta: float = hparam(1.0, (0.0, 2.0), "share of the clients' mean in the new global model")
    inner_weight_decay: float = hparam(
        0.0, (0.0, 0.01), "decay in the inner steps; the public code has 0.001"
    )


class pFedMe(Algorithm):
    title = "pFedMe"
    family = "Regularization"
    evaluation_point = "post"
    hp: pFedMeHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        dropout = client.generator("dropout", "train")
        net = self.task.net(message["theta"], self.hp.dropout, dropout).train()
        w = {name: p.detach() for name, p in net.named_parameters()}
        v = w
        factor = self.hp.rate_factor(client.round)
        for x, y in client.batches(self.hp.batch_size, self.hp.epochs):
            w, v = self.step(w, v, gradient(net, x, y), factor)
        reply = {"theta": completed(net, w), "n": client.n}
        return reply, {"theta": completed(net, v)}

    def step(
        self, w: Params, v: Params, grad: Gradient, factor: float = 1.0
    ) -> tuple[Params, Params]:
        """One batch: K steps of v towards argmin CE(v) + (lam/2) ||v - w||^2; then w follows v.

        `factor` is that of both rates in this round.
        """
        for _ in range(self.hp.inner_steps):
            v = self.inner_step(w, v, grad, factor * self.hp.personal_lr)
        w = blend(factor * self.hp.lr * self.hp.lam, v, w)  # w <- w - eta lam (w - v)
        return w, v

    def inner_step(self, w: Params, v: Params, grad: Gradient, eta_p: float) -> Params:
        """v <- v - eta_p (grad CE(v; b) + lam (v - w))."""
        g = grad(v)
        new = {}
        for name, p in v.items():
            pull = self.hp.lam * (p - w[name]) + self.hp.inner_weight_decay * p
            new[name] = p.sub(g[name] + pull, alpha=eta_p)
        return new

    def aggregate(self, server: State, replies: Replies) -> State:
        """w <- (1 - beta) w + beta sum_i p_i w_i."""
        mean = weighted_mean(replies, "theta")
        return {"theta": server_step(self.task, self.hp.beta, mean, server["theta"])}

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.state["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}
