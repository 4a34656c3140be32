"""FedFomo (Zhang et al., "Personalized federated learning with first order model optimization", ICLR
2021).

Idea: clients start from a mixture of those others' models that lower their validation loss.
Paper: https://arxiv.org/abs/2012.08565
Code: https://github.com/NVlabs/FedFomo
Down: the models of M other clients. Up: theta_i, the weights of the M models. Private: theta_i, and
base_i, from which its last training started.
Evaluated: theta_i after training (post); at pre the mixture that it starts from.
Deviations: a fifth of the training data is for validation, drawn once. Where no model has a positive
weight the client goes on from its own; in the authors' code from base_i. The server adds weights as
they are, theirs normalised ones, and distances are Euclidean, theirs by default of the first norm.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pflbench.api import Algorithm, Client, Hparams, Message, Model, Params, Replies, State
from pflbench.api import hparam, log
from pflbench.ops import cross_entropy, cross_entropy_loss, local_sgd, mean_of, parameters, part_of


@dataclass(frozen=True)
class FedFomoHparams(Hparams):
    M: int = hparam(5, (0, 20), "models of others that a client downloads")
    val_share: float = hparam(0.2, (0.05, 0.5), "share of the training data for validation")
    eps: float = hparam(0.3, (0.0, 1.0), "chance that one of the M is a random client's, at first")
    eps_decay: float = hparam(0.05, (0.0, 1.0), "by which that chance falls per round")


class FedFomo(Algorithm):
    title = "FedFomo"
    family = "Model collaboration"
    evaluation_point = "post"
    hp: FedFomoHparams

    def costs(self) -> tuple[str, str]:
        return "M * theta", "theta + M"

    def sizes(self) -> dict[str, int]:
        return {"M": min(self.hp.M, self.task.clients - 1)}

    def init_server(self) -> State:
        """The newest model of every client seen, the affinities P (N, N), the round."""
        t = torch.zeros((), dtype=torch.int32)
        return {"models": {}, "P": torch.eye(self.task.clients), "t": t}

    def init_client(self) -> State:
        return {"theta": self.task.initial, "base": self.task.initial}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        messages = {}
        for id in ids:
            others = self.candidates(server, id)
            models = [server["models"][str(other)] for other in others]
            messages[id] = {"models": {str(place): p for place, p in enumerate(models)}}
        return messages

    def candidates(self, server: State, id: int) -> list[int]:
        """The M others with the highest P[id] that have sent a model; ties: the lower id.

        Each place goes to a random one of the rest with probability eps - eps_decay t.
        """
        P = server["P"]
        affinity = P[id].tolist() if id < len(P) else [0.0] * len(P)  # a new client has no row
        others = [int(other) for other in server["models"] if int(other) != id]
        others.sort(key=lambda other: (-affinity[other], other))
        t = int(server["t"])
        chance = max(0.0, self.hp.eps - self.hp.eps_decay * t)
        draws = self.task.generator("explore", id, t)
        chosen = []
        for _ in range(min(self.hp.M, len(others))):
            place = 0
            if torch.rand((), generator=draws) < chance:
                place = int(torch.randint(len(others), (), generator=draws))
            chosen.append(others.pop(place))
        return chosen

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        start, weights = self.merged(client, message)
        training, _ = self.divided(client)
        theta = local_sgd(cross_entropy_loss, start, training, self.hp)
        reply = {"theta": theta, "w": weights[:-1].float()}  # the last is the client's own
        return reply, {"theta": theta, "base": start}

    def merged(self, client: Client, message: Message) -> tuple[Params, Tensor]:
        """The start, sum_n w_n theta_n over the candidates of positive weight; and all weights.

        w_n = (L(base) - L(theta_n)) / ||theta_n - base||, L being the validation loss. Candidates are
        the models received, and then the client's own.
        """
        own: Params = client.state["theta"]
        base: Params = client.state["base"]
        candidates = [*message["models"].values(), own]
        _, validation = self.divided(client)
        losses = [mean_loss(validation, theta) for theta in (base, *candidates)]
        old = parameters(self.task, base)
        distances = [distance(theta, old) for theta in candidates]
        weights = first_order_weights(torch.stack(losses), torch.stack(distances))
        positive = weights.clamp(min=0)
        log(mixed=(positive > 0).sum())
        if not positive.any():
            return own, weights
        shares = positive / positive.sum()
        used = [place for place, share in enumerate(shares.tolist()) if share > 0]
        start = mean_of([candidates[place] for place in used], [shares[place] for place in used])
        return start, weights

    def divided(self, client: Client) -> tuple[Client, Client]:
        """The client with its training and with its validation samples, the same in all rounds."""
        n = len(client.y)
        order = torch.randperm(n, generator=self.task.generator("validation", client.id))
        size = max(1, int(self.hp.val_share * n + 1e-9))
        training = order[size:] if n > 1 else order
        return part_of(client, training.sort().values), part_of(client, order[:size].sort().values)

    def aggregate(self, server: State, replies: Replies) -> State:
        """P[i, n] <- P[i, n] + w_n for the models n that client i was sent."""
        P = server["P"].clone()
        models = dict(server["models"])
        for id, reply in replies.items():
            sent = self.candidates(server, id)
            P[id, sent] += reply["w"]
            models[str(id)] = reply["theta"]
        return {"models": models, "P": P, "t": server["t"] + 1}

    def personal_model(self, client: Client, message: Message) -> Model:
        start, _ = self.merged(client, message)
        return start

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return reply["theta"]


def first_order_weights(losses: Tensor, distances: Tensor) -> Tensor:
    """(L(base) - L_n) / d_n, 0 at distance 0; the first of the losses is the base's."""
    gains = losses[0] - losses[1:]
    return torch.where(distances > 0, gains / distances, 0.0)


@torch.no_grad()
def mean_loss(client: Client, theta: Params) -> Tensor:
    """Mean cross entropy of the client's samples, in float64."""
    net = client.task.net(theta)
    total = torch.zeros((), dtype=torch.float64, device=client.y.device)
    for x, y in client.samples():
        total += cross_entropy(net(x), y, reduction="none").double().sum()
    return total / max(1, len(client.y))


def distance(first: Params, second: Params) -> Tensor:
    """||first - second|| over the parameters of the second."""
    squares = [(first[name].double() - second[name].double()).square().sum() for name in second]
    return torch.stack(squares).sum().sqrt()
