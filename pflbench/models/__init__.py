"""Networks with a `.body` (phi) and a `.head` (pi).

A network is a list of units, each with parameters; the last `head_layers` of them are the head.
"""

from collections import OrderedDict

import torch
from torch import nn

from pflbench.api import Net, Params
from pflbench.errors import UserError, unknown
from pflbench.models.body_weights import load_body
from pflbench.models.cnn import cnn
from pflbench.models.mlp import mlp
from pflbench.models.resnet18 import resnet18
from pflbench.models.unit import Unit
from pflbench.rng import seed_of

__all__ = ["MODELS", "build", "load_body"]

MODELS = {"cnn": cnn, "mlp": mlp, "resnet18": resnet18}


def build(
    name: str,
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: int = 128,
    head_layers: int = 1,
    seed: int = 0,
    draw: int = 0,
) -> tuple[Net, Params, int]:
    """The skeleton of a network (on the meta device), its initial parameters, and the size of a
    representation.

    The initial values depend on the seed and the draw alone, not on where body and head are split.
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "initial model", *filter(None, [draw])))
        units = MODELS[name](shape, classes, width)
    if not 0 <= head_layers <= len(units):
        raise UserError(
            f"head_layers = {head_layers}: model {name!r} has {len(units)} layers, "
            f"so 0 to {len(units)}"
        )
    cut = len(units) - head_layers
    net = Net(_chain(units[:cut]), _chain(units[cut:]))
    initial = net.parameters_now()
    # On the CPU: the first operation on the meta device imports for two seconds.
    with torch.no_grad():
        representation = net.body(torch.zeros(1, *shape)).flatten(1)
    return net.to("meta"), initial, representation.shape[1]


def _chain(units: list[Unit]) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layer for unit in units for layer in unit))
