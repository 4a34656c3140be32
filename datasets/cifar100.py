"""CIFAR-100 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009), with its 100 fine labels.

The official files are Python pickles; torchvision unpickles them only after their MD5 sums are right.
"""

from pathlib import Path

from pflbench.data import torchvision_files

TITLE = "CIFAR-100"
SAMPLES = 60_000
CLASSES = 100


def read(root: Path, argument: str) -> torchvision_files.Arrays:
    """50,000 training images, then 10,000 test images: x (60000, 3, 32, 32)."""
    return torchvision_files.pooled("CIFAR100", root)


def download(root: Path) -> None:
    torchvision_files.fetch("CIFAR100", root)
