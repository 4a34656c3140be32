"""What methods have in common: pure functions, each with its formula."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy

from pflbench.api import Client, Hparams, Loss, Net, Params, Replies, Samples, Task, log
from pflbench.optim import SGD, Adam, Optimizer, keep_state
from pflbench.prototypes import (
    aggregate_prototypes,
    class_prototypes,
    no_prototypes,
    prototype_rows,
    prototypes,
)
from pflbench.simplex import simplex_qp

__all__ = [
    "aggregate_prototypes",
    "class_prototypes",
    "cosine_similarity",
    "cross_entropy",
    "no_prototypes",
    "prototype_rows",
    "prototypes",
    "simplex_qp",
]

Group = tuple[Params, float]
"""Parameters besides those of the network, as `leaves` makes them, and their learning rate."""


def cross_entropy_loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
    """CE(theta; b) = mean over the batch of -log softmax(net(x))_y."""
    return cross_entropy(net(x), y)


def proximal(loss: Loss, anchor: Params, mu: float) -> Loss:
    """loss(theta; b) + (mu / 2) ||theta - anchor||^2 over all parameters; the anchor is fixed."""

    def proximal_loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
        squares = [(p - anchor[name]).square().sum() for name, p in net.named_parameters()]
        return loss(net, x, y) + mu / 2 * torch.stack(squares).sum()

    return proximal_loss


def linear(loss: Loss, d: Params) -> Loss:
    """A loss whose gradient is grad loss(theta; b) + d; its value stays that of the loss.

    It is loss + <d, theta - stop(theta)>: d corrects every step.
    """

    def corrected_loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
        parts = [(d[name] * (p - p.detach())).sum() for name, p in net.named_parameters()]
        return loss(net, x, y) + torch.stack(parts).sum()

    return corrected_loss


def phi(theta: Params) -> Params:
    """phi: the parameters of the body."""
    return {name: p for name, p in theta.items() if name.startswith("body.")}


def pi(theta: Params) -> Params:
    """pi: the parameters of the head."""
    return {name: p for name, p in theta.items() if name.startswith("head.")}


def join(body: Params, head: Params) -> Params:
    """theta = (phi, pi): the network of a body and a head."""
    return {**body, **head}


def layers(part: nn.Module) -> list[nn.Module]:
    """The layers of a body or head in their order; one that is not an `nn.Sequential` is a layer."""
    return list(part) if isinstance(part, nn.Sequential) else [part]


def blend(weight: Tensor | float, first: Params, second: Params) -> Params:
    """weight * first + (1 - weight) * second; exact at 0 and 1."""
    return {name: weight * first[name] + (1 - weight) * second[name] for name in first}


def zeros(theta: Params, dtype: torch.dtype | None = None) -> Params:
    """0 of theta's shape; of its type unless one is given."""
    return {name: torch.zeros_like(p, dtype=dtype) for name, p in theta.items()}


def difference(first: Params, second: Params) -> Params:
    """first - second."""
    return {name: p - second[name] for name, p in first.items()}


def parameters(task: Task, theta: Params) -> Params:
    """theta without running statistics, if it has any."""
    return {name: p for name, p in theta.items() if name not in task.statistics}


def server_step(task: Task, rate: float, mean: Params, old: Params) -> Params:
    """(1 - rate) old + rate mean; running statistics are the mean's, whatever the rate."""
    return {**blend(rate, mean, old), **{name: mean[name] for name in task.statistics}}


def completed(net: Net, parameters: Params) -> Params:
    """These parameters with the network's running statistics, in row-major layout."""
    own = {name: p.detach().contiguous() for name, p in parameters.items()}
    return {**net.parameters_now(), **own}


def local_sgd(
    loss: Loss,
    theta: Params,
    client: Client,
    hp: Hparams,
    *,
    part: str = "",
    stream: str = "train",
    kept_as: str = "",
    besides: Sequence[Group] = (),
) -> Params:
    """theta <- theta - eta * grad loss(theta; b), for every batch b of `hp.epochs` passes.

    Returns the new theta. `part` limits training to the parameters whose names start so ("body",
    "head"); the rest stays as it is, bit for bit, whatever the optimizer, and is in evaluation mode
    (batch norm by running statistics, which do not move). The mean loss is logged as `loss` (or
    `loss_<stream>` for other streams than "train"). The optimizer (`hp.optimizer`) is new in every
    round unless `hp.keep_optimizer`; its state is then kept under the name of the stream, or
    `kept_as`. The options of training (`OPTIONS` of the api) hold: eta is `hp.lr` by the schedule.

    `besides` has groups of further `leaves` that the loss reads, each with a rate: they are trained
    in place, on the same gradient, by an optimizer of their own; `values` reads them afterwards.
    `hp.clip` bounds the norm of all of it.
    """
    batches = client.batches(hp.batch_size, hp.epochs, stream)
    return _train(loss, theta, client, hp, batches, part, stream, kept_as, besides)


