"""FedStream (Mawuli et al., "FedStream: Prototype-based federated learning on distributed
concept-drifting data streams", IEEE Transactions on Systems, Man, and Cybernetics: Systems 2023),
adapted to a network.

Idea: clients share sets of prototypes that are updated where they err.
Paper: https://ieeexplore.ieee.org/abstract/document/10198520
Code: https://github.com/mvisionai/FedStream
Down: centre and label of the pool's prototypes. Up: the client's micro-clusters (centre, SS, count,
slot); right minus wrong predictions of each prototype. Private: theta_i, micro-clusters with
importances. Evaluated: theta_i's body with the nearest of its clusters and the pool (post); series
"head" is its head, which is also evaluated while nobody has clusters.
Deviations: the published method clusters raw tabular streams, without a network. Here a pass over
the local data is the stream of a round, clusters are of a private network's representations, the
pool pulls these (FedProto's loss), and k-means in each class rebuilds the clusters when the body has
moved, instead of absorbing samples. Importances decay per round; a class keeps its best cluster;
merged counts add up (the authors' code resets them); their linear map is left out.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, one_hot, pad

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
    log,
)
from pflbench.ops import cross_entropy, local_sgd, representations


class Prototypes(NamedTuple):
    """What a client predicts with: its own clusters, then the pool."""

    centre: Tensor  # (P, k)
    label: Tensor  # (P,)
    slots: Tensor  # of the own clusters, which are the first rows

    @property
    def own(self) -> int:
        return len(self.slots)


@dataclass(frozen=True)
class FedStreamHparams(Hparams):
    lam: float = hparam(
        0.1, (0.0, 100.0), "lambda, weight of the pull of representations to the pool"
    )
    m: int = hparam(5, (1, 50), "micro-clusters of a class on a client, at most")
    m_g: int = hparam(10, (1, 200), "prototypes of a class in the pool, at most")
    decay: float = hparam(0.05, (0.0, 1.0), "importances fall by a factor of 2^-decay per round")
    threshold: float = hparam(0.6, (0.01, 1.0), "a cluster of less importance is forgotten")
    importance: bool = hparam(
        True, [True, False], "judge clusters by their predictions; false: keep all"
    )
    lloyd: int = hparam(5, (1, 100), "iterations of k-means")


class FedStream(Algorithm):
    title = "FedStream"
    family = "Representation sharing"
    evaluation_point = "post"
    exceptions: ClassVar = {
        "measured-bytes-equal-formula": "upper bounds: a class can have fewer clusters than it may"
    }
    hp: FedStreamHparams

    def costs(self) -> tuple[str, str]:
        return "C * m_g * (k + 1)", "C_i * m * (k + 3) + C * m_g"

    def sizes(self) -> dict[str, int]:
        return {"m": self.hp.m, "m_g": self.hp.m_g}

    def init_client(self) -> State:
        state = self.empty_slots(clients=1)
        state["theta"] = self.task.initial
        return state

    def init_server(self) -> State:
        """The latest clusters of all clients, and for each its row in the pool, or -1."""
        state = self.empty_slots(self.task.clients)
        state["member"] = torch.full_like(state["count"], -1, dtype=torch.int64)
        state["pool"] = {
            "centre": torch.zeros(0, self.task.width),
            "label": torch.zeros(0, dtype=torch.int32),
        }
        return state

    def empty_slots(self, clients: int) -> State:
        """Slots for m clusters of each class, class by class; a free slot has count 0."""
        slots = clients * self.task.classes * self.hp.m
        return {
            "centre": torch.zeros(slots, self.task.width),
            "ss": torch.zeros(slots),
            "count": torch.zeros(slots),
            "importance": torch.zeros(slots),
        }

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        pool = {
            "centre": server["pool"]["centre"],
            "label": server["pool"]["label"],
        }
        message = {"pool": pool}
        return dict.fromkeys(ids, message)

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        prototypes = self.prototypes(client, message)
        wins = torch.zeros(len(prototypes.label), device=client.y.device)
        loss = self.stream_loss(prototypes, wins)
        theta = local_sgd(loss, client.state["theta"], client, self.hp)
        z = representations(theta, client)
        clusters = self.rebuilt(z, client.y, client.state)
        own_wins = torch.zeros_like(clusters["count"])
        own_wins[prototypes.slots] = wins[: prototypes.own]
        importance = self.judged(client.state, own_wins, clusters["count"])
        clusters["importance"] = importance
        clusters["count"] = clusters["count"] * (importance > 0)  # 0: forgotten
        reply = {"clusters": used_slots(clusters), "wins": wins[prototypes.own :]}
        return reply, {"theta": theta, **clusters}

    def prototypes(self, client: Client, message: Message) -> Prototypes:
        slots = client.state["count"].nonzero().flatten()
        pool = message["pool"]
        centre = torch.cat([client.state["centre"][slots], pool["centre"]])
        label = torch.cat([slots // self.hp.m, pool["label"].long()])
        return Prototypes(centre, label, slots)

    def stream_loss(self, prototypes: Prototypes, wins: Tensor) -> Loss:
        """CE + lambda * sum_b ||z_b - t_b||^2 / (B k), t_b the nearest prototype of class y_b in
        the pool; before its step, each batch is predicted and the result added to `wins`."""

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
            z = net.body(x)
            target = z.detach()
            if len(prototypes.label) > 0:  # not in the first round
                distance = torch.cdist(target, prototypes.centre)  # (B, P)
                count_wins(wins, distance, prototypes.label, y)
                target = pool_targets(target, distance, prototypes, y)
            pull = mse_loss(z, target)
            return cross_entropy(net.head(net.drop(z)), y) + self.hp.lam * pull

        return loss

    def rebuilt(self, z: Tensor, y: Tensor, old: State) -> State:
        """k-means in each class from its old centres, which thus stay in their slots."""
        C = self.task.classes
        m = self.hp.m
        centre = old["centre"].view(C, m, -1)
        alive = (old["count"] > 0).view(C, m)
        centre, alive = self.opened(z, y, centre, alive)
        z64 = z.double()
        squares = z64.square().sum(1)
        for _ in range(self.hp.lloyd):
            nearest = class_distances(z, y, centre, alive).argmin(1)
            members = one_hot(y * m + nearest, C * m).double().T  # (slots, n)
            count = members.sum(1)
            mean = members @ z64 / count.clamp(min=1)[:, None]
            centre = mean.float().view(C, m, -1)
            alive = (count > 0).view(C, m)
        ss = members @ squares
        return {
            "centre": centre.flatten(0, 1),
            "ss": ss.float(),
            "count": count.float(),
        }

    def opened(self, z: Tensor, y: Tensor, centre: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
        """A class opens clusters up to min(m, n_ic), each at its sample farthest from all clusters
        that it has (the first: from the origin)."""
        centre = centre.clone()
        alive = alive.clone()
        of_class = one_hot(y, self.task.classes).bool()  # (n, C)
        from_origin = z.square().sum(1)
        wanted = of_class.sum(0).clamp(max=self.hp.m)
        for slot in range(self.hp.m):
            nearest = class_distances(z, y, centre, alive).amin(1)  # (n,)
            has_any = alive[y].any(1)
            distance = torch.where(has_any, nearest, from_origin)
            farthest = distance[:, None].where(of_class, -1.0).argmax(0)  # (C,)
            opens = ~alive[:, slot] & (alive.sum(1) < wanted)
            centre[opens, slot] = z[farthest[opens]]
            alive[opens, slot] = True
        return centre, alive

    def judged(self, old: State, wins: Tensor, count: Tensor) -> Tensor:
        """Importances: 1 for a new cluster, 0 for a forgotten one; the best of a class is not
        forgotten but reset to 1."""
        carried = torch.ones_like(wins)
        if self.hp.importance:
            carried = (old["importance"] + wins) * 2**-self.hp.decay
        value = torch.where(old["count"] > 0, carried, 1.0)
        value = value.where(count > 0, -torch.inf)
        value = value.view(-1, self.task.classes, self.hp.m)
        best = value.amax((0, 2), keepdim=True)
        rescued = (value == best) & (best < self.hp.threshold) & best.isfinite()
        value = torch.where(rescued, 1.0, value)
        return torch.where(value >= self.hp.threshold, value, 0.0).flatten()

    def aggregate(self, server: State, replies: Replies) -> State:
        clusters = self.latest_clusters(server, replies)
        wins = self.wins_of_slots(server, replies)
        importance = self.judged(server, wins, clusters["count"])
        clusters["importance"] = importance
        label = torch.arange(len(importance)) // self.hp.m % self.task.classes
        member = self.merged_members(clusters, label)
        pool = pooled(clusters, label, member)
        trusted = (member >= 0).sum() / clusters["count"].count_nonzero()
        log(pool=len(pool["label"]), trusted=trusted)
        return {**clusters, "member": member, "pool": pool}

    def latest_clusters(self, server: State, replies: Replies) -> State:
        """The stored clusters, those of the cohort replaced by what it sent."""
        slots = self.task.classes * self.hp.m  # of one client
        clusters = {name: server[name].clone() for name in ("centre", "ss", "count")}
        for id, reply in replies.items():
            sent = reply["clusters"]
            first = id * slots
            clusters["count"][first : first + slots] = 0.0
            rows = first + sent["slot"].long()
            for name, values in clusters.items():
                values[rows] = sent[name]
        return clusters

    def wins_of_slots(self, server: State, replies: Replies) -> Tensor:
        """For every slot the wins of the prototype that it was merged into; 0 outside the pool."""
        padded = [pad(reply["wins"], (0, 1)) for reply in replies.values()]
        wins = torch.stack(padded).sum(0)  # the last entry, 0, is what member -1 refers to
        return wins[server["member"]]

    def merged_members(self, clusters: State, label: Tensor) -> Tensor:
        """For every slot its row in the new pool, in which a class has m_g rows at most; or -1."""
        member = torch.full_like(label, -1)
        for c in range(self.task.classes):
            trusted = (label == c) & (clusters["importance"] > 0)
            rows = trusted.nonzero().flatten()
            group = merged(clusters["centre"][rows], clusters["count"][rows], self.hp.m_g)
            member[rows] = group + member.max() + 1
        return member

    def personal_model(self, client: Client, message: Message) -> Model:
        theta = client.state["theta"]
        prototypes = self.prototypes(client, message)
        if len(prototypes.label) == 0:
            return theta
        return {
            "theta": theta,
            "centre": prototypes.centre,
            "label": prototypes.label,
        }

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.personal_model(client, message)

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"head": client.state["theta"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "centre" not in model:
            return super().predict(model, x)
        z = self.net(model["theta"]).body(x)
        distance = torch.cdist(z, model["centre"])  # (B, P)
        label = model["label"].expand(len(x), -1)
        scores = torch.full((len(x), self.task.classes), -torch.inf, device=x.device)
        return scores.scatter_reduce(1, label, -distance, "amax")


def used_slots(clusters: State) -> Message:
    """The clusters as they are sent: those in use, with their slots."""
    slots = clusters["count"].nonzero().flatten()
    return {
        "centre": clusters["centre"][slots],
        "ss": clusters["ss"][slots],
        "count": clusters["count"][slots],
        "slot": slots.int(),
    }


def count_wins(wins: Tensor, distance: Tensor, label: Tensor, y: Tensor) -> None:
    """Add +1 to the nearest prototype of every sample if its label is right, else -1."""
    winner = distance.argmin(1)
    right = label[winner] == y
    wins.index_add_(0, winner, 2.0 * right - 1.0)


def pool_targets(z: Tensor, distance: Tensor, prototypes: Prototypes, y: Tensor) -> Tensor:
    """The nearest prototype of class y_b in the pool (B, k); z_b itself where there is none."""
    centre = prototypes.centre[prototypes.own :]
    label = prototypes.label[prototypes.own :]
    other_class = label != y[:, None]
    masked = distance[:, prototypes.own :].masked_fill(other_class, torch.inf)
    nearest, row = masked.min(1)
    return torch.where(nearest.isfinite()[:, None], centre[row], z)


def class_distances(z: Tensor, y: Tensor, centre: Tensor, alive: Tensor) -> Tensor:
    """Squared distances to the clusters of a sample's own class: (n, m)."""
    squared = (z[:, None] - centre[y]).square().sum(2)
    return torch.where(alive[y], squared, torch.inf)


