"""Messages as the network would see them: trees of dicts whose leaves are tensors, and their size
in bytes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Tree = Any
"""A tensor, or a dict of trees."""


class NotATensor(TypeError):
    """A message or state holds something that could not be sent or stored as a tensor."""


def mapped(change: Callable[[Tensor], Any], tree: Tree, path: str = "") -> Tree:
    """The same tree with every tensor changed; refuses leaves that are not tensors."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {
            key: mapped(change, branch, f"{path}.{key}".lstrip(".")) for key, branch in tree.items()
        }
    where = f"'{path}'" if path else "it"
    raise NotATensor(
        f"{where} is a {type(tree).__name__}; messages and states are dicts whose leaves are tensors"
    )


def check(tree: Tree) -> None:
    """Refuse a tree that has a leaf that is not a tensor."""
    mapped(lambda leaf: leaf, tree)


def leaves(tree: Tree) -> Iterator[Tensor]:
    """All tensors of a tree."""
    found: list[Tensor] = []
    mapped(found.append, tree)
    yield from found


def parts(message: Tree) -> dict[str, int]:
    """Bytes of each top-level part of a message."""
    check(message)
    return {
        str(part): sum(t.numel() * t.element_size() for t in leaves(tree))
        for part, tree in message.items()
    }


def finite(tree: Tree) -> bool:
    """Whether every floating-point number of the tree is finite; a finite sum says so in one quick
    pass.
    """
    numbers = [t for t in leaves(tree) if t.is_floating_point()]
    return all(bool(torch.isfinite(t.sum())) or bool(torch.isfinite(t).all()) for t in numbers)


def sent(tree: Tree, device: torch.device | str = "cpu") -> Tree:
    """A copy of the tree on a device: what the other side receives."""
    return mapped(lambda t: t.detach().to(device, copy=True), tree)


def packed(tree: Tree) -> Tree:
    """The tree with tensors as (dtype, shape, raw bytes as a numpy array): small and quick to
    pickle.
    """

    def pack(t: Tensor) -> tuple[torch.dtype, tuple[int, ...], Any]:
        return (
            t.dtype,
            tuple(t.shape),
            t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy(),
        )

    return mapped(pack, tree)


def unpacked(tree: Tree) -> Tree:
    """The inverse of `packed`."""
    if isinstance(tree, dict):
        return {key: unpacked(branch) for key, branch in tree.items()}
    dtype, shape, raw = tree
    return (
        torch.from_numpy(raw).view(dtype).reshape(shape)
        if raw.size
        else torch.empty(shape, dtype=dtype)
    )
