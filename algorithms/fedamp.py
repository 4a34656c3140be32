"""FedAMP (Huang et al., "Personalized cross-silo federated learning on non-IID data", AAAI 2021), Algorithm 1.

Down: u_i, the client's cloud model. Up: w_i. Private: w_i. Evaluated: w_i after training (post).
Deviations: at the FedCoSR paper's alpha = 10000 and sigma = 1 the weights xi leave [0, 1] for models that are close, so
by default a row whose weights of others exceed 1 - 1/N is scaled down to that (`cap`), and training starts at u_i, not
at w_i (`start`). The proximal problem gets a pass of SGD. alpha is multiplied by 0.1 every 30 rounds, the FedCoSR
paper's "decrease by 0.1", and never falls below `alpha_min`, where explicit steps would diverge. Below full
participation the server mixes the latest model of every client that ever took part.
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
    log,
)
from pflbench.api import hparam
from pflbench.ops import cross_entropy_loss, local_sgd, proximal

COLUMNS = 1 << 16  # of the matrix of all models that are in float64 at a time


@dataclass(frozen=True)
class FedAMPHparams(Hparams):
    alpha: float = hparam(
        1e4, (1e-2, 1e5), "alpha_0, step of the server; the pull of clients is lambda / alpha_t"
    )
    alpha_decay: float = hparam(0.1, (0.01, 1.0), "factor on alpha every `alpha_every` rounds")
    alpha_every: int = hparam(30, (1, 1000), "rounds between decays of alpha")
    alpha_min: float = hparam(1.0, (1e-3, 1e5), "where decay of alpha ends; eta lambda / alpha < 2")
    sigma: float = hparam(
        1.0, (1e-3, 1e6), "scale of squared distances in A(x) = 1 - exp(-x / sigma)"
    )
    lam: float = hparam(
        1.0,
        (0.0, 100.0),
        "lambda, weight of the attention term, hence of the pull to the cloud model",
    )
    cap: bool = hparam(
        True, [True, False], "keep cloud models convex combinations; false: as published"
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
        """alpha_t = alpha_0 decay^floor(t / every), but not below the least (or alpha_0, if that is lower)."""
        hp = self.hp
        return max(hp.alpha * hp.alpha_decay ** (t // hp.alpha_every), min(hp.alpha, hp.alpha_min))

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        """u_i, from all latest models; w^0 for a client that has none."""
        known = sorted(server["w"])
        messages: dict[int, Message] = {id: {"theta": self.task.initial} for id in ids}
        rows = [row for row, id in enumerate(known) if id in messages]
        if rows:
            W = torch.stack([flat(server["w"][id]) for id in known])  # (N, P)
            xi = self.attention(squared_distances(W), self.alpha(int(server["t"])))
            U = mixed(W, xi[rows])
            for row, u in zip(rows, U, strict=True):
                messages[known[row]] = {"theta": unflat(u, self.task.initial)}
        return messages

    def attention(self, x: Tensor, alpha: float) -> Tensor:
        """xi_ij = alpha A'(x_ij) for j != i, xi_ii = 1 - sum_{j != i} xi_ij; x, xi: (N, N) float64."""
        N = len(x)
        xi = (alpha / self.hp.sigma * torch.exp(-x / self.hp.sigma)).fill_diagonal_(0)
        total, most = xi.sum(1), 1 - 1 / N
        over = total > most if self.hp.cap else torch.zeros_like(total, dtype=torch.bool)
        xi = torch.where(over[:, None], xi * (most / total)[:, None], xi)
        if N > 1:  # xi_max near 0: every client is on its own
            log(distance=x.sum() / (N * (N - 1)), xi_max=xi.max(), capped=over.sum(), alpha=alpha)
        xi = xi + torch.diag(1 - xi.sum(1))
        log(xi_ii=xi.diagonal().mean())
        return xi

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        # CE + lambda / (2 alpha) ||w - u_i||^2
        loss = proximal(
            cross_entropy_loss, message["theta"], self.hp.lam / self.alpha(client.round)
        )
        w = local_sgd(
            loss,
            message["theta"] if self.hp.start == "cloud" else client.state["w"],
            client,
            self.hp,
        )
        return {"theta": w}, {"w": w}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {
            "w": {**server["w"], **{id: reply["theta"] for id, reply in replies.items()}},
            "t": server["t"] + 1,
        }

    def evaluation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        return {id: {} for id in cohort.ids}  # clients score what they have

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.state["w"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["w"]


def squared_distances(W: Tensor) -> Tensor:
    """x_ij = ||w_i - w_j||^2: (N, N) float64. Taken from d_i = w_i - w_0, so that equal models are at 0 exactly."""
    gram = torch.zeros(len(W), len(W), dtype=torch.float64)
    for w in W.split(COLUMNS, dim=1):
        d = w.double() - w[:1].double()
        gram += d @ d.T
    squares = gram.diagonal()
    return (squares[:, None] + squares[None, :] - gram - gram.T).clamp(min=0)


def mixed(W: Tensor, xi: Tensor) -> Tensor:
    """u_i = sum_j xi_ij w_j = w_0 + sum_j xi_ij (w_j - w_0), as rows of xi sum to 1; xi may be some of its rows.

    With large xi of both signs the first form would lose digits; the second, in float64, is exact for equal models.
    """
    first = W[:1].double()
    parts = zip(W.split(COLUMNS, dim=1), first.split(COLUMNS, dim=1), strict=True)
    return torch.cat(
        [(w_0 + xi @ (w.double() - w_0)).float() for w, w_0 in parts], 1
    )  # (len(xi), P)


def flat(theta: Params) -> Tensor:
    return torch.cat([p.flatten() for p in theta.values()])


def unflat(vector: Tensor, like: Params) -> Params:
    parts = zip(like.items(), vector.split([p.numel() for p in like.values()]), strict=True)
    return {name: part.view(p.shape).to(p.dtype) for (name, p), part in parts}
