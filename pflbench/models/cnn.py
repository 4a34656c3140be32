"""Small convolutional networks: two convolutions, a hidden layer and the classes."""

import math

from torch import nn

from pflbench.errors import UserError
from pflbench.models.unit import Unit, image_sides

SMALLEST = 16
"""Entries per side of the smallest input that two convolutions and poolings leave something of."""


def cnn(shape: tuple[int, ...], classes: int, width: int) -> list[Unit]:
    """Two 5x5 convolutions (32, 64), each with 2x2 max-pooling; FC to k; FC to the classes.

    Max-pooling comes before ReLU: the values are the same, and a quarter of them remain to be
    rectified.
    """
    channels, *sides = image_sides("cnn", shape, SMALLEST)
    return [
        [("conv1", nn.Conv2d(channels, 32, 5)), ("pool1", nn.MaxPool2d(2)), ("relu1", nn.ReLU())],
        [
            ("conv2", nn.Conv2d(32, 64, 5)),
            ("pool2", nn.MaxPool2d(2)),
            ("relu2", nn.ReLU()),
            ("flat", nn.Flatten()),
        ],
        [("fc1", nn.Linear(64 * _pooled(sides), width)), ("relu3", nn.ReLU())],
        [("fc2", nn.Linear(width, classes))],
    ]


def cnn_bn(shape: tuple[int, ...], classes: int, width: int) -> list[Unit]:
    """`cnn` with batch norm after each convolution."""
    image_sides("cnn_bn", shape, SMALLEST)
    first, second, *rest = cnn(shape, classes, width)
    first.insert(1, ("norm1", nn.BatchNorm2d(32)))
    second.insert(1, ("norm2", nn.BatchNorm2d(64)))
    return [first, second, *rest]


def cnn1d(shape: tuple[int, ...], classes: int, width: int) -> list[Unit]:
    """`cnn` for series: convolutions and poolings along the time."""
    if len(shape) != 2 or shape[1] < SMALLEST:
        fits = "cnn" if len(shape) == 3 else "mlp"
        raise UserError(
            f"model 'cnn1d' needs series (channels, length) of at least {SMALLEST} points,"
            f" not samples of the shape {shape}; use --model {fits}"
        )
    channels, *length = shape
    return [
        [("conv1", nn.Conv1d(channels, 32, 5)), ("pool1", nn.MaxPool1d(2)), ("relu1", nn.ReLU())],
        [
            ("conv2", nn.Conv1d(32, 64, 5)),
            ("pool2", nn.MaxPool1d(2)),
            ("relu2", nn.ReLU()),
            ("flat", nn.Flatten()),
        ],
        [("fc1", nn.Linear(64 * _pooled(length), width)), ("relu3", nn.ReLU())],
        [("fc2", nn.Linear(width, classes))],
    ]


def _pooled(sides: list[int]) -> int:
    """Positions that are left of an input of these sides: (s - 4) // 2, twice, of each."""
    return math.prod(((side - 4) // 2 - 4) // 2 for side in sides)
