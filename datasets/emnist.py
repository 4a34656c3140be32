"""EMNIST, split "balanced" (Cohen et al., "EMNIST: extending MNIST to handwritten letters", IJCNN 2017).

Its files hold every image transposed (columns first), so the two image axes are exchanged here.
"""

from pathlib import Path

import numpy as np

from pflbench.data import torchvision_files

TITLE = "EMNIST"
SAMPLES = 131_600
CLASSES = 47


def read(root: Path, argument: str) -> torchvision_files.Arrays:
    """112,800 training images, then 18,800 test images, upright: x (131600, 1, 28, 28)."""
    x, y = torchvision_files.pooled("EMNIST", root, split="balanced")
    return np.ascontiguousarray(x.transpose(0, 1, 3, 2)), y


def download(root: Path) -> None:
    torchvision_files.fetch("EMNIST", root, split="balanced")
