"""The shape of data that come from a file: which types values have, however deep they lie.

A shape is a `Leaf`; a dict of names to shapes, where a name that ends with "?" may be missing and
further names are allowed; `Each`, a table in which all values have one shape; a list of one shape,
which all entries have; or a tuple of shapes, one of which fits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LARGEST = 2**53  # whole numbers up to here are the same as floats

Shape = Any


@dataclass(frozen=True)
class Leaf:
    """Values that have nothing inside, or whose inside is looked at in one pass."""

    words: str  # what such a value is, for messages
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class Each:
    """A table with any names in which all values have one shape."""

    shape: Shape


def _is_whole(value: Any) -> bool:
    return type(value) is int and -LARGEST <= value <= LARGEST


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (type(value) is float and math.isfinite(value))


def _are_of(*types: type) -> Callable[[Any], bool]:
    """Whether a value is a list of such entries: in one pass, for a report reads millions."""
    allowed = set(types)
    return lambda value: type(value) is list and set(map(type, value)) <= allowed


TEXT = Leaf("a text", lambda value: type(value) is str)
TRUTH = Leaf("true or false", lambda value: type(value) is bool)
NOTHING = Leaf("null", lambda value: value is None)
WHOLE = Leaf("a whole number", _is_whole)
COUNT = Leaf("a whole number from 0 on", lambda value: _is_whole(value) and value >= 0)
SOME = Leaf("a whole number from 1 on", lambda value: _is_whole(value) and value >= 1)
NUMBER = Leaf("a number", _is_number)
NUMBERS = Leaf("a list of numbers or null", _are_of(int, float, type(None)))
WHOLES = Leaf("a list of whole numbers", _are_of(int))
TEXTS = Leaf("a list of texts", _are_of(str))
ANYTHING = Leaf("anything", lambda value: True)


def wrong(value: Any, shape: Shape, name: str = "it") -> str:
    """What is wrong with a value, in words: "config.rounds must be a whole number"; "" if it has
    the shape.
    """
    if isinstance(shape, Leaf):
        return "" if shape.fits(value) else f"{name} must be {shape.words}"
    if isinstance(shape, tuple):
        return _wrong_choice(value, shape, name)
    if isinstance(shape, list):
        if type(value) is not list:
            return f"{name} must be a list"
        parts = ((part, shape[0], f"{name}[{place}]") for place, part in enumerate(value))
        return next(filter(None, (wrong(*part) for part in parts)), "")
    if type(value) is not dict:
        return f"{name} must be a table"
    within = "" if name == "it" else f"{name}."
    return _wrong_table(value, shape, within)


def _wrong_choice(value: Any, shapes: tuple[Shape, ...], name: str) -> str:
    """The first shape is the usual one: what it misses is told."""
    found = [wrong(value, shape, name) for shape in shapes]
    return "" if "" in found else found[0]


def _wrong_table(table: dict[str, Any], shape: Shape, within: str) -> str:
    if isinstance(shape, Each):
        for name, part in table.items():
            if found := wrong(part, shape.shape, f"{within}{name}"):
                return found
        return ""
    for name, part in shape.items():
        known = name.removesuffix("?")
        if known in table:
            if found := wrong(table[known], part, f"{within}{known}"):
                return found
        elif known == name:
            return f"{within}{name} is missing"
    return ""


def checker(shape: Shape) -> Callable[[Any], str]:
    """The same as `wrong` of this shape for many values: several times as quick for those that have
    it.
    """
    fits = _fitting(shape)
    return lambda value: "" if fits(value) else wrong(value, shape)


def _fitting(shape: Shape) -> Callable[[Any], bool]:
    """Whether a value has a shape, as a function that does not look at the shape again."""
    if isinstance(shape, Leaf):
        return shape.fits
    if isinstance(shape, tuple):
        first, *others = map(_fitting, shape)
        return lambda value: first(value) or any(other(value) for other in others)
    if isinstance(shape, list):
        entry = _fitting(shape[0])
        return lambda value: type(value) is list and all(map(entry, value))
    if isinstance(shape, Each):
        part = _fitting(shape.shape)
        return lambda value: type(value) is dict and all(map(part, value.values()))
    return _fitting_table(shape)


def _fitting_table(shape: dict[str, Shape]) -> Callable[[Any], bool]:
    parts = {name.removesuffix("?"): _fitting(part) for name, part in shape.items()}
    required = {name for name in shape if not name.endswith("?")}

    def fits(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys():
            return False
        return all(parts[name](part) for name, part in value.items() if name in parts)

    return fits
