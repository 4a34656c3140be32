"""FedProto (Tan et al., "FedProto: Federated prototype learning across heterogeneous clients", AAAI
2022), Algorithm 1.

Idea: clients share class prototypes instead of models.
Paper: https://arxiv.org/abs/2105.00243
Code: https://github.com/yuetan031/FedProto
Down: the prototypes G of all classes that have one.
Up: the client's prototypes Omega_i with counts. Private: theta_i.
Evaluated: theta_i's body with the nearest prototype of the new G, all classes allowed (pre); its
head as series "head", and in place of the prototypes before there is a G.
Deviations: the distance is averaged over the k entries of a representation, as in the authors'
code, so lambda is k times weaker than the paper's. Clients' prototypes are averaged equally, again
as in the code (the paper: by counts; `weights`). No momentum. A client's prototypes pool all passes
of a round (the code: the last). A class that nobody in the cohort holds keeps its prototype. Counts
are sent whatever the weights.
"""

from dataclasses import dataclass

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
    Replies,
    State,
    hparam,
)
from pflbench.ops import (
    aggregate_prototypes,
    cross_entropy,
    local_sgd,
    no_prototypes,
    prototype_rows,
    prototypes,
)


@dataclass(frozen=True)
class FedProtoHparams(Hparams):
    lam: float = hparam(
        0.1, (0.0, 100.0), "lambda, weight of the pull of representations to the prototypes"
    )
    weights: str = hparam(
        "equal", ["equal", "counts"], "of clients' prototypes in the global ones: equal, or n_ic"
    )
    collect: str = hparam(
        "during", ["during", "after"], "prototypes while training, or by a pass after it"
    )


class FedProto(Algorithm):
    title = "FedProto"
    family = "Representation sharing"
    hp: FedProtoHparams

    def costs(self) -> tuple[str, str]:
        return "C * (k + 1)", "C_i * (k + 2)"

    def init_server(self) -> State:
        return {"omega": no_prototypes(self.task.width)}

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        sums = torch.zeros(  # of the representations of each class, over all batches
            self.task.classes, self.task.width, dtype=torch.float64, device=client.y.device
        )
        seen = torch.zeros_like(sums[:, 0])  # how many they are
        loss = self.local_loss(message["omega"], sums, seen)
        theta = local_sgd(loss, client.state["theta"], client, self.hp)
        if self.hp.collect == "after" or self.hp.epochs == 0:
            omega = prototypes(self.net(theta), client)
        else:
            omega = self.collected(sums, seen, client)
        return {"omega": omega}, {"theta": theta}

    def local_loss(self, G: dict[str, Tensor], sums: Tensor, seen: Tensor) -> Loss:
        """CE + lambda sum_b ||z_b - G[y_b]||^2 / (B k); adds every z to the sum of its class."""

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)  # (B, k)
            onehot = one_hot(y, self.task.classes).double()  # (B, C)
            sums.add_(onehot.T @ z.detach().double())
            seen.add_(onehot.sum(0))
            target = self.targets(G, z.detach(), y)
            ce = cross_entropy(net.head(net.drop(z)), y)
            return ce + self.hp.lam * mse_loss(z, target)

        return loss

    def targets(self, G: dict[str, Tensor], z: Tensor, y: Tensor) -> Tensor:
        """G[y_b], or z_b itself, which is no pull, where the class has no prototype: (B, k)."""
        if len(G["labels"]) == 0:
            return z
        rows, known = prototype_rows(G, y, self.task.classes)
        return torch.where(known[:, None], G["means"][rows], z)

    def collected(self, sums: Tensor, seen: Tensor, client: Client) -> dict[str, Tensor]:
        """Omega_i from the representations seen in training: every sample once per pass."""
        held = seen.nonzero().flatten()
        counts = client.counts[held]
        means = sums[held] / seen[held][:, None]
        return {"means": means.float(), "labels": held.to(torch.int32), "counts": counts}

    def aggregate(self, server: State, replies: Replies) -> State:
        """G[c] = mean of the prototypes of the clients that hold c."""
        by_count = self.hp.weights == "counts"
        omega = aggregate_prototypes(
            replies, "omega", self.task.classes, server["omega"], by_count=by_count
        )
        return {"omega": omega}

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = client.state["theta"]
        G = message["omega"]
        if len(G["labels"]) == 0:
            return theta
        return {"theta": theta, "omega": G}

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.personal_model(client, message)

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"head": client.state["theta"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        """The negative mean squared distance to each prototype; -inf for a class without one."""
        if "omega" not in model:
            return super().predict(model, x)
        z = self.net(model["theta"]).body(x)
        G = model["omega"]
        distance = torch.cdist(z, G["means"]).square() / self.task.width
        scores = torch.full((len(x), self.task.classes), -torch.inf, device=x.device)
        return scores.index_copy(1, G["labels"].long(), -distance)
