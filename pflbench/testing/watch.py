"""Watch a method at work: every call of its functions is compared before and after, and what is
wrong is kept.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from pflbench.api import Algorithm, Client
from pflbench.rng import stream
from pflbench.simulation.client_worker import Setup
from pflbench.testing.compare import Flat, changed, flat, global_generators, tensors

SERVER_FUNCTIONS = (
    *("init_server", "download", "aggregate", "round", "evaluation_messages"),
    "adaptation_messages",
)
CLIENT_FUNCTIONS = (
    "init_client",
    "client_update",
    "personal_model",
    "trained_model",
    "extra_models",
    "adapted_model",
    "predict",
)
MESSAGES = ("init_server", "init_client", "aggregate", "round")  # return one tree of tensors
BY_CLIENT = ("download", "evaluation_messages", "adaptation_messages")  # a tree for each client
MODELS = ("personal_model", "trained_model", "extra_models", "adapted_model")  # what predict takes

SELF, ARGUMENT, GENERATOR, LEAF = (
    "state on self",
    "argument changed",
    "global generator",
    "not a tensor",
)


@dataclass
class Violations:
    """What was seen: by kind, in the order in which it happened, so the innermost call comes first."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, text: str) -> None:
        """Add a violation, once."""
        texts = self.found.setdefault(kind, [])
        if text not in texts:
            texts.append(text)


@dataclass(frozen=True)
class Watched(Setup):
    """A setup whose methods are watched. `stages` are client functions of the method's own."""

    stages: tuple[str, ...] = ()
    violations: Violations = field(default_factory=Violations)

    def algorithm(self) -> Algorithm:
        before = global_generators()
        method = super().algorithm()
        _check_generators(self.violations, "__init__()", before)
        names = dict.fromkeys([*SERVER_FUNCTIONS, *CLIENT_FUNCTIONS, *self.stages])
        return _wrapped(
            method, {name: functools.partial(_observed, self.violations) for name in names}
        )


