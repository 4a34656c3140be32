"""FedStream (Mawuli et al., "FedStream: Prototype-based federated learning on distributed concept-drifting data
streams", IEEE Transactions on Systems, Man, and Cybernetics: Systems 2023), adapted to a network.

Down: centre and label of the pool's prototypes. Up: the client's micro-clusters (centre, SS, count, slot); right minus
wrong predictions of each prototype. Private: theta_i, micro-clusters with importances. Evaluated: theta_i's base with the
nearest of its clusters and the pool (post); series "head" is its head, which also stands in while nobody has clusters.
Deviations: the published method clusters raw tabular streams, without a network. Here a round's pass over the data is
the stream, clusters are of a private network's representations, the pool pulls these (FedProto's loss), and k-means in
each class rebuilds the clusters when the base has moved, instead of absorbing samples. Importances decay by rounds; a
class keeps its best cluster; merged counts add up (the authors' code resets them); their linear map is left out.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, one_hot, pad

from pflbench import api
from pflbench.api import Client, Message, Model, Net, State, hparam
from pflbench.ops import cross_entropy, local_sgd


@dataclass(frozen=True)
class FedStreamHparams(api.Hparams):
    lam: float = hparam(
        0.1, (0.0, 100.0), "lambda, weight of the pull of representations to the pool"
    )
    m: int = hparam(5, (1, 50), "micro-clusters of a class on a client, at most")
    m_g: int = hparam(10, (1, 200), "prototypes of a class in the pool, at most")
    decay: float = hparam(0.05, (0.0, 1.0), "importances fall by a factor of 2^-decay in a round")
    threshold: float = hparam(0.6, (0.01, 1.0), "a cluster of less importance is forgotten")
    importance: bool = hparam(
        True, [True, False], "judge clusters by their predictions; false: keep all"
    )
    lloyd: int = hparam(5, (1, 100), "iterations of k-means")


class FedStream(api.Algorithm):
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

    def slots(
        self, clients: int
    ) -> State:  # room for m clusters of each class, class by class; free: count 0
        zeros = torch.zeros(clients * self.task.classes * self.hp.m)
        return {
            "centre": zeros[:, None].repeat(1, self.task.width),
            "ss": zeros,
            "count": zeros,
            "importance": zeros,
        }

    def init_client(self) -> State:
        return {"theta": self.task.initial, **self.slots(1)}

    def init_server(
        self,
    ) -> State:  # the latest clusters of all clients, and for each its row in the pool, or -1
        slots, pool = self.slots(self.task.clients), {"centre": torch.zeros(0, self.task.width)}
        return {
            **slots,
            "member": slots["count"].long() - 1,
            "pool": {**pool, "label": torch.zeros(0).int()},
        }

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        return {
            id: {"pool": {name: server["pool"][name] for name in ("centre", "label")}} for id in ids
        }

    def prototypes(self, client: Client, message: Message) -> tuple[Tensor, Tensor, Tensor]:
        """Centres and labels of the client's clusters, then of the pool; and the slots of its clusters."""
        used, pool = client.state["count"].nonzero().flatten(), message["pool"]
        centre = torch.cat([client.state["centre"][used], pool["centre"]])
        return centre, torch.cat([used // self.hp.m, pool["label"].long()]), used

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        centre, label, used = self.prototypes(client, message)
        wins, own = (
            torch.zeros(len(label), device=label.device),
            len(used),
        )  # right minus wrong; the pool starts at own

        def loss(
            net: Net, x: Tensor, y: Tensor
        ) -> Tensor:  # CE + lambda * sum_b ||z_b - t_b||^2 / (B k)
            z = net.body(x)
            t = z.detach()
            if len(label):  # there is a pool: not in the first round
                d = torch.cdist(t, centre)  # (B, prototypes)
                winner = d.argmin(1)
                wins.index_add_(0, winner, 2.0 * (label[winner] == y) - 1.0)
                near, row = (
                    d[:, own:].masked_fill(label[own:] != y[:, None], torch.inf).min(1)
                )  # of class y_b
                t = torch.where(
                    near.isfinite()[:, None], centre[own:][row], t
                )  # no pull where there is none
            return cross_entropy(net.head(net.drop(z)), y) + self.hp.lam * mse_loss(z, t)

        theta = local_sgd(loss, client.state["theta"], client, self.hp)
        net = self.net(theta)
        new = self.rebuilt(
            torch.cat([net.body(x).detach() for x, _ in client.samples()]), client.y, client.state
        )
        gained = torch.zeros_like(new["count"]).index_copy(0, used, wins[:own])
        new["importance"] = self.judged(client.state, gained, new["count"])
        new["count"] = new["count"] * (new["importance"] > 0)
        kept = new["count"].nonzero().flatten()
        sent = {name: new[name][kept] for name in ("centre", "ss", "count")}
        return {"clusters": {**sent, "slot": kept.int()}, "wins": wins[own:]}, {
            "theta": theta,
            **new,
        }

    def rebuilt(self, z: Tensor, y: Tensor, old: State) -> State:
        """k-means in each class from its old centres, which thus stay in their slots. A class opens up to min(m, n_ic),
        each at the sample farthest from all that it has (the first: from the origin)."""
        C, m, of_class = (
            self.task.classes,
            self.hp.m,
            one_hot(y, self.task.classes).double(),
        )  # (n, C)
        centre, alive = old["centre"].view(C, m, -1).clone(), (old["count"] > 0).view(C, m).clone()

        def distances() -> Tensor:  # squared, to the clusters of a sample's own class: (n, m)
            return torch.where(alive[y], (z[:, None] - centre[y]).square().sum(2), torch.inf)

        for j in range(m):
            far = torch.where(alive[y].any(1), distances().amin(1), z.square().sum(1))  # (n,)
            start = z[far[:, None].where(of_class > 0, -1.0).argmax(0)]  # (C, k)
            opened = ~alive[:, j] & (alive.sum(1) < of_class.sum(0).clamp(max=m))
            centre[:, j], alive[:, j] = (
                torch.where(opened[:, None], start, centre[:, j]),
                alive[:, j] | opened,
            )
        for _ in range(self.hp.lloyd):
            members = one_hot(y * m + distances().argmin(1), C * m).double().T  # (slots, n)
            count, ls, ss = (
                members.sum(1),
                members @ z.double(),
                members @ z.double().square().sum(1),
            )
            centre, alive = (
                (ls / count.clamp(min=1)[:, None]).float().view(C, m, -1),
                (count > 0).view(C, m),
            )
        return {"centre": centre.flatten(0, 1), "ss": ss.float(), "count": count.float()}

    def judged(self, old: State, wins: Tensor, count: Tensor) -> Tensor:
        """Importances: 1 for a new cluster, 0 for a forgotten one; the best of a class is not forgotten but reset."""
        faded = (
            (old["importance"] + wins) * 2**-self.hp.decay
            if self.hp.importance
            else torch.ones_like(wins)
        )
        value = torch.where(old["count"] > 0, faded, 1.0).where(count > 0, -torch.inf)
        value = value.view(-1, self.task.classes, self.hp.m)
        best = value.amax((0, 2), keepdim=True)
        value = torch.where(
            (value == best) & (best < self.hp.threshold) & best.isfinite(), 1.0, value
        )
        return torch.where(value >= self.hp.threshold, value, 0.0).flatten()

    def aggregate(self, server: State, replies: api.Replies) -> State:
        N, slots = self.task.clients, self.task.classes * self.hp.m
        rows = torch.cat(
            [reply["clusters"]["slot"].long() + id * slots for id, reply in replies.items()]
        )
        old = {
            **server,
            "count": server["count"]
            .view(N, -1)
            .index_fill(0, torch.tensor(list(replies)), 0.0)
            .flatten(),
        }
        sent = {
            name: [r["clusters"][name] for r in replies.values()]
            for name in ("centre", "ss", "count")
        }
        new = {
            name: old[name].index_copy(0, rows, torch.cat(column)) for name, column in sent.items()
        }
        wins = torch.stack([pad(reply["wins"], (0, 1)) for reply in replies.values()]).sum(0)[
            server["member"]
        ]
        new["importance"], member = (
            self.judged(server, wins, new["count"]),
            torch.full_like(server["member"], -1),
        )
        label = torch.arange(N * slots) % slots // self.hp.m
        for c in range(self.task.classes):
            rows = ((label == c) & (new["importance"] > 0)).nonzero().flatten()
            member[rows] = (
                merged(new["centre"][rows], new["count"][rows], self.hp.m_g) + member.max() + 1
            )
        kept = (member >= 0).nonzero().flatten()
        onto, n = (
            one_hot(member[kept]).double().T,
            new["count"][kept].double(),
        )  # (pool, kept), (kept,)
        count, ss, ls = (
            onto @ n,
            onto @ new["ss"][kept].double(),
            onto @ (n[:, None] * new["centre"][kept]),
        )
        api.log(pool=len(onto), trusted=len(kept) / new["count"].count_nonzero())
        pool = {"centre": (ls / count[:, None]).float(), "ss": ss.float(), "count": count.float()}
        return {
            **new,
            "member": member,
            "pool": {**pool, "label": label[kept][onto.argmax(1)].int()},
        }

    def personal_model(self, client: Client, message: Message) -> Model:
        centre, label, _ = self.prototypes(client, message)
        model = {"theta": client.state["theta"], "centre": centre, "label": label}
        return model if len(label) else model["theta"]

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return self.personal_model(client, message)

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"head": client.state["theta"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "centre" not in model:
            return super().predict(model, x)
        d = torch.cdist(self.net(model["theta"]).body(x), model["centre"])  # (B, prototypes)
        scores = torch.full((len(x), self.task.classes), -torch.inf, device=x.device)
        return scores.scatter_reduce(1, model["label"].expand(len(x), -1), -d, "amax")


def merged(centre: Tensor, count: Tensor, cap: int) -> Tensor:
    """Merge the two closest clusters until `cap` remain: for each centre the number of its group, from 0."""
    n, mean, group = count.double(), centre.double(), torch.arange(len(count))
    d = torch.cdist(mean, mean).fill_diagonal_(torch.inf)
    for _ in range(len(n) - cap):
        a, b = divmod(int(d.argmin()), len(n))
        mean[a], n[a], group[group == b] = (
            (n[a] * mean[a] + n[b] * mean[b]) / (n[a] + n[b]),
            n[a] + n[b],
            a,
        )
        d[b] = d[:, b] = torch.inf
        d[a] = d[:, a] = (mean - mean[a]).norm(dim=1).masked_fill(d[a].isinf(), torch.inf)
    return torch.searchsorted(torch.unique(group), group)
