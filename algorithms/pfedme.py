"""pFedMe (Dinh et al., "Personalized federated learning with Moreau envelopes", NeurIPS 2020), Algorithm 1.

Down: w. Up: w_i, n. Private: theta_i, the personal model, for scoring only. Evaluated: theta_i after training (post).
Deviations: a round is a pass over the data, not R drawn batches; the inner problem gets K gradient steps, and its
variable goes on from one batch to the next, as in the public code; clients weigh by samples, not equally. The FedCoSR
paper's r = 5 "local training epochs" is read as K = 5 (`inner_steps`) in one pass (`epochs`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State, hparam
from pflbench.ops import blend, gradient, weighted_mean

Gradient = Callable[[Params], Params]


@dataclass(frozen=True)
class pFedMeHparams(Hparams):
    lr: float = hparam(
        0.01, (1e-4, 1.0), "eta, rate at which w_i follows the personal model; eta lam <= 1"
    )
    optimizer: str = hparam("sgd", ["sgd"], "the method is made of gradient steps of its own")
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
        net = client.task.net(
            message["theta"], self.hp.dropout, client.generator("dropout", "train")
        ).train()
        w = v = {name: p.detach() for name, p in net.named_parameters()}
        for x, y in client.batches(self.hp.batch_size, self.hp.epochs):
            w, v = self.step(w, v, gradient(net, x, y))
        w_i, theta_i = (
            {**message["theta"], **{name: p.contiguous() for name, p in q.items()}} for q in (w, v)
        )
        return {"theta": w_i, "n": client.n}, {"theta": theta_i}

    def step(self, w: Params, v: Params, grad: Gradient) -> tuple[Params, Params]:
        """One batch. K times v <- v - eta_p (grad(v) + lam (v - w)); then w <- w - eta lam (w - v)."""
        hp = self.hp
        for _ in range(hp.inner_steps):
            g = grad(v)
            pull = {
                name: hp.lam * (p - w[name]) + hp.inner_weight_decay * p for name, p in v.items()
            }
            v = {name: p.sub(g[name] + pull[name], alpha=hp.personal_lr) for name, p in v.items()}
        return blend(hp.lr * hp.lam, v, w), v

    def aggregate(
        self, server: State, replies: Replies
    ) -> State:  # w <- (1 - beta) w + beta sum_i p_i w_i
        return {"theta": blend(self.hp.beta, weighted_mean(replies, "theta"), server["theta"])}

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.state["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"global": message["theta"]}
