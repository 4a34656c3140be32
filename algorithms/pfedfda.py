"""pFedFDA (McLaughlin and Su, "Personalized federated learning via feature distribution adaptation",
NeurIPS 2024), Algorithm 1.

Idea: a shared body and classifiers from Gaussians of the classes, between global and local.
Paper: https://arxiv.org/abs/2411.00329
Code: https://github.com/cj-mclaughlin/pFedFDA
Down: phi, and the Gaussians of the classes: their means M (the prototypes) and common covariance S
(its upper triangle). Up: phi, the Gaussians interpolated by the client, n. Private: beta.
Evaluated: the new global body with the linear discriminant of the client's Gaussians, estimated
anew with that body and interpolated with the global ones (pre).
Deviations: no momentum, no weight decay. L-BFGS-B finds beta within its bounds; the authors clip it
in the loss. A class is known to a client from 3 samples on, as the authors' code intends but does
not test. Representations are of all passes of training, as there, so that a sample may lie on both
sides of a fold.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Message,
    Model,
    Net,
    Params,
    Replies,
    State,
    hparam,
    log,
)
from pflbench.ops import cross_entropy, join, local_sgd, phi, pi, weighted_mean

EPSILON = 1e-4


class Gaussians(NamedTuple):
    """One Gaussian per class, all with the same covariance; float64."""

    means: Tensor  # M (C, k)
    covariance: Tensor  # S (k, k)


class Fold(NamedTuple):
    """The samples held out in a fold, and the Gaussians estimated without them."""

    own: Gaussians
    z: Tensor  # (B, k)
    y: Tensor  # (B,)


@dataclass(frozen=True)
class pFedFDAHparams(Hparams):
    epochs: int = hparam(5, (0, 50), "E, passes over the local data per round")
    folds: int = hparam(2, (2, 10), "k, folds of the cross-validation that finds beta")
    beta: str = hparam(
        "two",
        ["two", "one", "global", "local"],
        "for M and S each; one for both; always 0; always 1",
    )
    reg: str = hparam(
        "official", ["official", "eps_I"], "added to a local S: I + 1e-4 in every entry, or 1e-4 I"
    )


class pFedFDA(Algorithm):
    title = "pFedFDA"
    family = "Representation sharing"
    hp: pFedFDAHparams

    def costs(self) -> tuple[str, str]:
        gaussians = "C * k + k * (k + 1) // 2"
        return f"phi + {gaussians}", f"phi + {gaussians} + 1"

    def init_server(self) -> State:
        draws = self.task.generator("means")
        return {
            "phi": phi(self.task.initial),
            "means": torch.rand(self.task.classes, self.task.width, generator=draws),
            "covariance": packed(torch.eye(self.task.width)),
        }

    def init_client(self) -> State:
        return {"beta": torch.full((2,), 0.5, dtype=torch.float64)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        w, b = discriminant(received(message), priors(client))
        weight = w.float()
        bias = b.float()
        seen_z: list[Tensor] = []
        seen_y: list[Tensor] = []

        def fixed_head_loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            seen_z.append(z.detach())
            seen_y.append(y)
            return cross_entropy(net.drop(z) @ weight.T + bias, y)

        start = join(message["phi"], pi(self.task.initial))
        theta = local_sgd(fixed_head_loss, start, client, self.hp, part="body")
        z = self.stacked(seen_z, client)
        y = torch.cat([client.y[:0], *seen_y])
        passes = len(y) / max(1, len(client.y))  # less than `epochs` of a slow client
        gaussians, beta = self.adapted(client, message, z, y, passes)
        reply = {
            "phi": phi(theta),
            "means": gaussians.means.float(),
            "covariance": packed(gaussians.covariance).float(),
            "n": client.n,
        }
        return reply, {"beta": beta}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {part: weighted_mean(replies, part) for part in ("phi", "means", "covariance")}

    @torch.no_grad()
    def personal_model(self, client: Client, message: Message) -> Model:
        net = self.body_net(message["phi"])
        z = self.stacked([net.body(x) for x, _ in client.samples()], client)
        gaussians, _ = self.adapted(client, message, z, client.y, passes=1)
        return classifier(message, gaussians, client)

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        """The classifier of what the client sends."""
        return classifier(reply, received(reply), client)

    def predict(self, model: Model, x: Tensor) -> Tensor:
        z: Tensor = self.body_net(model["phi"]).body(x)
        return torch.addmm(model["bias"], z, model["weight"].T)

    def body_net(self, body: Params) -> Net:
        return self.net(join(body, pi(self.task.initial)))

    def stacked(self, batches: list[Tensor], client: Client) -> Tensor:
        """Batches of representations as (n, k) float64; there may be none."""
        none = torch.zeros(0, self.task.width, device=client.y.device)
        return torch.cat([none, *batches]).double()

    def adapted(
        self, client: Client, message: Message, z: Tensor, y: Tensor, passes: float
    ) -> tuple[Gaussians, Tensor]:
        """The client's Gaussians interpolated with the global ones, and beta.

        z and y hold the samples of the client `passes` times.
        """
        shared = received(message)
        beta = self.validated(client, z, y, shared, passes)
        log(beta_means=beta[0], beta_covariance=beta[1])
        own = self.estimated(z, y, shared, passes)
        return interpolated(beta, own, shared), beta

    def estimated(self, z: Tensor, y: Tensor, shared: Gaussians, passes: float) -> Gaussians:
        """mu_c (M_c where class c has up to 2 samples) and scatter / (n - 1) + reg."""
        onehot = one_hot(y, self.task.classes).double()  # (n, C)
        counts = onehot.sum(0)
        mu = onehot.T @ z / counts.clamp(min=1)[:, None]
        known = counts > 2 * passes
        means = torch.where(known[:, None], mu, shared.means)
        rest = z - mu[y]
        scatter = rest.T @ rest
        eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        reg = eye + EPSILON if self.hp.reg == "official" else EPSILON * eye
        return Gaussians(means, scatter / max(len(z) - 1, 1) + reg)

    def validated(
        self, client: Client, z: Tensor, y: Tensor, shared: Gaussians, passes: float
    ) -> Tensor:
        """beta in [0, 1]^2 that minimises the cross-validated loss; the old one if that fails."""
        from scipy.optimize import minimize

        old: Tensor = client.state["beta"]
        if self.hp.beta == "local":
            return torch.ones_like(old)
        if self.hp.beta == "global":
            return torch.zeros_like(old)
        folds = self.folds(client, z, y, shared, passes)
        if not folds:  # too little data: the global Gaussians
            return torch.zeros_like(old)
        size = 2 if self.hp.beta == "two" else 1
        result = minimize(
            validation_loss(folds, shared, priors(client)),
            [0.5] * size,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * size,
            options={"maxiter": 10},
        )
        if not math.isfinite(result.fun):
            return old
        return torch.tensor(result.x).to(old).expand(2).clone()

    def folds(
        self, client: Client, z: Tensor, y: Tensor, shared: Gaussians, passes: float
    ) -> list[Fold]:
        """The folds, of the classes that have a sample for each; none if there is no such class."""
        counts = one_hot(y, self.task.classes).sum(0)
        enough = counts[y] >= self.hp.folds * passes
        z = z[enough]
        y = y[enough]
        if len(y) == 0:
            return []
        folds = []
        for held in stratified(y, self.hp.folds, client.generator("folds")):
            own = self.estimated(z[~held], y[~held], shared, passes)
            folds.append(Fold(own, z[held], y[held]))
        return folds


def validation_loss(
    folds: list[Fold], shared: Gaussians, q: Tensor
) -> Callable[[Any], tuple[float, Any]]:
    """beta -> the cross-entropy of every fold under the interpolated Gaussians of the other folds,
    and its gradient."""

    @torch.enable_grad()
    def loss(values: Any) -> tuple[float, Any]:
        beta = torch.tensor(values, device=q.device, requires_grad=True)
        total = torch.zeros((), dtype=torch.float64, device=q.device)
        for fold in folds:
            gaussians = interpolated(beta.expand(2), fold.own, shared)
            w, b = discriminant(gaussians, q)
            total = total + cross_entropy(fold.z @ w.T + b, fold.y, reduction="sum")
        (gradient,) = torch.autograd.grad(total, beta)
        return total.item(), gradient.cpu().numpy()

    return loss


def discriminant(gaussians: Gaussians, q: Tensor) -> tuple[Tensor, Tensor]:
    """w_c = S'^-1 m_c (C, k), b_c = -m_c.w_c / 2 + log q_c (C,); S' = (1 - e) S + e tr(S)/k I."""
    M, S = gaussians
    eye = torch.eye(len(S), dtype=S.dtype, device=S.device)
    shrunk = (1 - EPSILON) * S + EPSILON * S.diagonal().mean() * eye
    w = torch.linalg.solve_ex(shrunk, M.T).result.T
    return w, q.log() - 0.5 * (M * w).sum(1)


def classifier(message: Message, gaussians: Gaussians, client: Client) -> Model:
    w, b = discriminant(gaussians, priors(client))
    return {"phi": message["phi"], "weight": w.float(), "bias": b.float()}


def priors(client: Client) -> Tensor:
    """q_i(c) = p_i(c) + 1e-4, normalised."""
    q = client.counts / client.n.clamp(min=1).double() + EPSILON
    return q / q.sum()


def interpolated(beta: Tensor, own: Gaussians, shared: Gaussians) -> Gaussians:
    """b_M mu + (1 - b_M) M, b_S S_i + (1 - b_S) S."""
    means = beta[0] * own.means + (1 - beta[0]) * shared.means
    covariance = beta[1] * own.covariance + (1 - beta[1]) * shared.covariance
    return Gaussians(means, covariance)


def packed(S: Tensor) -> Tensor:
    """The upper triangle of S, row by row: k (k + 1) / 2 numbers."""
    return S[torch.ones_like(S, dtype=torch.bool).triu()]


def received(message: Message) -> Gaussians:
    """The Gaussians of a message, with all of S."""
    M = message["means"].double()
    k = M.shape[1]
    upper = M.new_ones(k, k).triu()
    upper[upper > 0] = message["covariance"].double()
    return Gaussians(M, upper + upper.triu(1).T)


def stratified(y: Tensor, folds: int, generator: torch.Generator) -> Tensor:
    """Which samples are in which fold (folds, n): drawn, every class spread as evenly as can be."""
    order = torch.randperm(len(y), generator=generator).to(y.device)
    by_class = order[y[order].argsort(stable=True)]
    in_turn = torch.arange(len(y), device=y.device) % folds
    fold = torch.empty_like(y).index_copy(0, by_class, in_turn)
    return fold == torch.arange(folds, device=y.device)[:, None]