def leaves(tree: Params) -> Params:
    """Copies that gradients flow to: parameters of a method's own, for `besides`."""
    return {name: p.detach().clone().requires_grad_() for name, p in tree.items()}


def values(tree: Params) -> Params:
    """The values of leaves, without gradients."""
    return {name: p.detach() for name, p in tree.items()}


def initial_linear(name: str, inputs: int, outputs: int, draws: torch.Generator) -> Params:
    """Weight (outputs, inputs) and bias of a layer, uniform in +-1 / sqrt(inputs) as PyTorch's."""
    bound = inputs**-0.5
    weight = torch.empty(outputs, inputs).uniform_(-bound, bound, generator=draws)
    bias = torch.empty(outputs).uniform_(-bound, bound, generator=draws)
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def fine_tuned(
    theta: Params, client: Client, hp: Hparams, *, epochs: int, lr: float | None, part: str = ""
) -> Params:
    """theta after passes over the client's training data: a copy for evaluation.

    As its local training in this round would be, but for the passes, the rate (None: that of local
    training), the part that is trained and the optimizer, which is always new.
    """
    rate = hp.lr if lr is None else lr
    tuning = replace(hp, epochs=epochs, lr=rate, keep_optimizer=False)
    return local_sgd(cross_entropy_loss, theta, client, tuning, part=part)


class _Some:
    """Some rows of samples."""

    def __init__(self, samples: Samples, rows: Tensor) -> None:
        self.samples = samples
        self.rows = rows

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.samples[self.rows[rows]]


def part_of(client: Client, rows: Tensor) -> Client:
    """The same client with some of its training samples, as validation data, say."""
    return replace(client, x=_Some(client.x, rows), y=client.y[rows.to(client.y.device)])


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
    kept_as: str = "",
    besides: Sequence[Group] = (),
) -> Params:
    """theta after one optimizer step per batch on its `part`; logs the mean loss over samples."""
    net = client.task.net(theta, hp.dropout, client.generator("dropout", stream)).train()
    net.body.train("body".startswith(part))
    net.head.train("head".startswith(part))
    for name, p in net.named_parameters():
        p.requires_grad_(name.startswith(part))
    trained: Params = {name: p for name, p in net.named_parameters() if p.requires_grad}
    if not trained and not besides:
        return net.parameters_now()
    optimizers = _LocalOptimizers(hp, [(trained, hp.lr), *besides], client, kept_as or stream)
    total = torch.zeros((), device=client.y.device)
    seen = 0
    for x, y in batches:
        value = loss(net, x, y)
        optimizers.zero_grad()
        value.backward()
        optimizers.step(hp.clip)
        total += value.detach() * len(y)
        seen += len(y)
    if seen:
        log(**{"loss" if stream == "train" else f"loss_{stream}": total / seen})
    if hp.keep_optimizer:
        optimizers.keep()
    return net.parameters_now()


class _LocalOptimizers:
    """One for every group of parameters; with `keep_optimizer`, in the state in which the client's
    last one ended. Its state is kept under the name, or for further groups under `name, 1` etc.
    """

    def __init__(self, hp: Hparams, groups: Sequence[Group], client: Client, name: str) -> None:
        self.by_name: dict[str, tuple[Optimizer, Params]] = {}
        factor = hp.rate_factor(client.round)
        for place, (tensors, rate) in enumerate(groups):
            key = f"{name}, {place}" if place else name
            optimizer = optimizer_of(replace(hp, lr=factor * rate), tensors.values())
            if hp.keep_optimizer and key in client.optimizers:
                kept = client.optimizers[key]
                optimizer.load({kind: [kept[kind][p] for p in tensors] for kind in kept})
            self.by_name[key] = (optimizer, tensors)

    def zero_grad(self) -> None:
        for optimizer, _ in self.by_name.values():
            optimizer.zero_grad()

    def step(self, clip: float) -> None:
        """A step of all, along a gradient whose norm is at most the bound (0: whatever it is)."""
        if clip:
            groups = [tensors.values() for _, tensors in self.by_name.values()]
            torch.nn.utils.clip_grad_norm_(itertools.chain(*groups), clip)
        for optimizer, _ in self.by_name.values():
            optimizer.step()

    def keep(self) -> None:
        """Keep copies of the states, by the names of the parameters, in row-major layout."""
        for key, (optimizer, named) in self.by_name.items():
            state = {
                kind: {
                    parameter: tensor.clone(memory_format=torch.contiguous_format)
                    for parameter, tensor in zip(named, tensors, strict=True)
                }
                for kind, tensors in optimizer.state().items()
            }
            if state:
                keep_state(key, state)


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
    """A new local optimizer: SGD or Adam with the usual constants, at the rate `hp.lr`."""
    if hp.optimizer == "adam":
        return Adam(parameters, hp.lr, weight_decay=hp.weight_decay)
    return SGD(parameters, hp.lr, hp.local_momentum, hp.weight_decay)


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
