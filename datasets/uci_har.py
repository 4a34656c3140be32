"""UCI HAR (Anguita et al., "A public domain dataset for human activity recognition using smartphones", ESANN 2013).

30 volunteers did six activities with a smartphone at the waist. A sample is a window of 2.56 s: nine signals (body
acceleration, angular velocity and total acceleration along three axes) at 128 points in time. The volunteers are the
clients of `--partition natural`. DOI 10.24432/C54S4K.

The publisher prints no sum of the archive; those below are what several projects that use it report. Beyond them, the
numbers of windows, activities and volunteers, and the shape of every signal, are compared with the paper's.
`pflbench data import uci_har PATH` takes the archive, the archive "UCI HAR Dataset.zip" inside it, or the unpacked
folder of that name, which has no sum.
"""

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from pflbench.data import downloads
from pflbench.data.arrays import Arrays
from pflbench.errors import UserError

TITLE = "UCI HAR"
SAMPLES = 10_299
CLASSES = 6
CLIENTS = 30
IMPORT = "the archive, the archive inside it, or the unpacked folder 'UCI HAR Dataset'"
BALANCED = False

URL = (
    "https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip"
)
SHA256 = "c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031"
INNER_SHA256 = "2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0"
FILE = "uci_har/human+activity+recognition+using+smartphones.zip"

FOLDER = "UCI HAR Dataset"
INNER = f"{FOLDER}.zip"
PARTS = ("train", "test")
SIGNALS = [f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]
LENGTH = 128
ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
UNREADABLE = (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error)

Open = Callable[[str], IO[bytes]]
"""A file of the folder, by its path in it."""


def read(root: Path, argument: str) -> Arrays:
    """x (10299, 9, 128) float32, the windows of the official training part first."""
    return _read(downloads.there(root / FILE, SHA256))


def download(root: Path) -> None:
    downloads.fetch(URL, root / FILE, SHA256)


def convert(files: Path) -> Arrays:
    """The same from the archive, the archive inside it, or the unpacked folder."""
    if not files.is_dir():
        downloads.verify(files, TITLE, SHA256, INNER_SHA256)
    return _read(files)


def _read(files: Path) -> Arrays:
    try:
        if files.is_dir():
            inner = files / FOLDER if (files / FOLDER).is_dir() else files
            return _arrays(lambda path: (inner / path).open("rb"))
        with zipfile.ZipFile(files) as outer:
            if INNER not in outer.namelist():
                return _arrays(lambda path: outer.open(f"{FOLDER}/{path}"))
            with zipfile.ZipFile(io.BytesIO(outer.read(INNER))) as inside:
                return _arrays(lambda path: inside.open(f"{FOLDER}/{path}"))
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{files} is not UCI HAR as it is published: {reason}") from error


def _arrays(opened: Open) -> Arrays:
    labels = np.concatenate([_numbers(opened, f"{part}/y_{part}.txt") for part in PARTS])
    users = np.concatenate([_numbers(opened, f"{part}/subject_{part}.txt") for part in PARTS])
    x = np.concatenate([_windows(opened, part) for part in PARTS])
    if not len(x) == len(labels) == len(users):
        raise ValueError(f"{len(x)} windows, {len(labels)} labels and {len(users)} subjects")
    if labels.min() < 1 or labels.max() > CLASSES:
        raise ValueError(f"a label is not one of 1..{CLASSES}")
    known, client = np.unique(users.astype(np.int64), return_inverse=True)
    names = tuple(map(str, known))
    return Arrays(x, labels.astype(np.int64) - 1, client.astype(np.int64), ACTIVITIES, names)


def _windows(opened: Open, part: str) -> npt.NDArray[np.float32]:
    """The nine signals of a part: (n, 9, 128)."""
    signals = [_numbers(opened, f"{part}/Inertial Signals/{name}_{part}.txt") for name in SIGNALS]
    for name, values in zip(SIGNALS, signals, strict=True):
        if values.ndim != 2 or values.shape[1] != LENGTH:
            raise ValueError(f"{name}_{part}.txt has the shape {values.shape}, not N x {LENGTH}")
    return np.stack(signals, axis=1).astype(np.float32)


def _numbers(opened: Open, path: str) -> npt.NDArray[np.float64]:
    """The numbers of a text file, a row for every line; of one column: (n,)."""
    with opened(path) as file:
        lines = file.read().decode("ascii").split("\n")
    rows = [line.split() for line in lines if line.strip()]
    found = np.array(rows, dtype=np.float64)
    return found[:, 0] if found.shape[1] == 1 else found