@dataclass(frozen=True)
class Shuffled(Setup):
    """A setup whose methods are given client ids in ever new orders."""

    calls: list[int] = field(default_factory=list)

    def algorithm(self) -> Algorithm:
        return _wrapped(
            super().algorithm(),
            dict.fromkeys(("download", "round", "evaluation_messages"), self._shuffled),
        )

    def _shuffled(
        self, function: Callable[..., Any], method: Algorithm, server: Any, argument: Any
    ) -> Any:
        self.calls.append(0)
        if isinstance(argument, tuple):
            return function(method, server, self._order(argument))
        ids, argument.ids = argument.ids, self._order(argument.ids)
        try:
            return function(method, server, argument)
        finally:
            argument.ids = ids

    def _order(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Another order than the ascending one, where there is one."""
        places = torch.randperm(len(ids), generator=stream("shuffled", len(self.calls))).tolist()
        order = tuple(ids[place] for place in places)
        return order if order != tuple(sorted(ids)) else order[::-1]


def watched(setup: Setup, stages: tuple[str, ...]) -> Watched:
    """The same setup, watched."""
    return Watched(**_fields(setup), stages=stages)


def shuffled(setup: Setup) -> Shuffled:
    """The same setup, with client ids in ever new orders."""
    return Shuffled(**_fields(setup))


def _fields(setup: Setup) -> dict[str, Any]:
    return {f.name: getattr(setup, f.name) for f in fields(setup)}


Around = Callable[..., Any]
"""around(function, method, *arguments): calls a function of a method, and does something before and
after.
"""


def _wrapped(method: Algorithm, around: dict[str, Around]) -> Algorithm:
    """The method with some of its functions wrapped, those that it calls itself too."""

    def wrap(function: Callable[..., Any], outside: Around) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(self: Algorithm, *arguments: Any, **named: Any) -> Any:
            given = inspect.signature(function).bind(self, *arguments, **named).args[1:]
            return outside(function, self, *given)

        return wrapper

    cls = type(method)
    functions = {name: wrap(getattr(cls, name), outside) for name, outside in around.items()}
    method.__class__ = type(cls.__name__, (cls,), {**functions, "__module__": cls.__module__})
    return method


def _observed(
    violations: Violations, function: Callable[..., Any], method: Algorithm, *arguments: Any
) -> Any:
    name, where = function.__name__, _where(arguments)
    labels = list(inspect.signature(function).parameters)[1:]
    contents = [_content(argument) for argument in arguments]
    owned, generators = _owned(method), global_generators()
    result = function(method, *arguments)
    if path := changed(owned, _owned(method)):
        violations.add(SELF, f"{name}() changed {path}{where}")
    for label, argument, before in zip(labels, arguments, contents, strict=False):
        path = changed(before, _content(argument))
        if path is not None:
            place = f", at '{path}'" if path else ""
            violations.add(
                ARGUMENT, f"{name}() changed its argument {label} in place{place}{where}"
            )
    _check_generators(violations, f"{name}(){where}", generators)
    for text in _misfits(name, result, arguments):
        violations.add(LEAF, f"{text}{where}")
    return result


def _check_generators(violations: Violations, where: str, before: Flat) -> None:
    if generator := changed(before, global_generators()):
        violations.add(GENERATOR, f"{where} drew from the global generator of {generator}")


def _content(argument: Any) -> Flat:
    """What a function must not change of its argument."""
    if isinstance(argument, Client):
        return flat({"state": argument.state, "y": argument.y})
    return {} if hasattr(argument, "call") else flat(argument)  # a cohort is there to be called


def _owned(method: Algorithm) -> Flat:
    """All places where a method could remember something: on itself, on its classes, in its module."""
    content = flat(vars(method), "self")
    for cls in type(method).__mro__[1:]:
        if cls is Algorithm:
            break
        plain = {name: value for name, value in vars(cls).items() if _remembers(name, value)}
        content.update(flat(plain, cls.__name__))
        functions = [
            inspect.unwrap(value) for value in vars(cls).values() if inspect.isfunction(value)
        ]
        module = functions[0].__globals__ if functions else {}
        plain = {name: value for name, value in module.items() if _remembers(name, value)}
        content.update(flat(plain, f"module {cls.__module__.rpartition('.')[2]}"))
    return content


def _remembers(name: str, value: Any) -> bool:
    descriptors = (property, staticmethod, classmethod, functools.cached_property)
    return not (
        name.startswith("__") or inspect.isroutine(value) or isinstance(value, (type, *descriptors))
    )


def _misfits(name: str, result: Any, arguments: tuple[Any, ...]) -> Iterator[str]:
    """What is wrong with the form of a result."""
    if name in MESSAGES:
        yield from _bad_leaves(f"the state that {name}() returns", result)
        if name in ("aggregate", "round") and (path := _needs_gradient(result)):
            yield f"the state that {name}() returns carries a gradient graph at '{path}': detach() it"
    elif name in BY_CLIENT:
        ids = arguments[1] if isinstance(arguments[1], tuple) else arguments[1].ids
        if not isinstance(result, dict) or set(result) != set(ids):
            got = sorted(result) if isinstance(result, dict) else f"a {type(result).__name__}"
            yield f"{name}() was asked for clients {sorted(ids)} and returned {got}; return a dict of these ids"
        else:
            for id, message in result.items():
                yield from _bad_leaves(f"the message of {name}() to client {id}", message)
    elif arguments and isinstance(arguments[0], Client) and name not in MODELS:
        if not (isinstance(result, tuple) and len(result) == 2):
            yield f"{name}() returned a {type(result).__name__}; return two dicts: (reply, new private state)"
        else:
            yield from _bad_leaves(f"the reply of {name}()", result[0])
            yield from _bad_leaves(f"the private state of {name}()", result[1])


def _bad_leaves(what: str, tree: Any, path: str = "") -> Iterator[str]:
    if isinstance(tree, dict):
        for key, branch in tree.items():
            yield from _bad_leaves(what, branch, f"{path}.{key}" if path else str(key))
    elif not isinstance(tree, Tensor) or not path:
        place = (
            f"has a {type(tree).__name__} at '{path}'"
            if path
            else f"is a {type(tree).__name__}, not a dict"
        )
        yield f"{what} {place}; wrap numbers as torch.tensor(...), and lists as dicts"


def _needs_gradient(tree: Any) -> str | None:
    return next((path for path, tensor in tensors(tree) if tensor.requires_grad), None)


def _where(arguments: tuple[Any, ...]) -> str:
    client = next((argument for argument in arguments if isinstance(argument, Client)), None)
    return "" if client is None else f" (client {client.id}, round {client.round + 1})"
