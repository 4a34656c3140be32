"""FedProto (Tan et al., "FedProto: Federated prototype learning across heterogeneous clients", AAAI 2022), Algorithm 1.

Down: prototypes G of all classes that have one. Up: the client's class means Omega_i with counts. Private: theta_i.
Evaluated: theta_i's base with the nearest prototype of the new G, all classes allowed (pre); its head as series "head",
and as the scored model before there is a G.
Deviations: the distance is averaged over the k entries of a representation, as in the authors' code, so lambda is k
times weaker than the paper's; clients' means are not weighed, again as in the code (the paper: by counts; `weights`);
no momentum; class means pool all passes of a round (the code: the last); a class that nobody in the cohort holds keeps
its prototype; counts are sent whatever the weights.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, one_hot

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Net, Replies, State, hparam
from pflbench.ops import prototypes, cross_entropy, local_sgd, aggregate_prototypes


@dataclass(frozen=True)
class FedProtoHparams(Hparams):
    lam: float = hparam(
        0.1, (0.0, 100.0), "lambda, weight of the pull of representations to the prototypes"
    )
    weights: str = hparam(
        "equal", ["equal", "counts"], "of the clients' means in a prototype: equal, or n_ic"
    )
    collect: str = hparam(
        "during", ["during", "after"], "class means while training, or by a pass after it"
    )


class FedProto(Algorithm):
    title = "FedProto"
    family = "Representation sharing"
    hp: FedProtoHparams

    def costs(self) -> tuple[str, str]:
        return "C * (k + 1)", "C_i * (k + 2)"

    def init_server(self) -> State:
        return {
            "omega": {
                "means": torch.zeros(0, self.task.width),
                "labels": torch.zeros(0, dtype=torch.int32),
            }
        }

    def init_client(self) -> State:
        return {"theta": self.task.initial}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        C, k, G = self.task.classes, self.task.width, message["omega"]
        labels = G["labels"].long()
        table = torch.zeros(C, k, device=client.y.device).index_copy(0, labels, G["means"])
        known = torch.zeros(C, dtype=torch.bool, device=client.y.device).index_fill(0, labels, True)
        sums = torch.zeros(C, k, dtype=torch.float64, device=client.y.device)

        def loss(
            net: Net, x: Tensor, y: Tensor
        ) -> Tensor:  # CE + lambda * sum_b ||z_b - t_b||^2 / (B k)
            z = net.body(x)  # (B, k)
            sums.add_(one_hot(y, C).double().T @ z.detach().double())
            t = torch.where(
                known[y][:, None], table[y], z.detach()
            )  # G[y_b]; no pull where there is none
            return cross_entropy(net.head(net.drop(z)), y) + self.hp.lam * mse_loss(z, t)

        theta = local_sgd(loss, client.state["theta"], client, self.hp)
        if self.hp.collect == "after" or self.hp.epochs == 0:
            omega = prototypes(self.net(theta), client)
        else:
            held = client.counts.nonzero().flatten()
            means = sums[held] / (self.hp.epochs * client.counts[held])[:, None]
            omega = {
                "means": means.float(),
                "labels": held.to(torch.int32),
                "counts": client.counts[held],
            }
        return {"omega": omega}, {"theta": theta}

    def aggregate(
        self, server: State, replies: Replies
    ) -> State:  # G[c] = mean over the clients that hold c
        by_count = self.hp.weights == "counts"
        return {
            "omega": aggregate_prototypes(
                replies, "omega", self.task.classes, server["omega"], by_count=by_count
            )
        }

    def personal_model(self, client: Client, message: Message) -> Model:
        known = len(message["omega"]["labels"]) > 0
        return (
            {"theta": client.state["theta"], "omega": message["omega"]}
            if known
            else client.state["theta"]
        )

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.personal_model(client, message)

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"head": client.state["theta"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "omega" not in model:
            return super().predict(model, x)
        z, G = self.net(model["theta"]).body(x), model["omega"]
        scores = torch.full((len(x), self.task.classes), -torch.inf, device=x.device)
        return scores.index_copy(
            1, G["labels"].long(), -torch.cdist(z, G["means"]).square() / self.task.width
        )
