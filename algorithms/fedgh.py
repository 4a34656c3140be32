"""FedGH (Yi et al., "FedGH: Heterogeneous federated learning with generalized global header", ACM
Multimedia 2023), Algorithm 1.

Idea: own models; the server trains a common head on the prototypes of all clients.
Paper: https://arxiv.org/abs/2303.13137
Code: https://github.com/LipingYi/FedGH
Down: the global head pi. Up: the client's prototypes Omega_i with labels. Private: theta_i, whose
head is replaced at the start of a round. Evaluated: theta_i after training (post), as the authors'
script reports it; `pre` is the client's body with the new global head.
Deviations: server and clients use plain SGD and one pass (the authors: momentum 0.9, decay, clipping
and 10 passes of the clients). The server takes a step per received pair, as the authors do, in an
order drawn anew in every round. In the authors' code that step does not reach the head, since the
optimizer holds other parameters; here it does, as the paper has it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from pflbench.api import (
    Algorithm,
    Client,
    Hparams,
    Message,
    Model,
    Params,
    Replies,
    State,
    hparam,
    log,
)
from pflbench.ops import cross_entropy, cross_entropy_loss, join, local_sgd, phi, pi, prototypes


@dataclass(frozen=True)
class FedGHHparams(Hparams):
    server_lr: float = hparam(
        0.01, (0.0, 10.0), "eta_theta, learning rate of the global head on the server"
    )
    server_batch: int = hparam(
        1, (1, 1024), "pairs (prototype, label) in a step of the server; 1: as published"
    )
    server_epochs: int = hparam(1, (0, 50), "passes of the server over the pairs of a round")


class FedGH(Algorithm):
    title = "FedGH"
    family = "Representation sharing"
    evaluation_point = "post"
    batch_norm = "body"
    hp: FedGHHparams

    def costs(self) -> tuple[str, str]:
        return "pi", "C_i * (k + 1)"

    def init_server(self) -> State:
        return {"pi": pi(self.task.initial), "t": torch.tensor(0)}

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        return {id: {"pi": server["pi"]} for id in ids}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        start = self.personal_model(client, message)
        theta = local_sgd(cross_entropy_loss, start, client, self.hp)
        omega = prototypes(self.net(theta), client)
        reply = {"omega": {"means": omega["means"], "labels": omega["labels"]}}
        return reply, {"theta": theta}

    def aggregate(self, server: State, replies: Replies) -> State:
        """Train the head on all pairs (m_ic, c); every pair counts once, whatever n_ic."""
        ids = sorted(replies)
        means = torch.cat([replies[id]["omega"]["means"] for id in ids])  # (pairs, k)
        labels = torch.cat([replies[id]["omega"]["labels"] for id in ids]).long()
        order = self.task.generator("pairs", int(server["t"]))
        head = server["pi"]
        if head:  # none with head_layers = 0
            for _ in range(self.hp.server_epochs):
                for rows in torch.randperm(len(labels), generator=order).split(
                    self.hp.server_batch
                ):
                    head = self.head_step(head, means[rows], labels[rows])
        log(head_moved=distance(head, self.task.initial))
        return {"pi": head, "t": server["t"] + 1}

    def head_step(self, head: Params, means: Tensor, labels: Tensor) -> Params:
        """pi <- pi - eta_theta grad CE(f_pi(m), c)."""
        at = {name: p.detach().requires_grad_() for name, p in head.items()}
        layers = {name.removeprefix("head."): p for name, p in at.items()}
        logits = functional_call(self.task.skeleton.head, layers, (means,))
        gradients = torch.autograd.grad(cross_entropy(logits, labels), list(at.values()))
        stepped = {}
        for (name, p), g in zip(at.items(), gradients, strict=True):
            stepped[name] = (p - self.hp.server_lr * g).detach()
        return stepped

    def personal_model(self, client: Client, message: Message) -> Model:
        return join(phi(client.state["theta"]), message["pi"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]


def distance(head: Params, start: Params) -> Tensor:
    """||pi - pi_0||."""
    squares = torch.zeros(())
    for name, p in head.items():
        squares = squares + (p - start[name]).square().sum()
    return squares.sqrt()
