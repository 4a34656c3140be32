"""Prototypes, the class means of representations: of a client, of all clients, by label."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pflbench.api import Client, Net, Replies


@torch.no_grad()
def class_prototypes(net: Net, client: Client) -> tuple[Tensor, Tensor]:
    """m_ic = (1/n_ic) sum of z = body(x) over the client's samples of class c; and n_ic.

    Over all training data, in evaluation mode. Returns the prototypes of all classes (C, k), zero
    where n_ic = 0, and the counts (C,) int32.
    """
    net.eval()
    classes = client.task.classes
    device = client.y.device
    total = torch.zeros(classes, client.task.width, dtype=torch.float64, device=device)
    for x, y in client.samples():
        onehot = one_hot(y, classes).double()  # (B, C)
        z = net.body(x).flatten(1).double()  # (B, k)
        total += onehot.T @ z
    means = total / client.counts.clamp(min=1)[:, None]
    return means.float(), client.counts


def prototypes(net: Net, client: Client, min_samples: int = 1) -> dict[str, Tensor]:
    """Omega_i: the prototypes of the classes of which the client holds at least `min_samples`.

    As they are sent: `means` (m, k), `labels` (m,) int32 and `counts` (m,) int32 of these m
    classes; an absent class has no row.
    """
    means, counts = class_prototypes(net, client)
    held = (counts >= max(min_samples, 1)).nonzero().flatten()
    return {"means": means[held], "labels": held.to(torch.int32), "counts": counts[held]}


def no_prototypes(width: int) -> dict[str, Tensor]:
    """Omega before any client has sent a prototype: `means` (0, k) and `labels` (0,)."""
    return {"means": torch.zeros(0, width), "labels": torch.zeros(0, dtype=torch.int32)}


def aggregate_prototypes(
    replies: Replies,
    part: str,
    classes: int,
    previous: Mapping[str, Tensor] | None = None,
    min_clients: int = 1,
    by_count: bool = True,
) -> dict[str, Tensor]:
    """Omega[c] = sum_i n_ic m_ic / sum_i n_ic over the clients that sent class c, or a plain mean.

    Returns `means` and `labels`, in ascending order of label, of the classes that at least
    `min_clients` sent, and of those that nobody sent but `previous` has. Summed in float64, in
    ascending order of client id.
    """
    width = next(iter(replies.values()))[part]["means"].shape[1]
    total = torch.zeros(classes, width, dtype=torch.float64)
    weight = torch.zeros(classes, dtype=torch.float64)
    clients = torch.zeros(classes, dtype=torch.int32)
    for id in sorted(replies):
        omega = replies[id][part]
        rows = omega["labels"].long()
        share = omega["counts"].double() if by_count else torch.ones(len(rows), dtype=torch.float64)
        total[rows] += share[:, None] * omega["means"].double()
        weight[rows] += share
        clients[rows] += 1
    means = (total / weight.clamp(min=1e-300)[:, None]).float()
    known = (clients >= min_clients) & (clients > 0)
    if previous is not None:
        labels = previous["labels"].long()
        unsent = clients[labels] == 0
        means[labels[unsent]] = previous["means"][unsent]
        known[labels[unsent]] = True
    labels = known.nonzero().flatten()
    return {"means": means[labels], "labels": labels.to(torch.int32)}


def prototype_rows(omega: Mapping[str, Tensor], y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """For each label its row in Omega, and whether there is one: (rows (B,), known (B,)).

    rows is 0 where there is none.
    """
    place = torch.full((classes,), -1, dtype=torch.int64, device=y.device)
    place[omega["labels"].long()] = torch.arange(len(omega["labels"]), device=y.device)
    rows = place[y]
    return rows.clamp(min=0), rows >= 0
