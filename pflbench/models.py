"""Networks with a `.body` (phi) and a `.head` (pi).

A network is a row of units, each with parameters; the last `head_layers` of them are the head. Max-pooling stands
before ReLU: the values are the same and a quarter of them remain to be rectified.
"""

import math
from collections import OrderedDict

import torch
from torch import nn

from pflbench.api import Net, Params
from pflbench.errors import UserError, unknown
from pflbench.rng import seed_of

Unit = list[tuple[str, nn.Module]]


def cnn(shape: tuple[int, int, int], classes: int, width: int) -> list[Unit]:
    """The paper's CNN: two 5x5 convolutions (32, 64), each with 2x2 max-pooling; FC to k; FC to the classes."""
    channels, *sides = shape
    flat = 64 * math.prod(((side - 4) // 2 - 4) // 2 for side in sides)
    if min(sides) < 16:
        raise UserError(
            f"model 'cnn' needs images of at least 16x16, not {sides[0]}x{sides[1]}; use --model mlp"
        )
    return [
        [("conv1", nn.Conv2d(channels, 32, 5)), ("pool1", nn.MaxPool2d(2)), ("relu1", nn.ReLU())],
        [
            ("conv2", nn.Conv2d(32, 64, 5)),
            ("pool2", nn.MaxPool2d(2)),
            ("relu2", nn.ReLU()),
            ("flat", nn.Flatten()),
        ],
        [("fc1", nn.Linear(flat, width)), ("relu3", nn.ReLU())],
        [("fc2", nn.Linear(width, classes))],
    ]


def mlp(shape: tuple[int, int, int], classes: int, width: int) -> list[Unit]:
    """One hidden layer of k units."""
    return [
        [("flat", nn.Flatten()), ("fc1", nn.Linear(math.prod(shape), width)), ("relu1", nn.ReLU())],
        [("fc2", nn.Linear(width, classes))],
    ]


def resnet18(shape: tuple[int, int, int], classes: int, width: int) -> list[Unit]:
    """torchvision's ResNet-18 with GroupNorm (no running statistics to average); k is its own, 512.

    Images under 64 pixels get a 3x3 first convolution and no first pooling, so that something is left to pool.
    """
    from pflbench.data.torchvision_files import torchvision

    net = torchvision().models.resnet18(
        norm_layer=lambda c: nn.GroupNorm(2, c), num_classes=classes
    )
    small = min(shape[1:]) < 64
    conv = (
        nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False)
        if small
        else nn.Conv2d(shape[0], 64, 7, 2, 3, bias=False)
    )
    stem: Unit = [("conv1", conv), ("norm1", net.bn1), ("relu1", nn.ReLU())]
    if not small:
        stem.append(("pool1", net.maxpool))
    return [
        stem,
        [("layer1", net.layer1)],
        [("layer2", net.layer2)],
        [("layer3", net.layer3)],
        [("layer4", net.layer4), ("pool2", net.avgpool), ("flat", nn.Flatten())],
        [("fc", net.fc)],
    ]


MODELS = {"cnn": cnn, "mlp": mlp, "resnet18": resnet18}


def build(
    name: str,
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: int = 128,
    head_layers: int = 1,
    seed: int = 0,
) -> tuple[Net, Params, int]:
    """The skeleton of a network (on the meta device), its initial parameters, and the size of a representation.

    The initial values depend on the seed alone, not on where body and head are split.
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "initial model"))
        units = MODELS[name](shape, classes, width)
    if not 0 <= head_layers <= len(units):
        raise UserError(
            f"head_layers = {head_layers}: model {name!r} has {len(units)} layers, so 0 to {len(units)}"
        )
    cut = len(units) - head_layers
    net = Net(_chain(units[:cut]), _chain(units[cut:]))
    initial = net.parameters_now()
    with (
        torch.no_grad()
    ):  # on the CPU: the first operation on the meta device imports for two seconds
        representation = net.body(torch.zeros(1, *shape)).flatten(1)
    return net.to("meta"), initial, representation.shape[1]


def _chain(units: list[Unit]) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layer for unit in units for layer in unit))