def pooled(clusters: State, label: Tensor, member: Tensor) -> State:
    """The pool: LS, SS and counts of the clusters that were merged add up."""
    slots = (member >= 0).nonzero().flatten()
    onto = one_hot(member[slots]).double().T  # (pool, slots)
    n = clusters["count"][slots].double()
    count = onto @ n
    ss = onto @ clusters["ss"][slots].double()
    ls = onto @ (n[:, None] * clusters["centre"][slots])
    return {
        "centre": (ls / count[:, None]).float(),
        "ss": ss.float(),
        "count": count.float(),
        "label": label[slots][onto.argmax(1)].int(),
    }


def merged(centre: Tensor, count: Tensor, cap: int) -> Tensor:
    """Merge the two closest clusters until `cap` remain: for each its group's number, from 0."""
    size = len(count)
    n = count.double()
    mean = centre.double()
    group = torch.arange(size)
    distance = torch.cdist(mean, mean).fill_diagonal_(torch.inf)
    for _ in range(size - cap):
        a, b = divmod(int(distance.argmin()), size)
        total = n[a] + n[b]
        mean[a] = (n[a] * mean[a] + n[b] * mean[b]) / total
        n[a] = total
        group[group == b] = a
        distance[b] = torch.inf
        distance[:, b] = torch.inf
        gone = distance[a].isinf()
        to_merged = (mean - mean[a]).norm(dim=1).masked_fill(gone, torch.inf)
        distance[a] = to_merged
        distance[:, a] = to_merged
    return torch.searchsorted(torch.unique(group), group)
