"""ResNet-18."""

from torch import nn

from pflbench.data.torchvision_files import torchvision
from pflbench.models.unit import Unit, image_sides


def resnet18(shape: tuple[int, ...], classes: int, width: int) -> list[Unit]:
    """torchvision's ResNet-18 with GroupNorm (no running statistics to average); k is 512.

    Images under 64 pixels get a 3x3 first convolution and no first pooling, so that something is
    left to pool.
    """
    channels, *sides = image_sides("resnet18", shape)
    net = torchvision().models.resnet18(norm_layer=_group_norm, num_classes=classes)
    if min(sides) < 64:
        conv = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        pooling: Unit = []
    else:
        conv = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        pooling = [("pool1", net.maxpool)]
    return [
        [("conv1", conv), ("norm1", net.bn1), ("relu1", nn.ReLU()), *pooling],
        [("layer1", net.layer1)],
        [("layer2", net.layer2)],
        [("layer3", net.layer3)],
        [("layer4", net.layer4), ("pool2", net.avgpool), ("flat", nn.Flatten())],
        [("fc", net.fc)],
    ]


def _group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(2, channels)
