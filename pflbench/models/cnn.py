"""A small convolutional network: two convolutions, a hidden layer and the classes."""

import math

from torch import nn

from pflbench.errors import UserError
from pflbench.models.unit import Unit

SMALLEST = 16
"""Pixels per side of the smallest image that two convolutions and poolings leave something of."""


def cnn(shape: tuple[int, int, int], classes: int, width: int) -> list[Unit]:
    """Two 5x5 convolutions (32, 64), each with 2x2 max-pooling; FC to k; FC to the classes.

    Max-pooling comes before ReLU: the values are the same, and a quarter of them remain to be
    rectified.
    """
    channels, *sides = shape
    if min(sides) < SMALLEST:
        raise UserError(
            f"model 'cnn' needs images of at least {SMALLEST}x{SMALLEST}, "
            f"not {sides[0]}x{sides[1]}; use --model mlp"
        )
    flat = 64 * math.prod(((side - 4) // 2 - 4) // 2 for side in sides)
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
