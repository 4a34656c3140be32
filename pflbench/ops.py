"""What methods have in common: pure functions, each with its formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy, one_hot

from pflbench.api import Client, Hparams, Loss, Net, Params, Replies, log
from pflbench.optim import SGD, Adam, Optimizer, keep_state

__all__ = ["cosine_similarity", "cross_entropy"]


def cross_entropy_loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
    """CE(theta; b) = mean over the batch of -log softmax(net(x))_y."""
    return cross_entropy(net(x), y)


def proximal(loss: Loss, anchor: Params, mu: float) -> Loss:
    """loss(theta; b) + (mu / 2) ||theta - anchor||^2 over all parameters; the anchor is fixed."""

    def proximal_loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
        squares = [(p - anchor[name]).square().sum() for name, p in net.named_parameters()]
        return loss(net, x, y) + mu / 2 * torch.stack(squares).sum()

    return proximal_loss


def phi(theta: Params) -> Params:
    """phi: the parameters of the body."""
    return {name: p for name, p in theta.items() if name.startswith("body.")}


def pi(theta: Params) -> Params:
    """pi: the parameters of the head."""
    return {name: p for name, p in theta.items() if name.startswith("head.")}


def join(body: Params, head: Params) -> Params:
    """theta = (phi, pi): the network of a body and a head."""
    return {**body, **head}


def blend(weight: Tensor | float, first: Params, second: Params) -> Params:
    """weight * first + (1 - weight) * second; exact at 0 and 1."""
    return {name: weight * first[name] + (1 - weight) * second[name] for name in first}


def local_sgd(
    loss: Loss,
    theta: Params,
    client: Client,
    hp: Hparams,
    *,
    part: str = "",
    stream: str = "train",
    clip: float = 0.0,
    kept_as: str = "",
) -> Params:
    """theta <- theta - eta * grad loss(theta; b), for every batch b of `hp.epochs` passes.

    Returns the new theta. `part` limits training to the parameters whose names start so ("body",
    "head"); the rest stays as it is, bit for bit, whatever the optimizer. `clip` bounds the norm of
    the gradient. The mean loss is logged as `loss` (or `loss_<stream>` for other streams than
    "train"). The optimizer (`hp.optimizer`) is new in every round unless `hp.keep_optimizer`; its
    state is then kept under the name of the stream, or `kept_as`.
    """
    batches = client.batches(hp.batch_size, hp.epochs, stream)
    return _train(loss, theta, client, hp, batches, part, stream, clip, kept_as)


@torch.no_grad()
def representations(theta: Params, client: Client) -> Tensor:
    """z = body(x) of all training samples, in their order: (n, k)."""
    net = client.task.net(theta)
    return torch.cat([net.body(x) for x, _ in client.samples()])


def head_sgd(
    theta: Params, z: Tensor, client: Client, hp: Hparams, *, stream: str = "head"
) -> Params:
    """pi <- pi - eta * grad CE(head(z), y): `local_sgd` of the head alone, with the body frozen.

    z = `representations(theta, client)` is computed once, not for every batch.
    """

    def head_loss(net: Net, z: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(net.head(net.drop(z)), y)

    batches = client.batches(hp.batch_size, hp.epochs, stream, z)
    return _train(head_loss, theta, client, hp, batches, part="head", stream=stream)


def _train(
    loss: Loss,
    theta: Params,
    client: Client,
    hp: Hparams,
    batches: Iterable[tuple[Tensor, Tensor]],
    part: str,
    stream: str,
    clip: float = 0.0,
    kept_as: str = "",
) -> Params:
    """theta after one optimizer step per batch on its `part`; logs the mean loss over samples."""
    net = client.task.net(theta, hp.dropout, client.generator("dropout", stream)).train()
    for name, p in net.named_parameters():
        p.requires_grad_(name.startswith(part))
    trained: Params = {name: p for name, p in net.named_parameters() if p.requires_grad}
    if not trained:
        return net.parameters_now()
    optimizer = _local_optimizer(hp, trained, client, kept_as or stream)
    total = torch.zeros((), device=client.y.device)
    seen = 0
    for x, y in batches:
        value = loss(net, x, y)
        optimizer.zero_grad()
        value.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(trained.values(), clip)
        optimizer.step()
        total += value.detach() * len(y)
        seen += len(y)
    if seen:
        log(**{"loss" if stream == "train" else f"loss_{stream}": total / seen})
    if hp.keep_optimizer:
        _keep(optimizer, trained, kept_as or stream)
    return net.parameters_now()


def _local_optimizer(hp: Hparams, trained: Params, client: Client, name: str) -> Optimizer:
    """A new optimizer; with `keep_optimizer`, in the state in which the client's last one ended."""
    optimizer = optimizer_of(hp, trained.values())
    if hp.keep_optimizer and name in client.optimizers:
        kept = client.optimizers[name]
        optimizer.load({key: [kept[key][p] for p in trained] for key in kept})
    return optimizer


