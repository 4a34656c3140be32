"""Networks in Python files of a user's own: `build(shape, classes, width) -> (body, head)`."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from pflbench import plugin_file
from pflbench.api import Net
from pflbench.config import user_path
from pflbench.errors import UserError, hint


def load(path: str, *, anew: bool = False) -> Callable[..., Any]:
    """The function `build` of a file, which is executed once per process unless it has changed."""
    file = user_path(path)
    if not file.is_file():
        raise UserError(f"no network file {path!r}{hint(file.stem, [], plugin_file.near(file))}")
    function: Any = getattr(plugin_file.execute(file, kind="network", anew=anew), "build", None)
    if not callable(function):
        raise UserError(f"network {path} must define build(shape, classes, width) -> (body, head)")
    found: Callable[..., Any] = function
    return found


def net_of(path: str, make: Callable[[], Any], head_layers: int) -> Net:
    """The network of the two parts that are made."""
    if head_layers != 1:
        raise UserError(
            f"head_layers = {head_layers}: network {path} defines its own head;"
            " leave head_layers at 1"
        )
    try:
        made = make()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"network {path}: build() failed: {_said(error)}") from error
    if not isinstance(made, tuple) or [isinstance(part, nn.Module) for part in made] != [True] * 2:
        raise UserError(
            f"network {path}: build() must return two modules, (body, head),"
            f" not {type(made).__name__}"
        )
    return Net(*made)


def check_state(path: str, net: Net) -> None:
    """Refuse what cannot be sent, averaged or copied: every tensor is float32, has one name, and is
    in the state dict.
    """
    owners: dict[int, str] = {}
    stored = net.state_dict().keys()
    for name, p in chain(
        net.named_parameters(remove_duplicate=False), net.named_buffers(remove_duplicate=False)
    ):
        if p.dtype is not torch.float32:
            kind = str(p.dtype).removeprefix("torch.")
            raise UserError(f"network {path}: {name} is {kind}; all of the state must be float32")
        if id(p) in owners:
            raise UserError(f"network {path}: {owners[id(p)]} and {name} are the same tensor")
        if name not in stored:
            raise UserError(f"network {path}: buffer {name} must be persistent")
        owners[id(p)] = name


def check_pass(path: str, net: Net, x: Tensor, classes: int) -> None:
    """Refuse a network that does not take these samples in training, or draws random numbers."""
    before = torch.get_rng_state()
    shape = tuple(x.shape[1:])
    try:
        with torch.no_grad():
            z = net.train().body(x)
            logits = net.head(z)
    except Exception as error:
        raise UserError(
            f"network {path} fails for samples of shape {shape}: {_said(error)}"
        ) from error
    if z.dim() != 2:
        raise UserError(
            f"network {path}: body gives {tuple(z.shape)} for {len(x)} samples, not (samples, k);"
            " end it with nn.Flatten()"
        )
    if logits.shape != (len(x), classes):
        raise UserError(
            f"network {path}: head gives {tuple(logits.shape)} for {len(x)} samples, not"
            f" (samples, classes) = {(len(x), classes)}"
        )
    if not torch.equal(before, torch.get_rng_state()):
        raise UserError(
            f"network {path} draws from the global random generator in training; dropout is a"
            " hyperparameter of the methods: --set dropout=0.5"
        )


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
