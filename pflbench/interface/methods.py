"""What a caller may hand over as a method: a name, a path, a class, or an object of one."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pflbench.api import Algorithm
from pflbench.errors import UserError
from pflbench.methods import files, registry
from pflbench.methods.given import Given

Method = str | Path | type[Algorithm] | Algorithm
"""A method's name, the path of its file, its class, or an object of that class, whose
hyperparameters then hold.
"""


def plugin_of(method: Method) -> str:
    """What `registry.load` takes. The class of a file that has no other method is that file."""
    if isinstance(method, (str, Path)):
        return str(method)
    cls = method if isinstance(method, type) else type(method)
    if not issubclass(cls, Algorithm):
        raise UserError(
            f"method {method!r}: must be a name, a path, or a subclass of pflbench.api.Algorithm"
        )
    shipped = files.shipped().get(registry.name_of(cls))
    if cls.__module__ == f"pflbench.algorithms.{registry.name_of(cls)}" and shipped is not None:
        return registry.name_of(cls)
    if cls.__module__.startswith("pflbench_plugins."):
        return str(registry.file_of(cls))
    return Given(registry.checked(cls, f"class {cls.__name__}"))


def hparams_of(method: Method, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The hyperparameters that are given, and otherwise those of an object."""
    own = dataclasses.asdict(method.hp) if isinstance(method, Algorithm) else {}
    return {**own, **(given or {})}
