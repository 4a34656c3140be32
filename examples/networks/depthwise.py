"""A network of your own: depthwise separable convolutions with residual connections, for images.

`pflbench check networks/depthwise.py` tests it, and `pflbench run fedrep --model
networks/depthwise.py --rounds 20 --set lr=0.03` trains it.
"""

import math

from torch import Tensor, nn

SHAPES = [(3, 32, 32), (1, 8, 8)]  # what `pflbench check` tries; sides must be multiples of 4
CHANNELS = 32
BLOCKS = 2


class Block(nn.Module):
    """x + pointwise(depthwise(x)): 9 C + C^2 weights for C channels, not 9 C^2."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.norm = nn.GroupNorm(4, CHANNELS)  # unlike batch norm, without running statistics
        self.pointwise = nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        update: Tensor = self.pointwise(self.norm(self.depthwise(x)).relu())
        return x + update


def build(shape: tuple[int, ...], classes: int, width: int) -> tuple[nn.Module, nn.Module]:
    """The body, from samples to representations of `width` entries, and the head, to logits.

    Methods that look at single layers read those of an nn.Sequential.
    """
    channels, *sides = shape
    pixels = math.prod(side // 4 for side in sides)  # after the stride and the pooling
    body = nn.Sequential(
        nn.Conv2d(channels, CHANNELS, 3, stride=2, padding=1),
        nn.ReLU(),
        *(Block() for _ in range(BLOCKS)),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(CHANNELS * pixels, width),
        nn.ReLU(),
    )
    head = nn.Linear(width, classes)
    return body, head
