"""A multilayer perceptron."""

import math

from torch import nn

from pflbench.models.unit import Unit


def mlp(shape: tuple[int, ...], classes: int, width: int) -> list[Unit]:
    """One hidden layer of k units."""
    return [
        [("flat", nn.Flatten()), ("fc1", nn.Linear(math.prod(shape), width)), ("relu1", nn.ReLU())],
        [("fc2", nn.Linear(width, classes))],
    ]
