"""What the functions of a method must return; anything else is an error that says so."""

from collections.abc import Collection
from typing import Any

from torch import Tensor

from pflbench.simulation import messages

TREE = "a dict whose leaves are tensors"


def state(value: Any, function: str) -> Any:
    """A state or a message: a dict whose leaves are tensors."""
    if not isinstance(value, dict):
        raise _wrong(function, value, TREE)
    try:
        messages.check(value)
    except messages.NotATensor as error:
        raise messages.NotATensor(f"{function} returned a dict in which {error}") from None
    return value


def reply_and_state(value: Any, function: str) -> tuple[Any, Any]:
    """What a client function returns: (reply, new private state)."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise _wrong(function, value, "the reply and the new private state: return reply, state")
    for part, what in zip(value, ("reply", "state"), strict=True):
        if not isinstance(part, dict):
            raise _wrong(f"{function}, as its {what},", part, TREE)
    return value


def by_client(value: Any, function: str, ids: Collection[int] = ()) -> dict[int, Any]:
    """A message for each of these clients."""
    if not isinstance(value, dict):
        raise _wrong(function, value, "a message for every client: {id: message for id in ids}")
    if missing := [id for id in ids if id not in value]:
        raise TypeError(f"{function} returned no message for clients {missing}")
    for message in value.values():
        if not isinstance(message, dict):
            raise _wrong(function, message, f"{TREE} for every client")
    return value


def by_series(value: Any) -> dict[str, Any]:
    """Further models by the name of their series."""
    if not isinstance(value, dict):
        raise _wrong("extra_models()", value, "models by name: {'global': model}")
    return value


def scores(value: Any) -> Tensor:
    """What `predict` returns."""
    if not isinstance(value, Tensor):
        raise _wrong("predict()", value, "a tensor of scores (samples, classes)")
    return value


def _wrong(function: str, value: Any, wanted: str) -> TypeError:
    what = "None" if value is None else f"a {type(value).__name__}"
    if isinstance(value, tuple):
        what = f"{len(value)} values"
    return TypeError(f"{function} returned {what}; it must return {wanted}")
