"""Fashion-MNIST (Xiao et al., "Fashion-MNIST: a novel image dataset for benchmarking machine learning", 2017).

The four idx files, plain or as `.gz`, may also be put into `<data root>/FashionMNIST/raw/` by hand.
"""

from pathlib import Path

from pflbench import vision

TITLE = "Fashion-MNIST"
SAMPLES = 70_000
CLASSES = 10


def read(root: Path, argument: str) -> vision.Arrays:
    """60,000 training images, then 10,000 test images: x (70000, 1, 28, 28)."""
    return vision.pooled("FashionMNIST", root)


def download(root: Path) -> None:
    vision.fetch("FashionMNIST", root)
