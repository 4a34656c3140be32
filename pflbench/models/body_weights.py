"""Initial values of a network's body from a file, for instance of a network trained elsewhere.

Names are those of the body's state dict, with or without `body.` in front: `conv1.weight`. What a
file has of a head (`head.*`) is left out. Reading a file never executes it.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pflbench.api import Params
from pflbench.config import user_path
from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError

NPZ = (".npz",)
TORCH = (".pt", ".pth")


def load_body(path: str, initial: Params) -> Params:
    """The parameters of the body in a file; `initial` says which there must be, and their shapes."""
    wanted = {name: p for name, p in initial.items() if name.startswith("body.")}
    found = {_full_name(name): values for name, values in _tensors(path).items()}
    found = {name: values for name, values in found.items() if not name.startswith("head.")}
    missing = sorted(wanted.keys() - found.keys())
    extra = sorted(found.keys() - wanted.keys())
    if missing or extra:
        raise UserError(
            f"body weights {path} do not fit the network's body: "
            f"missing {_listed(missing)}; not in the network: {_listed(extra)}"
        )
    return {name: _fitting(path, name, found[name], p) for name, p in wanted.items()}


def _full_name(name: str) -> str:
    return name if name.startswith(("body.", "head.")) else f"body.{name}"


def _fitting(path: str, name: str, values: Tensor, like: Tensor) -> Tensor:
    """The values as a parameter of the network; refused if shape or kind of number differ."""
    if values.shape != like.shape:
        raise UserError(
            f"body weights {path}: {name} has the shape {tuple(values.shape)}, "
            f"the network's has {tuple(like.shape)}"
        )
    if values.is_floating_point() != like.is_floating_point():
        raise UserError(f"body weights {path}: {name} has {values.dtype}, not {like.dtype}")
    if not values.isfinite().all():
        raise UserError(f"body weights {path}: {name} has values that are not finite")
    return values.to(like.dtype).clone(memory_format=torch.contiguous_format)


def _tensors(path: str) -> dict[str, Tensor]:
    """All tensors of a file by name."""
    suffix = Path(path).suffix.lower()
    if suffix in NPZ:
        return _from_npz(path)
    if suffix in TORCH:
        return _from_torch(path)
    known = ", ".join([*NPZ, *TORCH])
    raise UserError(f"body weights {path}: the name must end in one of {known}")


def _from_npz(path: str) -> dict[str, Tensor]:
    tensors = {}
    for name, array in plain_arrays(path).items():
        try:
            tensors[name] = torch.from_numpy(array)
        except TypeError:
            raise UserError(f"body weights {path}: {name} has {array.dtype}, not numbers") from None
    return tensors


def _from_torch(path: str) -> dict[str, Tensor]:
    try:
        loaded: Any = torch.load(user_path(path), map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path} is not a torch file of plain tensors: {reason}") from error
    if not isinstance(loaded, Mapping) or not all(
        isinstance(name, str) and isinstance(values, Tensor) for name, values in loaded.items()
    ):
        raise UserError(f"{path} is not a state dict: it must hold tensors by name")
    return dict(loaded)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:4]) or "nothing"
    more = len(names) - 4
    return f"{shown} and {more} more" if more > 0 else shown
