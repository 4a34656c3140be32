"""A small residual network with batch norm."""

from torch import Tensor, nn
from torch.nn.functional import relu

from pflbench.models.unit import Unit, image_sides

SMALLEST = 4
"""Pixels per side of the smallest image of which two halvings leave something."""


class Block(nn.Module):
    """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), both convolutions 3x3."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()  # the identity
        if stride > 1 or channels != out:
            self.shortcut.append(nn.Conv2d(channels, out, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        hidden = relu(self.norm1(self.conv1(x)))
        return relu(self.norm2(self.conv2(hidden)) + self.shortcut(x))


def resnet8(shape: tuple[int, ...], classes: int, width: int) -> list[Unit]:
    """ResNet-8 with batch norm: a 3x3 convolution, a block each of 16, 32 and 64 channels, the
    spatial mean, FC to the classes; k is 64.
    """
    channels, *_ = image_sides("resnet8", shape, SMALLEST)
    conv = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
    return [
        [("conv1", conv), ("norm1", nn.BatchNorm2d(16)), ("relu1", nn.ReLU())],
        [("block1", Block(16, 16, 1))],
        [("block2", Block(16, 32, 2))],
        [("block3", Block(32, 64, 2)), ("pool", nn.AdaptiveAvgPool2d(1)), ("flat", nn.Flatten())],
        [("fc", nn.Linear(64, classes))],
    ]
