"""A method that is handed over as a class, as from a cell of a notebook, and not found in a file.

It stands wherever the name or the path of a method does: as a text that has the class with it. In
records there is the text alone, with a hash of the class's code as its version, and the source in
`run.json`; nothing that reads them executes it. Another process gets the class pickled by value.
"""

import ast
import hashlib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import cloudpickle

from pflbench.api import Algorithm
from pflbench.methods import versions

_versions: "WeakKeyDictionary[type[Algorithm], str]" = WeakKeyDictionary()
"""Of all classes that were handed over."""
_sources: "WeakKeyDictionary[type[Algorithm], str]" = WeakKeyDictionary()
"""Of classes that came from another process, which has their source."""
CONSTANTS = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))


class Given(str):
    """What `registry.load` takes: "class NAME VERSION", and the class."""

    method: type[Algorithm]

    def __new__(cls, method: type[Algorithm]) -> "Given":
        if method not in _versions:
            listed = versions.read_revisions()
            _versions[method] = versions.digest([str(listed["harness"]), *_code(method)])
        made = super().__new__(cls, f"class {name_of(method)} {_versions[method]}")
        made.method = method
        return made

    def __reduce__(self) -> Any:
        told = (_versions[self.method], source_of(self.method))
        return _received, (cloudpickle.dumps(self.method), *told)


def _received(pickled: bytes, version: str, source: str) -> Given:
    """In another process, which the class was sent to: it cannot look up the class's code."""
    method = cloudpickle.loads(pickled)
    _versions[method], _sources[method] = version, source
    return Given(method)


def name_of(method: type[Algorithm]) -> str:
    """What the method is called: as its class, in small letters."""
    return method.__name__.lower()


def version_of(method: type[Algorithm]) -> str:
    """A hash of the class's code and of what it uses from where it was written; "" of a class that
    was not handed over.
    """
    return _versions.get(method, "")


def source_of(method: type[Algorithm]) -> str:
    """The source of a class; "" where nobody has kept it."""
    if method in _sources:
        return _sources[method]
    for function in _functions(method):
        filename = function.__code__.co_filename
        text = "".join(linecache.getlines(filename, function.__globals__))
        line = function.__code__.co_firstlineno
        for node in ast.walk(_parsed(text)):
            if not isinstance(node, ast.ClassDef) or node.name != method.__name__:
                continue
            if node.lineno <= line <= (node.end_lineno or 0):
                return textwrap.dedent(ast.get_source_segment(text, node, padded=True) or "")
    return ""


def _code(method: type[Algorithm]) -> list[str]:
    """The code of a class and of the functions, classes and constants of its module that it
    names, each once.
    """
    module = vars(sys.modules.get(method.__module__, sys))
    found: dict[str, str] = {}
    waiting: list[Any] = [method]
    while waiting:
        one = waiting.pop()
        if one.__qualname__ in found:
            continue
        found[one.__qualname__] = _text(one)
        for name in sorted(_names(one)):
            value = module.get(name)
            if isinstance(value, CONSTANTS) and name in module:
                found[name] = repr(value)
            elif getattr(value, "__module__", None) == method.__module__ and isinstance(
                value, (type, FunctionType)
            ):
                waiting.append(value)
    return [f"{name}: {found[name]}" for name in sorted(found)]


def _text(one: Any) -> str:
    """The code of a class or function without comments and docstrings; of one whose source is not
    kept, what it was compiled to.
    """
    if isinstance(one, FunctionType):
        try:
            return versions.code_text(textwrap.dedent(inspect.getsource(one)))
        except (OSError, SyntaxError):
            return _compiled(one.__code__)
    if source := source_of(one):
        return versions.code_text(source)
    plain = {name: value for name, value in vars(one).items() if isinstance(value, CONSTANTS)}
    own = [_compiled(function.__code__) for function in _functions(one)]
    hidden = ("__doc__", "__module__", "__firstlineno__")
    return repr([sorted(item for item in plain.items() if item[0] not in hidden), own])


def _compiled(code: CodeType) -> str:
    inner = [_compiled(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    content = repr((code.co_code, code.co_names, code.co_varnames, inner))
    return hashlib.sha256(content.encode()).hexdigest()


def _functions(one: type) -> Iterator[FunctionType]:
    """The functions that a class defines, also as properties, static or class methods."""
    for value in vars(one).values():
        inner = getattr(value, "fget", getattr(value, "__func__", value))
        function = inspect.unwrap(inner) if callable(inner) else inner
        if isinstance(function, FunctionType) and function.__module__ == one.__module__:
            yield function


def _names(one: Any) -> set[str]:
    """The names that the code of a class or function uses, and those of its base classes."""
    functions = [one] if isinstance(one, FunctionType) else list(_functions(one))
    found = {name for function in functions for name in _names_in(function.__code__)}
    if isinstance(one, type):
        found |= {base.__name__ for base in one.__mro__[1:]}
        found |= {getattr(kind, "__name__", "") for kind in inspect.get_annotations(one).values()}
    return found


def _names_in(code: CodeType) -> set[str]:
    inner = [_names_in(one) for one in code.co_consts if isinstance(one, CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*inner)


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except SyntaxError:  # of a cell with commands of the notebook
        return ast.Module([], [])
