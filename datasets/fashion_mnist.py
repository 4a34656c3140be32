"""Fashion-MNIST (Xiao et al., "Fashion-MNIST: a novel image dataset for benchmarking machine learning", 2017).

`pflbench data import fashion_mnist FOLDER` takes the four idx files, plain or as `.gz`, from a folder, as
Debian's package `dataset-fashion-mnist` has them in `/usr/share/datasets/fashion-mnist`. They may also be put into
`<data root>/FashionMNIST/raw/` by hand.
"""

from pathlib import Path

from pflbench.data import torchvision_files

TITLE = "Fashion-MNIST"
SAMPLES = 70_000
CLASSES = 10
DIGEST = "7bb0d9e6c4555945"
IMPORT = "a folder of its four idx files, plain or as .gz"


def read(root: Path, argument: str) -> torchvision_files.Arrays:
    """60,000 training images, then 10,000 test images: x (70000, 1, 28, 28)."""
    return torchvision_files.pooled("FashionMNIST", root)


def download(root: Path) -> None:
    torchvision_files.fetch("FashionMNIST", root)


def convert(files: Path) -> torchvision_files.Arrays:
    """The arrays of `read`, from a folder of idx files."""
    return torchvision_files.pooled_from(files, "FashionMNIST")
