"""kNN-Per (Marfoq et al., "Personalized federated learning through local memorization", ICML 2022).

Idea: FedAvg's predictions, mixed with a vote of the nearest own training representations.
Paper: https://arxiv.org/abs/2111.09360
Code: https://github.com/omarfoq/knn-per
Down: theta. Up: theta, n. Private: nothing; the store of representations is made from the data.
Evaluated: the mixture of the new global model's probabilities with those of the vote (pre); series
"global" is the model alone, "knn" the vote alone.
Deviations: the share of the vote is the same for all clients, or chosen by leave-one-out accuracy
on the training data (`choose`), in the paper by each client on validation data. Probabilities are
mixed; the authors' code mixes the vote with logits.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State
from pflbench.api import hparam, log
from pflbench.ops import cross_entropy_loss, local_sgd, part_of, representations, weighted_mean

GRID = tuple(place / 10 for place in range(11))


@dataclass(frozen=True)
class kNNPerHparams(Hparams):
    neighbours: int = hparam(10, (1, 50), "training samples that vote")
    scale: float = hparam(1.0, (0.01, 100.0), "of distances: a vote is exp(-d^2 / (k scale))")
    lam: float = hparam(0.5, (0.0, 1.0), "lambda, share of the vote")
    choose: str = hparam(
        "fixed", ["fixed", "loo"], "lambda as given, or by leave-one-out accuracy on training data"
    )
    capacity: float = hparam(1.0, (0.01, 1.0), "share of the training samples that are stored")


class kNNPer(Algorithm):
    title = "kNN-Per"
    family = "Local memorization"
    hp: kNNPerHparams

    def costs(self) -> tuple[str, str]:
        return "theta", "theta + 1"

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        return {"theta": theta, "n": client.n}, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return {"theta": weighted_mean(replies, "theta")}

    def personal_model(self, client: Client, message: Message) -> Model:
        return self.with_store(client, message["theta"])

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.with_store(client, reply["theta"])

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        vote_alone = {**self.with_store(client, message["theta"]), "lam": torch.ones(())}
        return {"global": message["theta"], "knn": vote_alone}

    def with_store(self, client: Client, theta: Params) -> Model:
        """theta with the representations and labels of the stored samples, and lambda."""
        stored = self.stored(client)
        if not len(stored.y):
            nothing = torch.zeros(0, self.task.width, device=client.y.device)
            return {"theta": theta, "z": nothing, "y": stored.y, "lam": torch.zeros(())}
        z = representations(theta, stored).flatten(1)
        lam = self.hp.lam
        if self.hp.choose == "loo":
            lam = self.best_share(theta, z, stored)
        log(lam=lam)
        return {"theta": theta, "z": z, "y": stored.y, "lam": torch.tensor(lam)}

    def stored(self, client: Client) -> Client:
        """The client with `capacity` of its samples, the same ones in all rounds."""
        n = len(client.y)
        if self.hp.capacity >= 1 or n == 0:
            return client
        order = torch.randperm(n, generator=self.task.generator("store", client.id))
        rows = order[: max(1, int(self.hp.capacity * n + 1e-9))]
        return part_of(client, rows.sort().values)

    @torch.no_grad()
    def best_share(self, theta: Params, z: Tensor, stored: Client) -> float:
        """The lambda of a grid by which most stored samples are classified correctly, each with the
        vote of the others; the lowest of several.
        """
        if len(z) < 2:
            return 0.0
        net = self.net(theta)
        logits = torch.cat([net(x) for x, _ in stored.samples()])
        d2 = squared_distances(z, z).fill_diagonal_(torch.inf)
        votes = self.vote(d2, stored.y, min(self.hp.neighbours, len(z) - 1))
        correct = []
        for lam in GRID:
            found = mixture(lam, votes, logits).argmax(1)
            correct.append(int((found == stored.y).sum()))
        return GRID[correct.index(max(correct))]

    def vote(self, d2: Tensor, y: Tensor, neighbours: int) -> Tensor:
        """P(c) = sum of e_j over the nearest j of class c / sum of e_j, e_j = exp(-d_j^2 / (k scale)).

        d2: (B, n), y: (n,). The smallest distance is subtracted, or all e_j might be 0; of samples at
        the same distance the first are nearer.
        """
        nearest, rows = d2.sort(dim=1, stable=True)
        nearest = nearest[:, :neighbours]
        rows = rows[:, :neighbours]
        e = torch.exp((nearest[:, :1] - nearest) / (self.task.width * self.hp.scale))
        by_class = one_hot(y[rows], self.task.classes) * e[:, :, None]  # (B, neighbours, C)
        return by_class.sum(1) / e.sum(1, keepdim=True)

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "z" not in model:
            return super().predict(model, x)
        net = self.net(model["theta"])
        z = net.body(x)
        logits: Tensor = net.head(z)
        if not len(model["y"]):
            return logits.softmax(1)
        d2 = squared_distances(z.flatten(1), model["z"])
        votes = self.vote(d2, model["y"], self.hp.neighbours)
        return mixture(model["lam"], votes, logits)


def squared_distances(first: Tensor, second: Tensor) -> Tensor:
    """||z_a - z_b||^2 of all pairs of rows; exactly 0 of the same."""
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist").square()


def mixture(lam: float | Tensor, votes: Tensor, logits: Tensor) -> Tensor:
    """lambda P_knn + (1 - lambda) softmax(logits)."""
    return lam * votes + (1 - lam) * logits.softmax(1)
