"""FedPAC (Xu et al., "Personalized federated learning with feature alignment and classifier collaboration", ICLR 2023),
Algorithm 1.

Down: phi, the client's combined head pi_i, prototypes G. Up: phi, pi, prototypes Omega_i with counts, H_i, V_i, n.
Private: nothing. Evaluated: the new global base with the newly combined head (pre).
Deviations: one learning rate of 0.01 for head and base, no momentum, no weight decay (the authors: 0.1 for the head).
The quadratic program is solved exactly, as a non-negative least-squares problem; were that to fail, the client would
keep its own head. Heads are combined among the participants of a round; the others keep their latest combined head on
the server, and a client that never took part has the initial head.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, one_hot

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
from pflbench.ops import (
    prototypes,
    cross_entropy,
    head_sgd,
    local_sgd,
    mean_of,
    phi,
    pi,
    aggregate_prototypes,
)
from pflbench.ops import representations, simplex_qp, weighted_mean


@dataclass(frozen=True)
class FedPACHparams(Hparams):
    lam: float = hparam(
        1.0, (0.0, 100.0), "lambda, weight of the pull of representations to the global prototypes"
    )
    head_epochs: int = hparam(
        1, (0, 50), "passes over the local data that train the head, before the base's `epochs`"
    )
    head_lr: float = hparam(0.01, (1e-4, 1.0), "learning rate of the head; `lr` is the base's")
    heads: str = hparam(
        "combined", ["combined", "own"], "a client's head: a combination of all, or its own only"
    )


class FedPAC(Algorithm):
    title = "FedPAC"
    family = "Representation sharing"
    hp: FedPACHparams

    def costs(self) -> tuple[str, str]:
        return "phi + pi + C * (k + 1)", "phi + pi + C_i * (k + 2) + C * k + 2"

    def init_server(self) -> State:
        G = {"means": torch.zeros(0, self.task.width), "labels": torch.zeros(0, dtype=torch.int32)}
        return {"phi": phi(self.task.initial), "heads": {}, "omega": G}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        first, shared = pi(self.task.initial), {"phi": server["phi"], "omega": server["omega"]}
        return {i: {**shared, "pi": server["heads"].get(i, first)} for i in ids}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta, G = {**message["phi"], **message["pi"]}, message["omega"]
        z = representations(theta, client)  # with the received base
        H, V = statistics(z, client)
        m = (
            H * client.n / client.counts.clamp(min=1)[:, None]
        ).float()  # own class means m_ic, where G has none
        target = m.index_copy(0, G["labels"].long(), G["means"])  # (C, k)
        lam = self.hp.lam if len(G["labels"]) else 0.0  # there is no G in the first round

        def aligned(
            net: Net, x: Tensor, y: Tensor
        ) -> Tensor:  # CE + lambda * ||z - G[y]||^2 / (B k)
            z = net.body(x)
            return cross_entropy(net.head(net.drop(z)), y) + lam * mse_loss(z, target[y])

        of_head = replace(self.hp, epochs=self.hp.head_epochs, lr=self.hp.head_lr)
        theta = head_sgd(theta, z, client, of_head)
        theta = local_sgd(aligned, theta, client, self.hp, part="body", stream="base")
        omega = prototypes(self.net(theta), client)  # with the trained base
        return {
            "phi": phi(theta),
            "pi": pi(theta),
            "omega": omega,
            "H": H.float(),
            "V": V.float(),
            "n": client.n,
        }, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        V = torch.stack([reply["V"] for reply in replies.values()])  # (m,)
        H = torch.stack([reply["H"] for reply in replies.values()])  # (m, C, k)
        alpha = (
            self.weights(V, H)
            if self.hp.heads == "combined"
            else torch.eye(len(V), dtype=torch.float64)
        )
        heads = [reply["pi"] for reply in replies.values()]
        combined = {i: mean_of(heads, list(row)) for i, row in zip(replies, alpha, strict=True)}
        return {
            "phi": weighted_mean(replies, "phi"),
            "heads": {**server["heads"], **combined},  # pi_i <- sum_j alpha_ij pi_j
            "omega": aggregate_prototypes(replies, "omega", self.task.classes),
        }

    def personal_model(self, client: Client, message: Message) -> Model:
        return {**message["phi"], **message["pi"]}

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return {**reply["phi"], **reply["pi"]}

    def weights(self, V: Tensor, H: Tensor) -> Tensor:
        """alpha (m, m): row i minimises a^T P_i a on the simplex, P_i = diag(V) + D_i D_i^T, D_i[j] = vec(H_i - H_j).

        P_i = R_i^T R_i with R_i = (diag(sqrt V); D_i^T), so that it is never indefinite, whatever is rounded.
        """
        H = torch.linalg.qr(
            H.double().flatten(1).T, mode="r"
        ).R  # (<= m, m): same distances between the columns
        sqrt_V, alpha, failed, worst = V.double().clamp(min=0).sqrt().diag(), [], 0, 0.0
        for i, own in enumerate(torch.eye(len(V), dtype=torch.float64)):
            a, gap = simplex_qp(torch.cat([sqrt_V, H[:, i : i + 1] - H]))
            if not gap < 1e-3:
                a, gap, failed = own, 0.0, failed + 1
            a = torch.where(a >= a.max().clamp(max=1e-3), a, 0.0)
            alpha.append(a / a.sum())
            worst = max(worst, gap)
        log(qp_fallbacks=failed, qp_gap=worst, own_weight=torch.stack(alpha).diagonal().mean())
        return torch.stack(alpha)


def statistics(z: Tensor, client: Client) -> tuple[Tensor, Tensor]:
    """H_i[c] = p_i(c) m_ic (C, k), and V_i = (1/n_i) (mean of ||z||^2 - ||H_i||^2), over all training data, float64.

    V_i is the variance of the mean of the block vectors (1{y=c} z)_c, whose mean is H_i.
    """
    z = z.double()
    H = one_hot(client.y, client.task.classes).double().T @ z / client.n
    return H, (z.square().sum() / client.n - H.square().sum()).clamp(min=0) / client.n
