"""CIFAR-100 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009), with its 100 fine labels.

The official files are Python pickles; torchvision unpickles them only after their MD5 sums are right.
"""

from pathlib import Path

from pflbench import vision

TITLE = "CIFAR-100"
SAMPLES = 60_000
CLASSES = 100


def read(root: Path, argument: str) -> vision.Arrays:
    """50,000 training images, then 10,000 test images: x (60000, 3, 32, 32)."""
    return vision.pooled("CIFAR100", root)


def download(root: Path) -> None:
    vision.fetch("CIFAR100", root)
