"""FedStream (Mawuli et al., "FedStream: Prototype-based federated learning on distributed concept-drifting data
streams", IEEE Transactions on Systems, Man, and Cybernetics: Systems 2023), adapted to a network.

Down: centre and label of the pool's prototypes. Up: the client's micro-clusters (centre, SS, count, slot); right minus
wrong predictions of each prototype. Private: theta_i, micro-clusters with importances. Scored: theta_i's base with the
nearest of its clusters and the pool (post); series "head" is its head, which also stands in while nobody has clusters.
Deviations: the published method clusters raw tabular streams and has no network. Here a client's data are the stream of
a round, clusters are of a private network's representations, the pool pulls these (FedProto's loss), and k-means in
each class rebuilds the clusters after training, as the base has moved, instead of absorbing samples one by one.
Importances decay by rounds, not samples; a class keeps its best cluster; a merged cluster has the counts of both (in
the authors' code: 1). The authors' linear map for privacy is undone before use; ours (`privacy`) is orthogonal and known
to clients only. The FedCoSR paper's cost of 2 Omega holds for one cluster a class.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, one_hot

from pflbench import api
from pflbench.api import Client, Message, Model, Net, State, setting
from pflbench.ops import cross_entropy, local_sgd


@dataclass(frozen=True)
class Settings(api.Hparams):
    lam: float = setting(0.1, (0.0, 100.0), "lambda, weight of the pull of representations to the pool")
    m: int = setting(5, (1, 50), "micro-clusters of a class on a client, at most")
    m_g: int = setting(10, (1, 200), "prototypes of a class in the pool, at most")
    decay: float = setting(0.05, (0.0, 1.0), "importances fall by a factor of 2^-decay in a round")
    threshold: float = setting(0.6, (0.0, 1.0), "a cluster of less importance is forgotten")
    importance: bool = setting(True, [True, False], "judge clusters by their predictions; false: keep all")
    lloyd: int = setting(5, (1, 100), "iterations of k-means")
    nearest: str = setting("both", ["both", "pool"], "prototypes that predict: own clusters and the pool, or the pool")
    privacy: str = setting("none", ["none", "orthogonal"], "map that hides the clients' centres from the server")


class FedStream(api.Algorithm):
    title = "FedStream"
    taxonomy = api.Taxonomy("PFL", "Representation sharing", label_skew="yes", data_scarcity="no")
    scored = "post"
    down, up = "C * m_g * (k + 1)", "C_i * m * (k + 3) + C * m_g"
    exceptions: ClassVar = {"measured-bytes-equal-formula": "upper bounds: a class can have fewer clusters than it may"}
    hp: Settings

    def sizes(self) -> dict[str, int]:
        return {"m": self.hp.m, "m_g": self.hp.m_g}

    def slots(self, clients: int) -> State:
        """Room for m micro-clusters of each class, class by class; free where the count is 0."""
        zeros = torch.zeros(clients * self.task.classes * self.hp.m)
        return {"centre": zeros[:, None].repeat(1, self.task.width), "ss": zeros, "count": zeros, "importance": zeros}

    def init_client(self) -> State:
        return {"theta": self.task.initial, **self.slots(1)}

    def init_server(self) -> State:  # the latest clusters of all clients, and for each its row in the pool, if any
        slots, none = self.slots(self.task.clients), torch.zeros(0)
        pool = {"centre": torch.zeros(0, self.task.width), "ss": none, "count": none, "label": none.int()}
        return {**slots, "member": torch.full_like(slots["count"], -1).int(), "pool": pool}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        return {id: {"pool": {name: server["pool"][name] for name in ("centre", "label")}} for id in ids}

    def hidden(self, centre: Tensor, back: bool = False) -> Tensor:
        if self.hp.privacy == "none":
            return centre
        Q = torch.linalg.qr(torch.randn(2 * centre.shape[1:], generator=self.task.generator("privacy map"))).Q
        return centre @ (Q.T if back else Q).to(centre.device)

    def prototypes(self, client: Client, message: Message, own: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Centres and labels of the client's clusters, then of the pool; and the slots of its clusters."""
        used, pool = (client.state["count"] * own).nonzero().flatten(), message["pool"]
        centre = torch.cat([client.state["centre"][used], self.hidden(pool["centre"], back=True)])
        return centre, torch.cat([used // self.hp.m, pool["label"].long()]), used

    def local(self, client: Client, message: Message) -> tuple[Message, State]:
        centre, label, used = self.prototypes(client, message)
        wins, own = torch.zeros(len(label), device=label.device), len(used)  # right minus wrong; the pool starts at own

        def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:  # CE + lambda * sum_b ||z_b - t_b||^2 / (B k)
            z = net.body(x)
            t, d = z.detach(), torch.cdist(z.detach(), centre)  # (B, prototypes)
            if len(label):
                winner = d.argmin(1)
                wins.index_add_(0, winner, 2.0 * (label[winner] == y) - 1.0)
            if len(label) > own:  # t_b: the nearest in the pool of class y_b; no pull where there is none
                near, row = d[:, own:].masked_fill(label[own:] != y[:, None], torch.inf).min(1)
                t = torch.where(near.isfinite()[:, None], centre[own:][row], t)
            return cross_entropy(net.head(net.drop(z)), y) + self.hp.lam * mse_loss(z, t)

        theta = local_sgd(loss, client.state["theta"], client, self.hp)
        net = self.net(theta)
        with torch.no_grad():
            z = torch.cat([net.body(x) for x, _ in client.samples()])
        new = self.rebuilt(z, client.y, client.state)
        new["importance"] = self.judged(client.state, torch.zeros_like(new["ss"]).index_copy(0, used, wins[:own]), new)
        new["count"] = new["count"] * (new["importance"] > 0)
        kept = new["count"].nonzero().flatten()
        radius = (new["ss"][kept] / new["count"][kept] - new["centre"][kept].square().sum(1)).clamp(min=0).sqrt()
        api.log(clusters=len(kept), radius=radius.mean())
        sent = {"centre": self.hidden(new["centre"][kept]), "ss": new["ss"][kept], "count": new["count"][kept]}
        return {"clusters": {**sent, "slot": kept.int()}, "wins": wins[own:]}, {"theta": theta, **new}

    def rebuilt(self, z: Tensor, y: Tensor, old: State) -> State:
        """k-means in each class from its old centres; a class opens up to min(m, n_ic): at its mean, if it has none,
        then at the sample farthest from all. Warm starts keep a cluster in its slot."""
        C, m, of_class = self.task.classes, self.hp.m, one_hot(y, self.task.classes).double()  # (n, C)
        centre, alive = old["centre"].view(C, m, -1).clone(), (old["count"] > 0).view(C, m).clone()
        n_c = of_class.sum(0)
        means = (of_class.T @ z.double() / n_c.clamp(min=1)[:, None]).float()

        def distances() -> Tensor:  # squared, to the clusters of a sample's own class: (n, m)
            return (z[:, None] - centre[y]).square().sum(2).masked_fill(~alive[y], torch.inf)

        for j in range(m):
            far, at = distances().amin(1)[:, None].where(of_class > 0, -1.0).max(0)  # (C,)
            opened = ~alive[:, j] & (alive.sum(1) < n_c.clamp(max=m)) & (far > 0)
            start = torch.where(far.isinf()[:, None], means, z[at])
            centre[:, j], alive[:, j] = torch.where(opened[:, None], start, centre[:, j]), alive[:, j] | opened
        for _ in range(self.hp.lloyd):
            members = one_hot(y * m + distances().argmin(1), C * m).double().T  # (slots, n)
            count, ls = members.sum(1), members @ z.double()
            alive = (count > 0).view(C, m)
            centre = (ls / count.clamp(min=1)[:, None]).float().view(C, m, -1)
        ss = members @ z.double().square().sum(1)
        return {"centre": centre.flatten(0, 1), "ss": ss.float(), "count": count.float()}

    def judged(self, old: State, wins: Tensor, new: State) -> Tensor:
        """Importances: 1 for a new cluster, 0 for a forgotten one; the best of a class is never forgotten, but 1."""
        carried = (old["importance"] + wins) * 2**-self.hp.decay
        value = torch.where(old["count"] > 0, carried, 1.0) if self.hp.importance else torch.ones_like(wins)
        value = value.masked_fill(new["count"] == 0, -torch.inf).view(-1, self.task.classes, self.hp.m)
        best = value.amax((0, 2), keepdim=True)
        value = torch.where((value == best) & (best < self.hp.threshold) & best.isfinite(), 1.0, value)
        return torch.where(value >= self.hp.threshold, value, 0.0).flatten()

    def aggregate(self, server: State, replies: api.Replies) -> State:
        new, slots = {name: server[name].clone() for name in ("centre", "ss", "count")}, self.task.classes * self.hp.m
        for id, reply in replies.items():
            new["count"][id * slots : (id + 1) * slots] = 0
            for name in new:
                new[name][reply["clusters"]["slot"].long() + id * slots] = reply["clusters"][name]
        wins = torch.stack([replies[id]["wins"] for id in sorted(replies)]).sum(0)  # (pool,)
        wins = torch.cat([wins, torch.zeros(1)])[server["member"].long()]  # of every cluster merged into it
        new["importance"], member = self.judged(server, wins, new), torch.full_like(server["member"], -1)
        label = torch.arange(len(member)) % slots // self.hp.m
        for c in range(self.task.classes):
            rows = ((label == c) & (new["importance"] > 0)).nonzero().flatten()
            member[rows] = merged(new["centre"][rows], new["count"][rows], self.hp.m_g) + member.max() + 1
        kept = (member >= 0).nonzero().flatten()
        onto, n = one_hot(member[kept].long()).double().T, new["count"][kept].double()  # (pool, kept), (kept,)
        count, ss, ls = onto @ n, onto @ new["ss"][kept].double(), onto @ (n[:, None] * new["centre"][kept])
        api.log(pool=len(onto), trusted=len(kept) / new["count"].count_nonzero())
        pool = {"centre": (ls / count[:, None]).float(), "ss": ss.float(), "count": count.float()}
        return {**new, "member": member, "pool": {**pool, "label": label[kept][onto.argmax(1)].int()}}

    def personal(self, client: Client, message: Message) -> Model:
        centre, label, _ = self.prototypes(client, message, own=self.hp.nearest == "both")
        model = {"theta": client.state["theta"], "centre": centre, "label": label}
        return model if len(label) else model["theta"]

    def trained(self, client: Client, message: Message, reply: Message) -> Model:
        return self.personal(client, message)

    def others(self, client: Client, message: Message) -> dict[str, Model]:
        return {"head": client.state["theta"]}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        if "centre" not in model:
            return super().predict(model, x)
        d = torch.cdist(self.net(model["theta"]).body(x), model["centre"])  # (B, prototypes)
        scores = torch.full((len(x), self.task.classes), -torch.inf, device=x.device)
        return scores.scatter_reduce(1, model["label"].expand(len(x), -1), -d, "amax")


def merged(centre: Tensor, count: Tensor, cap: int) -> Tensor:
    """Merge the two closest clusters until `cap` remain: for each centre the number of its group, from 0."""
    n, ls = count.double(), count[:, None] * centre.double()
    group, d = torch.arange(len(n)), torch.cdist(centre.double(), centre.double()).fill_diagonal_(torch.inf)
    for _ in range(len(n) - cap):
        a, b = divmod(int(d.argmin()), len(n))
        ls[a], n[a], group[group == b] = ls[a] + ls[b], n[a] + n[b], a
        d[b] = d[:, b] = torch.inf
        d[a] = d[:, a] = (ls / n[:, None] - ls[a] / n[a]).norm(dim=1).masked_fill(d[a].isinf(), torch.inf)
    numbers: Tensor = group.unique(return_inverse=True)[1]
    return numbers
