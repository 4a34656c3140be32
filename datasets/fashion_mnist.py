"""Fashion-MNIST (Xiao et al., "Fashion-MNIST: a novel image dataset for benchmarking machine learning", 2017).

The four idx files, plain or as `.gz`, may also be put into `<data root>/FashionMNIST/raw/` by hand.
"""

from pathlib import Path

from pflbench.data import torchvision_files

TITLE = "Fashion-MNIST"
SAMPLES = 70_000
CLASSES = 10


def read(root: Path, argument: str) -> torchvision_files.Arrays:
    """60,000 training images, then 10,000 test images: x (70000, 1, 28, 28)."""
    return torchvision_files.pooled("FashionMNIST", root)


def download(root: Path) -> None:
    torchvision_files.fetch("FashionMNIST", root)