def _keep(optimizer: Optimizer, trained: Params, name: str) -> None:
    """Keep a copy of the optimizer's state, by the names of the parameters, in row-major layout."""
    state = {
        key: {
            parameter: tensor.clone(memory_format=torch.contiguous_format)
            for parameter, tensor in zip(trained, tensors, strict=True)
        }
        for key, tensors in optimizer.state().items()
    }
    if state:
        keep_state(name, state)


def gradient(net: Net, x: Tensor, y: Tensor, name: str = "loss") -> Callable[[Params], Params]:
    """theta -> grad CE(theta; b), for methods whose steps are written out.

    The loss is logged under the name, if there is one. `torch.func.grad` gives the same bits and
    takes a sixth longer.
    """

    def gradient_at(theta: Params) -> Params:
        leaves = {key: p.detach().requires_grad_() for key, p in theta.items()}
        value = cross_entropy(functional_call(net, leaves, (x,)), y)
        if name:
            log(**{name: value.detach()})
        gradients = torch.autograd.grad(value, list(leaves.values()))
        return dict(zip(leaves, gradients, strict=True))

    return gradient_at


def optimizer_of(hp: Hparams, parameters: Iterable[Tensor]) -> Optimizer:
    """A new local optimizer: plain SGD (no momentum, no decay) or Adam with the usual constants."""
    kinds = {"sgd": SGD, "adam": Adam}
    return kinds[hp.optimizer](parameters, hp.lr)


def weighted_mean(replies: Replies, part: str, weights: Mapping[int, Tensor] | None = None) -> Any:
    """sum_i p_i x_i with p_i = n_i / sum_j n_j (`reply["n"]`), or the given weights, normalised.

    Summed in float64 in ascending order of client id, then cast back; integer tensors are the
    lowest id's.
    """
    ids = sorted(replies)
    if weights is None:
        weights = {id: replies[id]["n"] for id in ids}
    raw = [weights[id].double() for id in ids]
    total = torch.stack(raw).sum()
    return mean_of([replies[id][part] for id in ids], [weight / total for weight in raw])


def mean_of(trees: list[Any], weights: list[Tensor]) -> Any:
    """sum_i w_i x_i over trees of the same form, in float64 and in the order given, cast back."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: mean_of([tree[key] for tree in trees], weights) for key in first}
    if not first.is_floating_point():
        return first.clone()
    total = torch.zeros_like(first, dtype=torch.float64)
    for tree, weight in zip(trees, weights, strict=True):
        total += weight * tree.double()
    return total.to(first.dtype)


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


def simplex_qp(R: Tensor) -> tuple[Tensor, float]:
    """argmin of a^T P a over a >= 0, sum a = 1, for P = R^T R, R: (rows, m); in float64.

    If x >= 0 minimises ||R x||^2 + (sum x - 1)^2, then a = x / sum x: the two problems have the
    same conditions of optimality, and that of x is solved in finitely many steps. Returns a and the
    relative gap (g.a - min g) / g.a, g = P a, which is 0 at the optimum (values of a^T P a below
    1e-9 of the smallest on the diagonal count as 0).
    """
    from scipy.optimize import nnls

    m = R.shape[1]
    uniform = torch.full((m,), 1 / m, dtype=torch.float64)
    diagonal = R.double().square().sum(0)
    if not diagonal.isfinite().all():
        return uniform, float("inf")
    if not diagonal.any():
        return uniform, 0.0
    R = R.double() / diagonal[diagonal > 0].min().sqrt()
    goal = torch.zeros(len(R) + 1, dtype=torch.float64)
    goal[-1] = 1.0
    try:
        x, _ = nnls(torch.cat([R, torch.ones(1, m, dtype=torch.float64)]).numpy(), goal.numpy())
    except RuntimeError:  # too many steps
        return uniform, float("inf")
    a = torch.from_numpy(x) / x.sum()
    g = R.T @ (R @ a)
    value = g @ a
    return a, float((value - g.min()) / value.clamp(min=1e-9))
