"""Packages that can be called: `pflbench.sweep` and `pflbench.report` hold modules, and are also
what Python calls.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

INTERFACE = "pflbench.interface"


class CallablePackage(ModuleType):
    """A package that stands for the function of its name in `pflbench.interface`, which is imported
    when it is called.
    """

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function; `help` and `inspect.signature` look here."""
        name = self.__name__.rpartition(".")[2]
        function: Callable[..., Any] = getattr(importlib.import_module(INTERFACE), name)
        return function

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self.__wrapped__(*values, **named)


def make_callable(package: str) -> None:
    """Let a package be called from now on."""
    sys.modules[package].__class__ = CallablePackage
