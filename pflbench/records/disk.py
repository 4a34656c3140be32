"""What is on the disk, and not only on its way to it: it stays there when the power fails."""

import contextlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def folder_to_disk(folder: Path) -> None:
    """See that the names of a folder's files are on the disk, where the system can do that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (OSError, AttributeError):
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_to_disk(paths: Iterable[Path]) -> None:
    """See that files are on the disk, not only on their way to it; many at once, which it can do
    together.
    """

    def one(path: Path) -> None:
        if path.exists():
            with path.open("r+b") as file:
                os.fsync(file.fileno())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, paths))
