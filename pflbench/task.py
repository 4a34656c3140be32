"""The problem that a run poses: a network in two parts, its initial values, and what is known of the data."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

Params = dict[str, Tensor]
"""Parameters of a network by name: `body.*` is phi, `head.*` is pi, all of them are theta."""


class Dropout(nn.Module):
    """Inverted dropout that draws from a generator of its own, never from the global one."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, z: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return z
        kept = torch.rand(z.shape, generator=self.generator) >= self.p
        return z * kept.to(z.device) / (1.0 - self.p)


class Net(nn.Module):
    """A network in two parts: representation z = body(x), logits = head(z); dropout, if any, lies between them."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.drop = Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.drop(self.body(x)))
        return logits

    def parameters_now(self) -> Params:
        """A copy of the parameters (and buffers), in plain row-major layout."""
        return {
            name: p.detach().clone(memory_format=torch.contiguous_format)
            for name, p in self.state_dict().items()
        }


def _only_one(i: int) -> Params:
    raise ValueError(f"draw {i} of the initial model: this task has one only")


@dataclass(frozen=True)
class Task:
    """The problem that a run poses: the same for the server and all clients."""

    skeleton: Net  # the network without values (on the meta device)
    initial: Params  # theta^0, the common start
    classes: int  # C
    width: int  # k, entries of a representation
    shape: tuple[int, ...]  # of a sample: (channels, height, width) of an image
    clients: int  # N
    dataset: str
    seed: int
    device: torch.device = torch.device("cpu")
    pretrained: bool = False  # the body of theta^0 comes from a file (`body_weights`)
    another: Callable[[int], Params] = _only_one  # i -> the i-th further draw of theta^0, i >= 1
    dtype: torch.dtype = torch.uint8  # of samples: images; float32: features; int64: tokens
    # mean and std of features; None: left as they are
    standard: tuple[Tensor, Tensor] | None = None

    @cached_property
    def statistics(self) -> frozenset[str]:
        """Names of the network's buffers: running statistics, which move with forward passes in training."""
        trained = {name for name, _ in self.skeleton.named_parameters()}
        return frozenset(self.initial.keys() - trained)

    def net(
        self, theta: Params, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> Net:
        """A network of its own copy of `theta` on the device, in evaluation mode; conv weights channels-last."""
        if theta.keys() != self.initial.keys():
            extra, missing = (
                sorted(theta.keys() - self.initial.keys()),
                sorted(self.initial.keys() - theta.keys()),
            )
            raise ValueError(
                f"theta does not fit the network: missing {missing}, unexpected {extra}"
            )
        net: Net = _filled(
            self.skeleton, {name: self.place(p.detach()) for name, p in theta.items()}
        )
        net.drop.p, net.drop.generator = dropout, generator
        return net.eval()

    def place(self, values: Tensor) -> Tensor:
        """A copy of the tensor on the device; four-dimensional ones (images, conv weights) channels-last.

        `contiguous` would leave a single channel as it is, since its strides fit both layouts; kernels would then
        take the slow one.
        """
        layout = torch.channels_last if values.dim() == 4 else torch.contiguous_format
        return values.to(self.device).clone(memory_format=layout)

    def inputs(self, x: Tensor) -> Tensor:
        """Samples as inputs: images in [-1, 1], features standardized, tokens as they are."""
        placed = self.place(x)
        if x.dtype is torch.uint8:
            return placed.to(torch.float32).div_(127.5).sub_(1.0)
        if self.standard is None:
            return placed
        mean, std = self.standard
        return placed.sub_(mean).div_(std)

    def blank(self, number: int = 1) -> Tensor:
        """Inputs of so many samples on the meta device: to see what a network makes of them."""
        kind = torch.int64 if self.dtype is torch.int64 else torch.float32
        return torch.empty(number, *self.shape, dtype=kind, device="meta")

    def generator(self, *names: object) -> torch.Generator:
        """A random stream of the server's own, named."""
        from pflbench.rng import stream

        return stream(self.seed, "server", *names)


def _filled(skeleton: Any, values: Params, prefix: str = "") -> Any:
    """A copy of a module with these parameters and buffers; it shares nothing with it that can be changed.

    What `deepcopy` and `load_state_dict` do, several times as fast: every client of every round needs networks.
    """
    own = {key: v.copy() if isinstance(v, dict) else v for key, v in skeleton.__dict__.items()}
    own["_parameters"] = {
        name: None if p is None else nn.Parameter(values[prefix + name])
        for name, p in skeleton._parameters.items()
    }
    own["_buffers"] = {
        name: None if b is None else values[prefix + name] for name, b in skeleton._buffers.items()
    }
    own["_modules"] = {
        name: _filled(m, values, f"{prefix}{name}.") for name, m in skeleton._modules.items()
    }
    module = object.__new__(type(skeleton))
    module.__dict__.update(own)  # not by attribute: `nn.Module` looks at every one that is set
    return module
