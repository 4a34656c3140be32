"""FedAMP (Huang et al., "Personalized cross-silo federated learning on non-IID data", AAAI 2021),
Algorithm 1.

Idea: clients with similar models attract each other, by a cloud model for each.
Paper: https://arxiv.org/abs/2007.03797
Code: none of the authors found
Down: u_i, the client's cloud model. Up: w_i. Private: w_i. Evaluated: w_i after training (post).
Deviations: the squared distances between models are divided by their median in the round
(`distances`), and sigma is a quarter of it, so that the attention does not depend on how far
training moves the models. With distances as they are, sigma = 1 and alpha = 10000, common values,
give nearly uniform weights while models are close, and the identity when they are far apart.
The record says when weights are nearly one or the other. alpha = 10000 lets xi leave [0, 1]: a row
is scaled down where another client would weigh more than the client itself (`cap`), so that u_i is a
convex combination, and training starts at u_i, not at w_i (`start`). The proximal problem gets a
pass of SGD. alpha is multiplied by 0.1 every 30 rounds and
never falls below `alpha_min`, where explicit steps would diverge. Below full participation the
server mixes the latest model of every client that ever took part. As published: `distances =
"absolute"`, `cap = "none"`, `start = "own"`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pflbench.api import (
    Algorithm,
    Client,
    Cohort,
    Hparams,
    Message,
    Model,
    Params,
    Replies,
    State,
    hparam,
    log,
    note,
)
from pflbench.ops import cross_entropy_loss, local_sgd, proximal

COLUMNS = 1 << 16  # of the matrix of all models that are in float64 at a time
NEARLY_UNIFORM = 0.1  # no weight differs from 1/N by more than this share of 1/N
NEARLY_IDENTITY = 0.01  # no client gives more than this weight to the other clients together


@dataclass(frozen=True)
class FedAMPHparams(Hparams):
    alpha: float = hparam(
        1e4, (1e-2, 1e5), "alpha_0, step of the server; the pull of clients is lambda / alpha_t"
    )
    alpha_decay: float = hparam(0.1, (0.01, 1.0), "factor on alpha every `alpha_every` rounds")
    alpha_every: int = hparam(30, (1, 1000), "rounds between decays of alpha")
    alpha_min: float = hparam(1.0, (1e-3, 1e5), "where decay of alpha ends; eta lambda / alpha < 2")
    sigma: float = hparam(
        0.25, (1e-3, 1e6), "scale of squared distances in A(x) = 1 - exp(-x / sigma)"
    )
    distances: str = hparam(
        "relative",
        ["relative", "absolute"],
        "squared distances over their median in the round, or as they are",
    )
    lam: float = hparam(
        1.0,
        (0.0, 100.0),
        "lambda, weight of the attention term, hence of the pull to the cloud model",
    )
    cap: str = hparam(
        "own",
        ["own", "uniform", "none"],
        "least weight of the own model: the largest other weight, 1/N, or any, as published",
    )
    start: str = hparam("cloud", ["cloud", "own"], "local training starts at u_i or at w_i")


class FedAMP(Algorithm):
    title = "FedAMP"
    family = "Model collaboration"
    evaluation_point = "post"
    hp: FedAMPHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta"

    def init_server(self) -> State:
        return {"w": {}, "t": torch.zeros((), dtype=torch.int32)}

    def init_client(self) -> State:
        return {"w": self.task.initial}

    def alpha(self, t: int) -> float:
        """alpha_t = alpha_0 decay^floor(t / every), but at least alpha_min (or alpha_0, if lower)."""
        least = min(self.hp.alpha, self.hp.alpha_min)
        decayed = self.hp.alpha * self.hp.alpha_decay ** (t // self.hp.alpha_every)
        return max(decayed, least)

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        """u_i, from all latest models; w^0 for a client that has none."""
        messages: dict[int, Message] = {id: {"theta": self.task.initial} for id in ids}
        known = sorted(server["w"])
        rows = [row for row, id in enumerate(known) if id in messages]
        if not rows:
            return messages
        W = torch.stack([flat(server["w"][id]) for id in known])  # (N, P)
        xi = self.attention(squared_distances(self.moved(W)), self.alpha(int(server["t"])))
        U = mixed(W, xi[rows])
        for row, u in zip(rows, U, strict=True):
            messages[known[row]] = {"theta": unflat(u, self.task.initial)}
        return messages

    def moved(self, W: Tensor) -> Tensor:
        """Models (N, P) without running statistics, if they have any."""
        if not self.task.statistics:
            return W
        parts = W.split([p.numel() for p in self.task.initial.values()], dim=1)
        named = zip(self.task.initial, parts, strict=True)
        return torch.cat([part for name, part in named if name not in self.task.statistics], 1)

    def attention(self, x: Tensor, alpha: float) -> Tensor:
        """xi_ij = alpha A'(x_ij) for j != i, xi_ii = 1 - sum_{j != i} xi_ij; x, xi: (N, N) float64.

        A(x) = 1 - exp(-x / sigma), so A'(x) = exp(-x / sigma) / sigma.
        """
        N = len(x)
        if N > 1:
            log(distance=x.sum() / (N * (N - 1)), alpha=alpha)
        if self.hp.distances == "relative":
            x = x / median_distance(x)
        xi = alpha / self.hp.sigma * torch.exp(-x / self.hp.sigma)
        xi.fill_diagonal_(0)
        xi = self.capped(xi)
        if N > 1:
            log(xi_max=xi.max())
        xi = xi + torch.diag(1 - xi.sum(1))
        log(xi_ii=xi.diagonal().mean())
        note_degenerate(xi)
        return xi

    def capped(self, xi: Tensor) -> Tensor:
        """Rows whose own weight, 1 - sum_j xi_ij, would be too small, scaled down; xi_ii is 0 here."""
        total = xi.sum(1)
        if self.hp.cap == "own":
            largest = xi.max(1).values
            most = total / (total + largest)  # then 1 - sum_j xi_ij = max_j xi_ij
        elif self.hp.cap == "uniform":
            most = torch.full_like(total, 1 - 1 / len(xi))
        else:
            return xi
        over = total > most
        log(capped=over.sum())
        return torch.where(over[:, None], xi * (most / total)[:, None], xi)

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        u = message["theta"]
        # CE + lambda / (2 alpha) ||w - u_i||^2
        loss = proximal(cross_entropy_loss, u, self.hp.lam / self.alpha(client.round))
        start = u if self.hp.start == "cloud" else client.state["w"]
        w = local_sgd(loss, start, client, self.hp)
        return {"theta": w}, {"w": w}

    def aggregate(self, server: State, replies: Replies) -> State:
        latest = dict(server["w"])
        for id, reply in replies.items():
            latest[id] = reply["theta"]
        return {"w": latest, "t": server["t"] + 1}

    def evaluation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        return {id: {} for id in cohort.ids}  # clients evaluate what they have

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.state["w"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["w"]


def squared_distances(W: Tensor) -> Tensor:
    """x_ij = ||w_i - w_j||^2: (N, N) float64.

    Computed from d_i = w_i - w_0, so that equal models are at distance 0 exactly.
    """
    gram = torch.zeros(len(W), len(W), dtype=torch.float64)
    for w in W.split(COLUMNS, dim=1):
        d = w.double() - w[:1].double()
        gram += d @ d.T
    squares = gram.diagonal()
    return (squares[:, None] + squares[None, :] - gram - gram.T).clamp(min=0)


def median_distance(x: Tensor) -> Tensor:
    """The median of the distances between models that differ; 1 if all are equal."""
    positive = x[x > 0]
    return positive.median() if len(positive) else torch.ones((), dtype=x.dtype)


def note_degenerate(xi: Tensor) -> None:
    """Say in the record when attention does nothing: weights of averaging, or of no exchange."""
    N = len(xi)
    if N == 1:
        return
    others = 1 - xi.diagonal()
    if (N * xi - 1).abs().max() <= NEARLY_UNIFORM:
        note("attention weights are nearly uniform: every cloud model is nearly the mean of all")
    elif others.abs().max() <= NEARLY_IDENTITY:
        note("attention weights are nearly the identity: every cloud model is nearly the own model")


def mixed(W: Tensor, xi: Tensor) -> Tensor:
    """u_i = sum_j xi_ij w_j = w_0 + sum_j xi_ij (w_j - w_0), as rows of xi sum to 1: (len(xi), P).

    xi may be some of its rows. With large xi of both signs the first form would lose digits; the
    second, in float64, is exact for equal models.
    """
    first = W[:1].double()
    parts = []
    for w, w_0 in zip(W.split(COLUMNS, dim=1), first.split(COLUMNS, dim=1), strict=True):
        parts.append((w_0 + xi @ (w.double() - w_0)).float())
    return torch.cat(parts, 1)


def flat(theta: Params) -> Tensor:
    return torch.cat([p.flatten() for p in theta.values()])


def unflat(vector: Tensor, like: Params) -> Params:
    sizes = [p.numel() for p in like.values()]
    theta = {}
    for (name, p), part in zip(like.items(), vector.split(sizes), strict=True):
        theta[name] = part.view(p.shape).to(p.dtype)
    return theta
