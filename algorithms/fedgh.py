"""FedGH (Yi et al., "FedGH: Heterogeneous federated learning with generalized global header", ACM Multimedia 2023),
Algorithm 1.

Down: the global head pi. Up: the client's class means Omega_i with labels. Private: theta_i, whose head is replaced at
the start of a round. Evaluated: the client's own base with the new global head (pre).
Deviations: the server trains in batches of 16 instead of one pair at a time (`server_batch`), by plain SGD; clients too
use plain SGD, one pass. In the authors' code the server's step does not reach the head; here it does, as the paper has
it. The FedCoSR paper states costs of 2 (Omega + pi) and of 2 Omega + pi; what is sent is Omega_i + pi.
"""

from dataclasses import dataclass

import torch
from torch.func import functional_call

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Replies, State, log, hparam
from pflbench.ops import prototypes, cross_entropy, cross_entropy_loss, local_sgd, phi, pi


@dataclass(frozen=True)
class FedGHHparams(Hparams):
    server_lr: float = hparam(
        0.01, (0.0, 10.0), "eta_theta, learning rate of the global head on the server"
    )
    server_batch: int = hparam(
        16, (1, 1024), "pairs (class mean, label) in a step of the server; 1: the paper's"
    )
    server_epochs: int = hparam(1, (0, 50), "passes of the server over the pairs of a round")


class FedGH(Algorithm):
    title = "FedGH"
    family = "Representation sharing"
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
        theta = local_sgd(cross_entropy_loss, self.personal_model(client, message), client, self.hp)
        omega = prototypes(self.net(theta), client)
        return {"omega": {"means": omega["means"], "labels": omega["labels"]}}, {"theta": theta}

    def aggregate(
        self, server: State, replies: Replies
    ) -> State:  # every pair (m_ic, c) counts once, whatever n_ic
        m = torch.cat([replies[id]["omega"]["means"] for id in sorted(replies)])  # (P, k)
        c = torch.cat([replies[id]["omega"]["labels"] for id in sorted(replies)]).long()
        head = {name.removeprefix("head."): p for name, p in server["pi"].items()}
        order = self.task.generator("pairs", int(server["t"]))
        for _ in range(self.hp.server_epochs if head else 0):
            for rows in torch.randperm(len(c), generator=order).split(self.hp.server_batch):
                head = {name: p.detach().requires_grad_() for name, p in head.items()}
                loss = cross_entropy(
                    functional_call(self.task.skeleton.head, head, (m[rows],)), c[rows]
                )
                slopes = torch.autograd.grad(loss, list(head.values()))
                head = {
                    name: p - self.hp.server_lr * g
                    for (name, p), g in zip(head.items(), slopes, strict=True)
                }
        new = {f"head.{name}": p.detach() for name, p in head.items()}
        log(
            head_moved=sum((p - self.task.initial[name]).square().sum() for name, p in new.items())
            ** 0.5
        )
        return {"pi": new, "t": server["t"] + 1}

    def personal_model(self, client: Client, message: Message) -> Model:
        return {**phi(client.state["theta"]), **message["pi"]}

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return client.state["theta"]
