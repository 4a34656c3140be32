"""pFedFDA (McLaughlin and Su, "Personalized federated learning via feature distribution adaptation", NeurIPS 2024),
Algorithm 1.

Down: phi, class means M, covariance S (its upper triangle). Up: the same, interpolated by the client, and n.
Private: beta. Evaluated: the new global base with the linear discriminant of the client's Gaussians, estimated anew with
that base and interpolated with the global ones (pre).
Deviations: no momentum, no weight decay. L-BFGS-B finds beta within its bounds; the authors clip it in the loss. A
class is known to a client from 3 samples on, as the authors' code intends but does not test. Features are of all passes
of training, as there, so that a sample may lie on both sides of a fold.
"""

import math
from dataclasses import dataclass
from typing import Any

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
    Replies,
    State,
    log,
    hparam,
)
from pflbench.ops import cross_entropy, local_sgd, phi, weighted_mean

Gaussians = tuple[
    Tensor, Tensor
]  # class means M (C, k) and their common covariance S (k, k), float64
Seen = list[tuple[Tensor, Tensor]]  # batches of features z (B, k) and labels y (B,)
EPSILON = 1e-4


@dataclass(frozen=True)
class pFedFDAHparams(Hparams):
    epochs: int = hparam(5, (0, 50), "E, passes over the local data in a round")
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
        return "phi + C * k + k * (k + 1) // 2", "phi + C * k + k * (k + 1) // 2 + 1"

    def init_server(self) -> State:
        M = torch.rand(self.task.classes, self.task.width, generator=self.task.generator("means"))
        return {
            "phi": phi(self.task.initial),
            "means": M,
            "covariance": packed(torch.eye(self.task.width)),
        }

    def init_client(self) -> State:
        return {"beta": torch.full((2,), 0.5, dtype=torch.float64)}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        w, b = (part.float() for part in lda(*unpacked(message), priors(client)))
        seen: Seen = []

        def under_fixed_head(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            seen.append((z.detach(), y))
            return cross_entropy(net.drop(z) @ w.T + b, y)

        theta = local_sgd(
            under_fixed_head, {**self.task.initial, **message["phi"]}, client, self.hp, part="body"
        )
        (M, S), beta = self.adapted(client, message, seen, self.hp.epochs)
        return {
            "phi": phi(theta),
            "means": M.float(),
            "covariance": packed(S).float(),
            "n": client.n,
        }, {"beta": beta}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {part: weighted_mean(replies, part) for part in ("phi", "means", "covariance")}

    @torch.no_grad()
    def personal_model(self, client: Client, message: Message) -> Model:
        net = self.net({**self.task.initial, **message["phi"]})
        found, _ = self.adapted(client, message, [(net.body(x), y) for x, y in client.samples()], 1)
        return classifier(message, found, client)

    def trained_model(
        self, client: Client, message: Message, reply: Message
    ) -> Model:  # with what is sent
        return classifier(reply, unpacked(reply), client)

    def predict(self, model: Model, x: Tensor) -> Tensor:
        z: Tensor = self.net({**self.task.initial, **model["phi"]}).body(x)
        return torch.addmm(model["bias"], z, model["weight"].T)

    def adapted(
        self, client: Client, message: Message, seen: Seen, passes: int
    ) -> tuple[Gaussians, Tensor]:
        """The client's Gaussians interpolated with the global ones, and beta; `seen` is `passes` times its data."""
        z = torch.cat(
            [torch.zeros(0, self.task.width, device=client.y.device), *(z for z, _ in seen)]
        ).double()
        y = torch.cat([client.y[:0], *(y for _, y in seen)])
        shared = unpacked(message)
        beta = self.validated(client, z, y, shared, passes)
        log(beta_means=beta[0], beta_covariance=beta[1])
        return interpolated(beta, self.estimated(z, y, shared, passes), shared), beta

    def estimated(self, z: Tensor, y: Tensor, shared: Gaussians, passes: int) -> Gaussians:
        """mu_c (M_c where c has up to 2 samples) and scatter / (n - 1) + reg, of features z (n, k), classes y (n,)."""
        onehot = one_hot(y, self.task.classes).double()  # (n, C)
        counts = onehot.sum(0)
        mu = onehot.T @ z / counts.clamp(min=1)[:, None]
        rest = z - mu[y]
        eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        reg = eye + EPSILON if self.hp.reg == "official" else EPSILON * eye
        return torch.where((counts > 2 * passes)[:, None], mu, shared[0]), rest.T @ rest / max(
            len(z) - 1, 1
        ) + reg

    def validated(
        self, client: Client, z: Tensor, y: Tensor, shared: Gaussians, passes: int
    ) -> Tensor:
        """beta in [0, 1]^2 that minimises the cross-entropy of every fold under the Gaussians of the other folds."""
        from scipy.optimize import minimize

        old, q, folds = client.state["beta"], priors(client), self.hp.folds
        enough = one_hot(y, self.task.classes).sum(0)[y] >= folds * passes
        z, y = z[enough], y[enough]
        if self.hp.beta in ("global", "local") or not len(y):
            return torch.full_like(old, float(self.hp.beta == "local"))
        split = stratified(y, folds, client.generator("folds"))
        parts = [
            (self.estimated(z[~held], y[~held], shared, passes), z[held], y[held]) for held in split
        ]

        @torch.enable_grad()
        def loss(values: Any) -> tuple[float, Any]:
            beta = torch.tensor(values, device=old.device, requires_grad=True)
            total = torch.zeros_like(old[0])
            for own, z_f, y_f in parts:
                w, b = lda(*interpolated(beta.expand(2), own, shared), q)
                total = total + cross_entropy(z_f @ w.T + b, y_f, reduction="sum")
            (gradient,) = torch.autograd.grad(total, beta)
            return total.item(), gradient.cpu().numpy()

        size = 2 if self.hp.beta == "two" else 1
        how = {
            "jac": True,
            "method": "L-BFGS-B",
            "bounds": [(0.0, 1.0)] * size,
            "options": {"maxiter": 10},
        }
        result = minimize(loss, [0.5] * size, **how)
        return (
            torch.tensor(result.x).to(old).expand(2).clone() if math.isfinite(result.fun) else old
        )


def lda(M: Tensor, S: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """w_c = S'^-1 m_c (C, k), b_c = -m_c.w_c / 2 + log q_c (C,); S' = (1 - e) S + e tr(S)/k I."""
    eye = torch.eye(len(S), dtype=S.dtype, device=S.device)
    w = torch.linalg.solve_ex((1 - EPSILON) * S + EPSILON * S.diagonal().mean() * eye, M.T).result.T
    return w, q.log() - 0.5 * (M * w).sum(1)


def classifier(message: Message, found: Gaussians, client: Client) -> Model:
    w, b = lda(*found, priors(client))
    return {"phi": message["phi"], "weight": w.float(), "bias": b.float()}


def priors(client: Client) -> Tensor:
    """q_i(c) = p_i(c) + 1e-4, normalised."""
    q = client.counts / client.n.clamp(min=1).double() + EPSILON
    return q / q.sum()


def interpolated(beta: Tensor, own: Gaussians, shared: Gaussians) -> Gaussians:
    """b_M mu + (1 - b_M) M, b_S S_i + (1 - b_S) S."""
    return beta[0] * own[0] + (1 - beta[0]) * shared[0], beta[1] * own[1] + (1 - beta[1]) * shared[
        1
    ]


def packed(S: Tensor) -> Tensor:
    """The upper triangle of S, row by row: k (k + 1) / 2 numbers."""
    return S[torch.ones_like(S, dtype=torch.bool).triu()]


def unpacked(message: Message) -> Gaussians:
    """The Gaussians of a message, with all of S."""
    M = message["means"].double()
    upper = M.new_ones(M.shape[1], M.shape[1]).triu()
    upper[upper > 0] = message["covariance"].double()
    return M, upper + upper.triu(1).T


def stratified(y: Tensor, folds: int, generator: torch.Generator) -> Tensor:
    """Which samples are in which fold (folds, n): drawn, every class spread over the folds as evenly as can be."""
    order = torch.randperm(len(y), generator=generator).to(y.device)
    order = order[y[order].argsort(stable=True)]
    fold = torch.empty_like(y).index_copy(0, order, torch.arange(len(y), device=y.device) % folds)
    return fold == torch.arange(folds, device=y.device)[:, None]
