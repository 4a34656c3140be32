"""IFCA (Ghosh et al., "An efficient framework for clustered federated learning", NeurIPS 2020),
with averaging of models.

Idea: K global models; each client trains the one with the lowest loss on its data.
Paper: https://arxiv.org/abs/2006.04088
Code: https://github.com/jichan3751/ifca
Down: all K models, and which one to train or -1. Up: the trained model, its number, n. Private:
nothing.
Evaluated: of the new models, the one with the lowest loss on the client's training data (pre).
Deviations: in the first rounds (`init_rounds`) the server divides the clients at random, so that no
model stays untrained and is never chosen; the authors' code draws initial models until each is
chosen by many clients, or does as we do. Models are weighted by n_i.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State
from pflbench.api import hparam, log, note
from pflbench.ops import cross_entropy, cross_entropy_loss, local_sgd, phi, weighted_mean


@dataclass(frozen=True)
class IFCAHparams(Hparams):
    K: int = hparam(2, (1, 10), "number of global models")
    init_rounds: int = hparam(1, (0, 50), "first rounds in which random groups train the models")
    share: str = hparam(
        "none", ["none", "body"], "what all clients share: nothing, or one body for all heads"
    )


class IFCA(Algorithm):
    title = "IFCA"
    family = "Clustering"
    hp: IFCAHparams

    def costs(self) -> tuple[str, str]:
        return "K * theta + 1", "theta + 2"

    def sizes(self) -> dict[str, int]:
        return {"K": self.hp.K}

    def init_server(self) -> State:
        models = {"0": self.task.initial}
        for k in range(1, self.hp.K):
            models[str(k)] = self.task.another(k)
        if self.hp.share == "body":
            models = {k: {**theta, **phi(self.task.initial)} for k, theta in models.items()}
        return {"models": models, "t": torch.zeros((), dtype=torch.int32)}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        groups = torch.full((self.task.clients,), -1, dtype=torch.int32)
        if server["t"] < self.hp.init_rounds:
            groups = self.random_groups()
        messages = {}
        for id in ids:
            j = groups[id] if id < len(groups) else torch.tensor(-1, dtype=torch.int32)  # new
            messages[id] = {"models": server["models"], "j": j}
        return messages

    def random_groups(self) -> Tensor:
        """The model of each client in the first rounds: groups of equal size, the same in all."""
        order = torch.randperm(self.task.clients, generator=self.task.generator("groups"))
        return (order.argsort() % self.hp.K).to(torch.int32)

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        j = int(message["j"])
        if j < 0:
            j = self.best_model(client, message["models"])
        theta = local_sgd(cross_entropy_loss, message["models"][str(j)], client, self.hp)
        chosen = torch.tensor(j, dtype=torch.int32)
        return {"theta": theta, "j": chosen, "n": client.n}, {}

    def best_model(self, client: Client, models: dict[str, Params]) -> int:
        """argmin_k of the mean cross entropy of theta_k over all training data; ties: the first."""
        losses = [self.mean_loss(client, models[str(k)]) for k in range(self.hp.K)]
        best = losses.index(min(losses))
        log(model=best)
        if self.hp.K > 1:
            first, second = sorted(losses)[:2]
            log(loss_gap=second - first)
        return best

    @torch.no_grad()
    def mean_loss(self, client: Client, theta: Params) -> float:
        net = self.net(theta)
        total = 0.0
        for x, y in client.samples():
            total += float(cross_entropy(net(x), y, reduction="none").double().sum())
        return total / max(1, len(client.y))

    def aggregate(self, server: State, replies: Replies) -> State:
        """theta_k = sum of n_i theta_i / sum of n_i over the clients that trained it."""
        models = {}
        for k, old in server["models"].items():
            own = {id: reply for id, reply in replies.items() if int(reply["j"]) == int(k)}
            log(**{f"share_{k}": len(own) / len(replies)})
            models[k] = weighted_mean(own, "theta") if own else old
            if not own:
                note("in some rounds no client trained one of the K models")
        if self.hp.share == "body":
            body = phi(weighted_mean(replies, "theta"))
            models = {k: {**theta, **body} for k, theta in models.items()}
        return {"models": models, "t": server["t"] + 1}

    def personal_model(self, client: Client, message: Message) -> Model:
        best = self.best_model(client, message["models"])
        return message["models"][str(best)]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]
