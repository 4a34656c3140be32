"""Anyone's arrays: `npz:PATH`, an archive of numpy with samples `x` and labels `y`.

The type of x says what the samples are. uint8: images, N x H x W, N x H x W x C or N x C x H x W with C in 1..4 (a last
axis of 1..4 is taken as the channels, and only otherwise the second). float32: features of any shape. int64: rows of
tokens, N x L. y holds integers 0..C-1 or names; `client`, if it is there, says whose a sample is. docs/own-data.md has
all of it. The file is read without pickle, so it cannot run code.
"""

import hashlib
from pathlib import Path

from pflbench.config import user_path
from pflbench.data.arrays import Arrays, gaps, tidy
from pflbench.data.npz import plain_arrays
from pflbench.data.prepared import Data
from pflbench.errors import UserError

TITLE = "npz"
FORMAT = 2  # of what is prepared from a file: with owners and names


def title(argument: str) -> str:
    return Path(argument).name


def fingerprint(argument: str) -> str:
    """The hash of the file's content: a changed file is another data set."""
    if not argument:
        raise UserError("data set 'npz' needs a file: npz:PATH")
    try:
        with user_path(argument).open("rb") as file:
            return f"{FORMAT} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise UserError(f"cannot read {argument}: {error.strerror}") from error


def read(root: Path, argument: str) -> Arrays:
    return tidy(plain_arrays(argument), argument)


def remark(argument: str, data: Data) -> str | None:
    """What labels with gaps lead to; None if there are none."""
    return None if data.class_names else gaps(argument, data.y, data.classes)
