"""Whether two things are the same, bit for bit, and if not, where they differ."""

import random
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

Flat = dict[str, Hashable]
"""The content of a thing: path -> value; equal contents are equal bit for bit."""


def flat(thing: Any, path: str = "") -> Flat:
    """The content of a tree, or of any object by its attributes; tensors, arrays and generators by
    their bytes.
    """
    return dict(_walk(thing, path, set()))


def changed(before: Flat, after: Flat) -> str | None:
    """The first path at which two contents differ."""
    if before == after:
        return None
    return next(
        path for path in [*after, *before] if path not in before or before[path] != after.get(path)
    )


def global_generators() -> Flat:
    """The state of every global random generator."""
    state = np.random.get_state(legacy=False)
    assert isinstance(state, dict)
    numpy_state = (
        state["state"]["key"].tobytes(),
        state["state"]["pos"],
        state["has_gauss"],
        state["gauss"],
    )
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": numpy_state,
        "random": random.getstate(),
    }


def difference(first: Any, second: Any, path: str = "") -> str | None:
    """Where and by how much two trees (dicts, lists, tensors, numbers) differ, in words; None if
    not at all.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys():
            return f"{path or 'it'} has the keys {_keys(first)} in one and {_keys(second)} in the other"
        found = (difference(first[key], second[key], _join(path, key)) for key in first)
        return next(filter(None, found), None)
    if (
        isinstance(first, list | tuple)
        and isinstance(second, list | tuple)
        and len(first) == len(second)
    ):
        found = (
            difference(a, b, f"{path}[{place}]")
            for place, (a, b) in enumerate(zip(first, second, strict=True))
        )
        return next(filter(None, found), None)
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _tensor_difference(first, second, path)
    both_nan = first != first and second != second
    return (
        None
        if first == second or both_nan
        else f"{path or 'it'} is {first!r} in one and {second!r} in the other"
    )


def shared_storage(parties: Mapping[str, Any]) -> str | None:
    """The first two tensors of different parties that lie in the same memory, in words."""
    owners: dict[int, tuple[str, str]] = {}
    for party, tree in parties.items():
        mine: dict[int, str] = {}
        for path, tensor in tensors(tree):
            if tensor.numel():
                mine.setdefault(tensor.untyped_storage().data_ptr(), path)
        for pointer, path in mine.items():
            if pointer in owners:
                other, place = owners[pointer]
                return f"'{path}' of {party} and '{place}' of {other} are the same memory"
            owners[pointer] = (party, path)
    return None


def tensors(tree: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors of a tree of dicts, with their paths."""
    if isinstance(tree, Tensor):
        yield path, tree
    elif isinstance(tree, dict):
        for key, branch in tree.items():
            yield from tensors(branch, _join(path, key))


def _walk(thing: Any, path: str, above: set[int]) -> Iterator[tuple[str, Hashable]]:
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        yield path, repr(thing)
    elif isinstance(thing, Tensor):
        yield path, _bytes(thing)
    elif isinstance(thing, np.ndarray):
        yield path, (str(thing.dtype), thing.shape, thing.tobytes())
    elif isinstance(thing, torch.Generator):
        yield path, thing.get_state().numpy().tobytes()
    elif isinstance(thing, np.random.Generator):
        yield path, repr(thing.bit_generator.state)
    elif isinstance(thing, random.Random):
        yield path, thing.getstate()
    elif isinstance(thing, type | ModuleType | FunctionType | BuiltinFunctionType | MethodType):
        yield path, id(thing)
    elif id(thing) in above:
        yield path, "a cycle"
    else:
        yield from _branches(thing, path, above | {id(thing)})


def _branches(thing: Any, path: str, above: set[int]) -> Iterator[tuple[str, Hashable]]:
    if isinstance(thing, Mapping):
        branches = [(_join(path, key), branch) for key, branch in thing.items()]
    elif isinstance(thing, list | tuple | deque):
        branches = [(f"{path}[{place}]", branch) for place, branch in enumerate(thing)]
    elif hasattr(thing, "__dict__"):
        branches = [(_join(path, name), branch) for name, branch in vars(thing).items()]
    else:
        branches = []
    yield (
        path,
        (type(thing).__name__, len(branches)) if branches else (type(thing).__name__, repr(thing)),
    )
    for place, branch in branches:
        yield from _walk(branch, place, above)


def _bytes(tensor: Tensor) -> Hashable:
    kind = (str(tensor.dtype), tuple(tensor.shape))
    if tensor.is_meta:
        return kind
    return *kind, tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _tensor_difference(first: Tensor, second: Tensor, path: str) -> str | None:
    if _bytes(first) == _bytes(second):
        return None
    kinds = [f"{str(t.dtype).removeprefix('torch.')} {tuple(t.shape)}" for t in (first, second)]
    if kinds[0] != kinds[1]:
        return f"{path} is {kinds[0]} in one and {kinds[1]} in the other"
    gap = (first.double() - second.double()).abs()
    return f"{path} differs by up to {float(gap.max()):.2g}, in {int((gap != 0).sum())} of {gap.numel()} numbers"


def _keys(tree: dict[Any, Any]) -> str:
    return ", ".join(map(str, tree)) or "(none)"


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
