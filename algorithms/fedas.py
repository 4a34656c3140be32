"""FedAS (Yang et al., "FedAS: Bridging inconsistency in personalized federated learning", CVPR 2024), Algorithm 1.

Down: phi. Up: phi, the Fisher trace F_i, n. Private: theta_i. Evaluated: theta_i after local training (post).
Deviations: every client aligns a copy of the global base (in the authors' code a client goes on from the base that
the client before it aligned). As in their code, F_i is a sum over batches of the squared norm of the mean gradient, not
the trace of the Fisher information; `fim` and `fim_norm` choose. Where all F_i vanish or one is not finite the server
weighs by n_i, hence n is sent. The FedCoSR paper states a cost of 2 (Omega + phi); class means never leave the client.
"""

from dataclasses import dataclass, replace

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
    log,
    hparam,
)
from pflbench.ops import class_prototypes, cross_entropy_loss, local_sgd, phi, weighted_mean


@dataclass(frozen=True)
class FedASHparams(Hparams):
    lr: float = hparam(5e-3, (1e-4, 1.0), "eta, learning rate of local training")
    epochs: int = hparam(5, (0, 50), "E_l, passes over the local data in a round")
    align_lr: float = hparam(0.01, (0.0, 1.0), "learning rate of the alignment")
    align_epochs: int = hparam(1, (0, 50), "passes over the local data that align the base")
    align_batch_size: int = hparam(16, (1, 1024), "samples in a batch of the alignment")
    weights: str = hparam(
        "fisher", ["fisher", "samples"], "of a client's base on the server: F_i or n_i (ablation)"
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
        theta = local_sgd(cross_entropy_loss, self.aligned(client, message), client, self.hp)
        fisher = self.fisher(client, theta)
        log(fisher=fisher)
        return {"phi": phi(theta), "fisher": fisher, "n": client.n}, {"theta": theta}

    def aligned(self, client: Client, message: Message) -> Params:
        """The global base psi, tuned towards the class means m_ic of the client's previous base; with its own head."""
        own: Params = client.state["theta"]
        means, _ = class_prototypes(self.net(own), client)  # (C, k)

        def loss(
            net: Net, x: Tensor, y: Tensor
        ) -> Tensor:  # sum_c mean_{x in c, dims} (f_psi(x) - m_ic)^2
            each: Tensor = (net.body(x) - means[y]).square().mean(1)  # (B,)
            held = one_hot(y, self.task.classes).sum(0)  # (C,), samples of each class in the batch
            return (each / held[y]).sum()

        hp = self.hp
        hp = replace(hp, lr=hp.align_lr, epochs=hp.align_epochs, batch_size=hp.align_batch_size)
        return local_sgd(loss, {**own, **message["phi"]}, client, hp, part="body", stream="align")

    def fisher(self, client: Client, theta: Params) -> Tensor:
        """F_i = sum over batches of || grad_theta CE(theta; b) ||^2, in evaluation mode."""
        net = self.net(theta)
        size = 1 if self.hp.fim == "per_sample" else self.hp.batch_size
        norms = []
        for x, y in client.batches(size, 1, "fisher"):
            gradient = torch.autograd.grad(cross_entropy_loss(net, x, y), list(net.parameters()))
            norms.append(torch.stack([g.double().square().sum() for g in gradient]).sum())
        total = torch.stack(norms).sum()
        return (total / len(norms) if self.hp.fim_norm == "mean" else total).float()

    def aggregate(
        self, server: State, replies: Replies
    ) -> State:  # phi = sum_i F_i / (sum_j F_j) phi_i
        fishers = {id: reply["fisher"] for id, reply in replies.items()}
        total = torch.stack(list(fishers.values())).double().sum()
        usable = self.hp.weights == "fisher" and bool(total.isfinite() & (total > 0))
        log(weighed_by_samples=float(not usable))
        return {"phi": weighted_mean(replies, "phi", fishers if usable else None)}

    def personal_model(self, client: Client, message: Message) -> Model:
        return self.aligned(client, message)

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]
