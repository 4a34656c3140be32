"""FedRCL (Seo et al., "Relaxed contrastive learning for federated learning", CVPR 2024): the
relaxed contrastive loss at several levels of the network.

Idea: FedAvg with a contrastive loss that does not let a class collapse to one point.
Paper: https://arxiv.org/abs/2401.04928
Code: https://github.com/skynbe/FedRCL
Down: theta. Up: theta, n. Private: nothing.
Evaluated: the new global model on every client's test data (pre).
Deviations: by default pairs are mined as in the authors' program: the hardest positive, the two
hardest negatives, the least similar partner. `pairs` = "all" is the published sum over all pairs as
we read it, where a positive competes with the negatives only. Clients are averaged by n_i unless
`weighting` says otherwise. No weight decay. Levels are the outputs of the body's layers that have
parameters, before ReLU; the blocks of ResNet are taken whole, so after theirs.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, softplus

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Message,
    Model,
    Net,
    Replies,
    State,
    hparam,
    log,
    refuse_options,
)
from pflbench.ops import layers, local_sgd, weighted_mean

ABSENT = -1e9  # cosine of a pair that does not count: its exponential and gradient are exactly 0


@dataclass(frozen=True)
class FedRCLHparams(Hparams):
    lr: float = hparam(0.1, (1e-4, 1.0), "eta, learning rate of local training")
    lr_decay: float = hparam(
        1.0, (0.9, 1.0), "factor on the learning rate per round; the authors' is 0.998"
    )
    clip: float = hparam(10.0, (0.0, 100.0), "bound on the gradient norm; 0: none")
    w_scl: float = hparam(1.0, (0.0, 10.0), "weight of the supervised contrastive loss S")
    beta: float = hparam(1.0, (0.0, 10.0), "weight of the divergence penalty R")
    lam: float = hparam(
        0.7, (-1.0, 1.0), "lambda, cosine from which on a pair of one class is too close"
    )
    temperature: float = hparam(0.05, (0.01, 1.0), "tau, temperature of S and R")
    pairs: str = hparam(
        "mined", ["mined", "all"], "pairs in S and R: the hardest of each anchor, or all"
    )
    weighting: str = hparam(
        "samples", ["samples", "uniform"], "weights of the clients in the mean: n_i, or equal"
    )

    def __post_init__(self) -> None:
        if self.lr_decay != 1:
            refuse_options(self, "FedRCL's rate has lr_decay already; use one", ["schedule"])


class FedRCL(Algorithm):
    title = "FedRCL"
    family = "Contrastive learning"
    hp: FedRCLHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        lr = self.hp.lr * self.hp.lr_decay**client.round
        hp = replace(self.hp, lr=lr)
        theta = local_sgd(self.loss, message["theta"], client, hp)
        reply = {"theta": theta, "n": client.n}
        return reply, {}

    def loss(self, net: Net, x: Tensor, y: Tensor) -> Tensor:
        """CE + w_scl S + beta R."""
        z, levels = features(net.body, x)
        s, r = self.terms(levels, y)
        log(S=s.detach(), R=r.detach())
        ce = cross_entropy(net.head(net.drop(z)), y)
        return ce + self.hp.w_scl * s + self.hp.beta * r

    def terms(self, levels: list[Tensor], y: Tensor) -> tuple[Tensor, Tensor]:
        """S and R of a batch: means over its samples, the anchors, and over levels (B, width)."""
        if not levels:  # a body without parameters
            zero = torch.zeros((), device=y.device)
            return zero, zero
        same = y[:, None] == y  # (B, B), samples of one class
        itself = torch.eye(len(y), dtype=torch.bool, device=y.device)
        partner = same & ~itself
        units = [normalize(level, eps=1e-8) for level in levels]
        cosine = torch.stack([u @ u.T for u in units])  # (L, B, B)
        if self.hp.pairs == "mined":
            return self.mined_pairs(cosine, same, partner)
        return self.all_pairs(cosine, same, partner)

    def mined_pairs(self, cosine: Tensor, same: Tensor, partner: Tensor) -> tuple[Tensor, Tensor]:
        """Of each anchor: the least similar positive, and for S the two most similar negatives."""
        # the anchor itself is a positive: a lone sample of its class has cosine 1
        positive = cosine.masked_fill(~same, 2.0).amin(-1, keepdim=True)  # (L, B, 1)
        negatives = cosine.masked_fill(same, ABSENT).topk(min(2, len(same))).values  # (L, B, 2)
        s = self.nce(positive, negatives)
        has_partner = partner.any(-1, keepdim=True)
        too_close = (positive >= self.hp.lam) & has_partner
        r = self.nce(1.0, positive.masked_fill(~too_close, ABSENT))
        return s.mean(), r.mean()

    def all_pairs(self, cosine: Tensor, same: Tensor, partner: Tensor) -> tuple[Tensor, Tensor]:
        """Every partner is a positive for S, against all negatives; every close one counts in R."""
        negatives = cosine.masked_fill(same, ABSENT)
        each = self.nce(cosine, negatives) * partner  # (L, B, B)
        s = each.sum(-1) / partner.sum(-1).clamp(min=1)
        too_close = partner & (cosine > self.hp.lam)
        r = self.nce(1.0, cosine.masked_fill(~too_close, ABSENT))
        return s.mean(), r.mean()

    def nce(self, positive: Tensor | float, others: Tensor) -> Tensor:
        """-log(e^{p/tau} / (e^{p/tau} + sum_j e^{o_j/tau})), j along the last dimension."""
        tau = self.hp.temperature
        return softplus(torch.logsumexp(others / tau, -1, keepdim=True) - positive / tau)

    def aggregate(self, server: State, replies: Replies) -> State:
        if self.hp.weighting == "uniform":
            equal = {id: torch.ones(()) for id in replies}
            return {"theta": weighted_mean(replies, "theta", equal)}
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return message["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]


def features(body: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """z, and the levels: outputs of the layers that have parameters.

    Of a feature map its spatial mean (B, channels).
    """
    levels = []
    for layer in layers(body):
        x = layer(x)
        has_parameters = next(layer.parameters(), None) is not None
        if has_parameters:
            levels.append(x.mean(tuple(range(2, x.dim()))) if x.dim() > 2 else x)
    return x, levels
