"""FedPAC (Xu, Tong and Huang, "Personalized federated learning with feature alignment and
classifier collaboration", ICLR 2023), Algorithm 1.

Idea: bodies aligned by prototypes; each client gets the best combination of all heads.
Paper: https://arxiv.org/abs/2306.11867
Code: https://github.com/JianXu95/FedPAC
Down: phi, the client's combined head pi_i, prototypes G.
Up: phi, pi, prototypes Omega_i with counts, H_i, V_i, n. Private: nothing.
Evaluated: the new global body with the newly combined head (pre).
Deviations: one learning rate of 0.01 for head and body, no momentum, no weight decay (the authors:
0.1 for the head). The quadratic program is solved exactly, as a non-negative least-squares problem;
if that fails, the client keeps its own head. Heads are combined among the participants of a round;
the others keep their latest combined head on the server, and a client that never took part has the
initial head.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, one_hot

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Loss,
    Message,
    Model,
    Net,
    Params,
    Replies,
    State,
    hparam,
    log,
)
from pflbench.ops import (
    aggregate_prototypes,
    cross_entropy,
    head_sgd,
    join,
    local_sgd,
    mean_of,
    no_prototypes,
    phi,
    pi,
    prototypes,
    representations,
    simplex_qp,
    weighted_mean,
)

TOLERANCE = 1e-3  # largest relative gap of a solved program; smaller weights of heads are dropped


@dataclass(frozen=True)
class FedPACHparams(Hparams):
    lam: float = hparam(
        1.0, (0.0, 100.0), "lambda, weight of the pull of representations to the global prototypes"
    )
    head_epochs: int = hparam(
        1, (0, 50), "passes over the local data that train the head, before the body's `epochs`"
    )
    head_lr: float = hparam(0.01, (1e-4, 1.0), "learning rate of the head; `lr` is the body's")
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
        return {
            "phi": phi(self.task.initial),
            "heads": {},
            "omega": no_prototypes(self.task.width),
        }

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        first = pi(self.task.initial)
        messages = {}
        for id in ids:
            head = server["heads"].get(id, first)
            messages[id] = {"phi": server["phi"], "omega": server["omega"], "pi": head}
        return messages

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = join(message["phi"], message["pi"])
        z = representations(theta, client)  # with the received body
        H, V = statistics(z, client)
        theta = self.fit_head(theta, z, client)
        theta = self.fit_body(theta, self.alignment_loss(H, client, message["omega"]), client)
        reply = {
            "phi": phi(theta),
            "pi": pi(theta),
            "omega": prototypes(self.net(theta), client),  # with the trained body
            "H": H.float(),
            "V": V.float(),
            "n": client.n,
        }
        return reply, {}

    def fit_head(self, theta: Params, z: Tensor, client: Client) -> Params:
        hp = replace(self.hp, epochs=self.hp.head_epochs, lr=self.hp.head_lr)
        return head_sgd(theta, z, client, hp)

    def fit_body(self, theta: Params, loss: Loss, client: Client) -> Params:
        return local_sgd(loss, theta, client, self.hp, part="body", stream="base")

    def alignment_loss(self, H: Tensor, client: Client, G: dict[str, Tensor]) -> Loss:
        """CE + lambda ||z - G[y]||^2 / (B k); own prototypes m_ic where G has none."""
        own = H * client.n / client.counts.clamp(min=1)[:, None]  # m_ic = H_i[c] n_i / n_ic
        target = own.float().index_copy(0, G["labels"].long(), G["means"])  # (C, k)
        lam = self.hp.lam if len(G["labels"]) else 0.0  # there is no G in the first round

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            ce = cross_entropy(net.head(net.drop(z)), y)
            return ce + lam * mse_loss(z, target[y])

        return loss

    def aggregate(self, server: State, replies: Replies) -> State:
        return {
            "phi": weighted_mean(replies, "phi"),
            "heads": {**server["heads"], **self.combined_heads(replies)},
            "omega": aggregate_prototypes(replies, "omega", self.task.classes),
        }

    def combined_heads(self, replies: Replies) -> dict[int, Params]:
        """pi_i <- sum_j alpha_ij pi_j, for every participant i."""
        if self.hp.heads == "own":
            return {id: reply["pi"] for id, reply in replies.items()}
        V = torch.stack([reply["V"] for reply in replies.values()])  # (m,)
        H = torch.stack([reply["H"] for reply in replies.values()])  # (m, C, k)
        alpha = self.weights(V, H)
        heads = [reply["pi"] for reply in replies.values()]
        return {id: mean_of(heads, list(row)) for id, row in zip(replies, alpha, strict=True)}

    def weights(self, V: Tensor, H: Tensor) -> Tensor:
        """alpha (m, m): row i minimises a^T P_i a on the simplex.

        P_i = diag(V) + D_i D_i^T, D_i[j] = vec(H_i - H_j). It is R_i^T R_i with
        R_i = (diag(sqrt V); D_i^T), so that it is never indefinite, whatever is rounded.
        """
        # (<= m, m): columns with the distances of the vec(H_j)
        columns = torch.linalg.qr(H.double().flatten(1).T, mode="r").R
        sqrt_V = V.double().clamp(min=0).sqrt().diag()
        own = torch.eye(len(V), dtype=torch.float64)
        alpha = []
        gaps = [0.0]
        for i in range(len(V)):
            D = columns[:, i : i + 1] - columns
            a, gap = simplex_qp(torch.cat([sqrt_V, D]))
            if gap < TOLERANCE:
                gaps.append(gap)
            else:
                a = own[i]
            alpha.append(without_small(a))
        result = torch.stack(alpha)
        log(
            qp_fallbacks=len(V) + 1 - len(gaps),
            qp_gap=max(gaps),
            own_weight=result.diagonal().mean(),
        )
        return result

    def personal_model(self, client: Client, message: Message) -> Model:
        return join(message["phi"], message["pi"])

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """A new client trains head and body, each for these passes; no head is combined for it."""
        alone = FedPAC(replace(self.hp, head_epochs=epochs, epochs=epochs), self.task)
        reply, _ = alone.client_update(client, message)
        return join(reply["phi"], reply["pi"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return join(reply["phi"], reply["pi"])


def without_small(a: Tensor) -> Tensor:
    """Weights without those below 1e-3, summing to 1 again; the largest one always stays."""
    kept = torch.where(a >= a.max().clamp(max=TOLERANCE), a, 0.0)
    return kept / kept.sum()


def statistics(z: Tensor, client: Client) -> tuple[Tensor, Tensor]:
    """H_i[c] = p_i(c) m_ic (C, k), and V_i = (1/n_i) (mean of ||z||^2 - ||H_i||^2).

    Over all training data, in float64. V_i is the variance of the mean of the block vectors
    (1{y=c} z)_c, whose mean is H_i.
    """
    z = z.double()
    onehot = one_hot(client.y, client.task.classes).double()  # (n, C)
    H = onehot.T @ z / client.n
    variance = z.square().sum() / client.n - H.square().sum()
    V = variance.clamp(min=0) / client.n
    return H, V
