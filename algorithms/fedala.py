"""FedALA (Zhang et al., "FedALA: Adaptive local aggregation for personalized federated learning",
AAAI 2023), Algorithm 1.

Idea: each client learns, weight by weight, how much of the global model to take.
Paper: https://arxiv.org/abs/2212.01197
Code: https://github.com/TsingZ0/FedALA
Down: theta. Up: theta, n. Private: theta_i, the weights W_i of the upper layers. Evaluated: the
merged model, before local training (pre).
Deviations: p counts layers with all their tensors; the authors' code counts tensors. The subset for
learning W is drawn sample by sample, theirs is a slice. The first learning ends after `max_passes`
passes at the latest, theirs may never end. A client that is not selected learns W on a copy, for
evaluation alone.
"""

from collections.abc import Iterator
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
    log,
    hparam,
)
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean


@dataclass(frozen=True)
class FedALAHparams(Hparams):
    lr: float = hparam(0.1, (1e-4, 1.0), "eta, learning rate of local training")
    p: int = hparam(
        1,
        (0, 20),
        "upper layers, from the output on, whose merge is learned; the others are global",
    )
    eta_w: float = hparam(1.0, (0.0, 10.0), "rate of learning the weights W")
    share: float = hparam(0.8, (0.05, 1.0), "s, share of the local data that W is learned on")
    threshold: float = hparam(
        0.1, (1e-4, 1.0), "the first learning ends when the last losses vary less (std)"
    )
    window: int = hparam(10, (2, 50), "of this many losses, one for each pass")
    max_passes: int = hparam(
        50, (1, 1000), "bound on the passes of the first learning; later ones take one"
    )


class FedALA(Algorithm):
    title = "FedALA"
    family = "Local aggregation"
    hp: FedALAHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        start, W = self.merged(client, message)
        theta = local_sgd(cross_entropy_loss, start, client, self.hp)
        return {"theta": theta, "n": client.n}, {"theta": theta, "W": W}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def merged(self, client: Client, message: Message) -> tuple[Params, Params]:
        """Lower layers: the global ones. Upper layers: W g + (1 - W) a, g global, a the own ones.

        Returns the merged model and W. A client that never trained takes the global model; W is
        empty until it has been learned once.
        """
        upper = self.upper()
        if not client.state or not upper:
            return message["theta"], {}
        g = {name: message["theta"][name] for name in upper}
        a = {name: client.state["theta"][name] for name in upper}
        W = self.learned_weights(client, message["theta"], g, a)
        log(mean_weight=torch.cat([w.flatten() for w in W.values()]).mean())
        theta = dict(message["theta"])
        theta.update(mixed(W, g, a))
        return theta, W

    def learned_weights(self, client: Client, theta: Params, g: Params, a: Params) -> Params:
        """W after a step on every batch, t being the model merged by the newest W."""
        W: Params = client.state["W"]
        passes = 1
        if not W:  # the first learning
            W = {name: torch.ones_like(p) for name, p in g.items()}
            passes = self.hp.max_passes
        net = self.net(theta).requires_grad_(False)
        t: Params = {name: p for name, p in net.named_parameters() if name in W}
        for p in t.values():
            p.requires_grad_()
        copy_into(t, mixed(W, g, a))
        losses: list[Tensor] = []  # of the last batch of every pass
        while len(losses) < passes and not self.converged(losses):
            for x, y in self.subset(client):
                loss = cross_entropy_loss(net, x, y)
                gradients = torch.autograd.grad(loss, list(t.values()))
                W = self.weight_step(W, dict(zip(t, gradients, strict=True)), g, a)
                copy_into(t, mixed(W, g, a))
            losses.append(loss.detach())
        log(passes=len(losses))
        return W

    def weight_step(self, W: Params, G: Params, g: Params, a: Params) -> Params:
        """W <- clip(W - eta_w G (g - a), 0, 1), where G is the gradient at the merged layers."""
        new = {}
        for name, w in W.items():
            step = self.hp.eta_w * G[name] * (g[name] - a[name])
            new[name] = (w - step).clamp(0, 1)
        return new

    def converged(self, losses: list[Tensor]) -> bool:
        """Whether the last losses vary less than the threshold."""
        if len(losses) <= self.hp.window:
            return False
        last = torch.stack(losses[-self.hp.window :])
        return bool(last.std(correction=0) < self.hp.threshold)

    def subset(self, client: Client) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of the samples that W is learned on, always the same within a round."""
        n = len(client.y)
        order = torch.randperm(n, generator=client.generator("weights"))
        size = max(1, int(self.hp.share * n + 1e-9))
        for rows in order[:size].split(self.hp.batch_size):
            yield self.task.inputs(client.x[rows]), client.y[rows.to(client.y.device)]

    def upper(self) -> list[str]:
        """Names of the parameters of the last p layers; a layer has a common prefix, as `head.fc2`."""
        names = [name for name, _ in self.task.skeleton.named_parameters()]
        layers = list(dict.fromkeys(layer_of(name) for name in names))
        first = max(0, len(layers) - self.hp.p)
        return [name for name in names if layer_of(name) in layers[first:]]

    def personal_model(self, client: Client, message: Message) -> Model:
        theta, _ = self.merged(client, message)
        return theta

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]


def mixed(W: Params, g: Params, a: Params) -> Params:
    """W g + (1 - W) a; exact at 0 and 1."""
    return {name: W[name] * g[name] + (1 - W[name]) * a[name] for name in W}


@torch.no_grad()
def copy_into(t: Params, values: Params) -> None:
    for name, p in t.items():
        p.copy_(values[name])


def layer_of(name: str) -> str:
    return name.rpartition(".")[0]
