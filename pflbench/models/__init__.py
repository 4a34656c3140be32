"""Networks with a `.body` (phi) and a `.head` (pi).

A network is a list of units, each with parameters; the last `head_layers` of them are the head. One
of a file of its own has two parts from the start.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pflbench.api import Net, Params
from pflbench.errors import UserError, unknown
from pflbench.models import network_file, norms
from pflbench.models.body_weights import load_body
from pflbench.models.cnn import cnn, cnn1d, cnn_bn
from pflbench.models.mlp import mlp
from pflbench.models.resnet8 import resnet8
from pflbench.models.resnet18 import resnet18
from pflbench.models.text import text
from pflbench.models.unit import Unit
from pflbench.rng import seed_of

__all__ = ["MODELS", "build", "load_body"]

MODELS: dict[str, Callable[..., list[Unit]]] = {
    "cnn": cnn,
    "cnn_bn": cnn_bn,
    "cnn1d": cnn1d,
    "mlp": mlp,
    "resnet8": resnet8,
    "resnet18": resnet18,
    "text": text,
}


def build(
    name: str,
    shape: tuple[int, ...],
    classes: int,
    *,
    width: int = 128,
    head_layers: int = 1,
    seed: int = 0,
    draw: int = 0,
    vocabulary: int | None = None,
) -> tuple[Net, Params, int]:
    """The skeleton of a network (on the meta device), its initial parameters, and the size of a
    representation.

    The initial values depend on the seed and the draw alone, not on where body and head are split.
    `vocabulary` is the number of different tokens in samples that are made of tokens.
    """
    own = name.endswith(".py")
    if not own and name not in MODELS:
        raise unknown("model", name, [*MODELS, "FILE.py"])
    function = network_file.load(name) if own else MODELS[name]
    # On the CPU: the first operation on the meta device imports for two seconds.
    samples = torch.zeros(2, *shape, dtype=torch.float32 if vocabulary is None else torch.int64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "initial model", *filter(None, [draw])))

        def make() -> Any:
            return _made(name, function, shape, classes, width, vocabulary)

        net = (
            network_file.net_of(name, make, head_layers) if own else _cut(name, make(), head_layers)
        )
        norms.prepare(name, net)
        if own:
            network_file.check_state(name, net)
        initial = net.parameters_now()
        if own:
            network_file.check_pass(name, net, samples, classes)
    with torch.no_grad():
        representation = net.eval().body(samples[:1]).flatten(1)
    return net.to("meta"), initial, representation.shape[1]


def _cut(name: str, units: list[Unit], head_layers: int) -> Net:
    """The network of these units, the last `head_layers` being the head."""
    if not 0 <= head_layers <= len(units):
        raise UserError(
            f"head_layers = {head_layers}: model {name!r} has {len(units)} layers, "
            f"so 0 to {len(units)}"
        )
    cut = len(units) - head_layers
    return Net(_chain(units[:cut]), _chain(units[cut:]))


def _made(
    name: str,
    function: Callable[..., Any],
    shape: tuple[int, ...],
    classes: int,
    width: int,
    vocabulary: int | None,
) -> Any:
    """What a function makes a network from. The vocabulary is passed to a function that takes it."""
    parameter = inspect.signature(function).parameters.get("vocabulary")
    if parameter is None:
        if vocabulary is not None and name in MODELS:
            raise UserError(f"model {name!r} cannot read tokens; use --model text")
        return function(shape, classes, width)
    if vocabulary is None and parameter.default is parameter.empty:
        fits = {3: "cnn", 2: "cnn1d"}.get(len(shape), "mlp")
        raise UserError(
            f"model {name!r} needs tokens, but the samples are numbers of shape {shape};"
            f" use --model {fits}"
        )
    return function(shape, classes, width, vocabulary=vocabulary)


def _chain(units: list[Unit]) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layer for unit in units for layer in unit))
