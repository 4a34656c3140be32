"""A problem worked out by hand: client i minimises (theta - b_i)^2 / 2, b 0 and 2, in every parameter."""

from typing import Any

import torch
from torch import Tensor

from pflbench.api import Net, Params
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY, split_by_class, toy


def loss(net: Net, x: Tensor, y: Tensor) -> Tensor:
    """F_i; the client is known by the class of its samples."""
    b = 2.0 * y[0]
    return torch.stack([(p - b).square().sum() / 2 for p in net.parameters()]).sum()


def two_clients(plugin: str, hparams: dict[str, Any], samples: int = 4) -> Federation:
    """The first client has samples of class 0 only, the second as many of class 1."""
    split = split_by_class(TOY["dataset"], [[0] * samples, [1] * samples], [[0], [1]])
    return toy(plugin, hparams, split)


def constant(theta: Params, value: float) -> Params:
    """Parameters that all have this value."""
    return {name: torch.full_like(p, value) for name, p in theta.items()}


def only(theta: Params) -> float:
    """The value that all parameters have."""
    values = torch.cat([p.flatten() for p in theta.values()])
    torch.testing.assert_close(values, values[:1].expand_as(values))
    return float(values[0])
