"""Reading .npz archives that users hand in: plain arrays only, without pickle, so that a file
cannot run code.
"""

import zipfile
import zlib

import numpy as np
import numpy.typing as npt

from pflbench.config import user_path
from pflbench.errors import UserError


def plain_arrays(path: str) -> dict[str, npt.NDArray[np.generic]]:
    """All arrays of the archive by name."""
    try:
        with user_path(path).open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise UserError(
                    f"{path} is not an .npz archive but a single array; write it with numpy.savez"
                )
            arrays = dict(archive)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (
        ValueError,
        EOFError,
        KeyError,
        RuntimeError,  # of what is encrypted
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} is not a readable .npz archive of plain arrays: {reason}"
        ) from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise UserError(f"{path} is not an .npz archive of arrays: {name} is not an array")
    return arrays
