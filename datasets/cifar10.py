"""CIFAR-10 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009): 60,000 colour images, 32 x 32.

The official files are Python pickles; torchvision unpickles them only after their MD5 sums are right.
"""

from pathlib import Path

from pflbench.data import torchvision_files

TITLE = "CIFAR-10"
SAMPLES = 60_000
CLASSES = 10


def read(root: Path, argument: str) -> torchvision_files.Arrays:
    """50,000 training images, then 10,000 test images: x (60000, 3, 32, 32)."""
    return torchvision_files.pooled("CIFAR10", root)


def download(root: Path) -> None:
    torchvision_files.fetch("CIFAR10", root)
