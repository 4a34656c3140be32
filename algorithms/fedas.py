"""FedAS (Yang, Huang and Ye, "FedAS: Bridging inconsistency in personalized federated learning",
CVPR 2024), Algorithm 1.

Idea: a shared body, aligned with the client before training and weighted by Fisher information.
Paper: https://openaccess.thecvf.com/content/CVPR2024/html/Yang_FedAS_Bridging_Inconsistency_in_Personalized_Federated_Learning_CVPR_2024_paper.html
Code: https://github.com/xiyuanyang45/FedAS
Down: phi. Up: phi, the Fisher trace F_i, n. Private: theta_i.
Evaluated: theta_i after local training (post).
Deviations: every client aligns a copy of the global body (in the authors' code a client goes on
from the body that the client before it aligned). As in their code, F_i is a sum over batches of the
squared norm of the mean gradient, not the trace of the Fisher information; `fim` and `fim_norm`
choose. Where all F_i vanish or one is not finite the server weights by n_i, hence n is sent.
Prototypes never leave the client.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

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
    class_prototypes,
    cross_entropy_loss,
    join,
    local_sgd,
    phi,
    pi,
    weighted_mean,
)


@dataclass(frozen=True)
class FedASHparams(Hparams):
    lr: float = hparam(5e-3, (1e-4, 1.0), "eta, learning rate of local training")
    epochs: int = hparam(5, (0, 50), "E_l, passes over the local data per round")
    align_lr: float = hparam(0.01, (0.0, 1.0), "learning rate of the alignment")
    align_epochs: int = hparam(1, (0, 50), "passes over the local data that align the body")
    align_batch_size: int = hparam(16, (1, 1024), "samples in a batch of the alignment")
    weights: str = hparam(
        "fisher", ["fisher", "samples"], "of a client's body on the server: F_i or n_i (ablation)"
    )
    fim: str = hparam(
        "batch",
        ["batch", "per_sample"],
        "F_i from the mean gradients of batches, or from all samples'",
    )
    fim_norm: str = hparam(
        "sum", ["sum", "mean"], "F_i as the sum over batches (or samples), or as their mean"
    )


class FedAS(Algorithm):
    title = "FedAS"
    family = "Local aggregation"
    evaluation_point = "post"
    hp: FedASHparams

    def costs(self) -> tuple[str, str]:
        return "phi", "phi + 2"

    def init_server(self) -> State:
        return {"phi": phi(self.task.initial)}

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = self.aligned(client, message)
        theta = local_sgd(cross_entropy_loss, theta, client, self.hp)
        fisher = self.fisher(client, theta)
        log(fisher=fisher)
        reply = {"phi": phi(theta), "fisher": fisher, "n": client.n}
        return reply, {"theta": theta}

    def aligned(self, client: Client, message: Message) -> Params:
        """The global body, tuned towards the prototypes of the client's previous body; own head."""
        previous: Params = client.state["theta"]
        prototypes, _ = class_prototypes(self.net(previous), client)  # (C, k)
        hp = replace(
            self.hp,
            lr=self.hp.align_lr,
            epochs=self.hp.align_epochs,
            batch_size=self.hp.align_batch_size,
        )
        theta = join(message["phi"], pi(previous))
        loss = self.alignment_loss(prototypes)
        return local_sgd(loss, theta, client, hp, part="body", stream="align")

    def alignment_loss(self, prototypes: Tensor) -> Loss:
        """sum over classes c of the mean over x in c and over entries of (f_phi(x) - m_ic)^2."""

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            distance: Tensor = (net.body(x) - prototypes[y]).square().mean(1)  # (B,)
            counts = one_hot(y, self.task.classes).sum(0)  # (C,), of each class in the batch
            return (distance / counts[y]).sum()

        return loss

    def fisher(self, client: Client, theta: Params) -> Tensor:
        """F_i = sum over batches of || grad_theta CE(theta; b) ||^2, in evaluation mode."""
        net = self.net(theta)
        size = 1 if self.hp.fim == "per_sample" else self.hp.batch_size
        norms = []
        for x, y in client.batches(size, 1, "fisher"):
            gradient = torch.autograd.grad(cross_entropy_loss(net, x, y), list(net.parameters()))
            squares = [g.double().square().sum() for g in gradient]
            norms.append(torch.stack(squares).sum())
        total = torch.stack(norms).sum()
        if self.hp.fim_norm == "mean":
            total = total / len(norms)
        return total.float()

    def aggregate(self, server: State, replies: Replies) -> State:
        """phi <- sum_i F_i / (sum_j F_j) phi_i."""
        fishers = {id: reply["fisher"] for id, reply in replies.items()}
        total = torch.stack(list(fishers.values())).double().sum()
        usable = bool(total.isfinite() & (total > 0))
        by_fisher = usable and self.hp.weights == "fisher"
        log(weighted_by_samples=float(not by_fisher))
        weights = fishers if by_fisher else None
        return {"phi": weighted_mean(replies, "phi", weights)}

    def personal_model(self, client: Client, message: Message) -> Model:
        return self.aligned(client, message)

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]
