"""What is searched when a method is tuned: the ranges and choices that its plugin declares, by one
rule for all.

By default that is `lr`, and of the method's own hyperparameters every float with a range (loss
weights, rates, temperatures) whose default lies inside it: a default at an end of its range stands
for a part that is switched off. Loop counts, sizes, choices and what the plugin declares with
`tune=False` are searched only where they are named.
"""

import dataclasses
import itertools
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pflbench import config
from pflbench.api import OPTIONS, Algorithm, Hparams
from pflbench.errors import UserError, unknown
from pflbench.methods import registry
from pflbench.methods.hyperparameters import complete, default_for

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

RULE = "default"  # the word for what the rule chooses
WIDE = 100.0  # high / low from which on a range is searched on a logarithmic scale
MOST = 100_000  # points of a grid
DIGITS = 3  # significant, of a value: trials differ, and the last bits of a machine do not matter


@dataclass(frozen=True)
class Dimension:
    """A hyperparameter to search: `allowed` are its choices, or the two ends of its range."""

    name: str
    first: Any  # in the first trial
    allowed: tuple[Any, ...]
    kind: Literal["choices", "uniform", "log"]

    @property
    def words(self) -> str:
        """For a table: "0.0001 .. 1.0, log" or "sgd | adam"."""
        if self.kind == "choices":
            return " | ".join(map(str, self.allowed))
        return " .. ".join(map(str, self.allowed)) + (", log" if self.kind == "log" else "")

    def distribution(self) -> "BaseDistribution":
        """The same for Optuna."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.kind == "choices":
            return CategoricalDistribution(self.allowed)
        low, high = self.allowed
        number = IntDistribution if isinstance(low, int) else FloatDistribution
        return number(low, high, log=self.kind == "log")

    def rounded(self, value: Any) -> Any:
        """A suggested value as it is tried: few digits, inside the range."""
        if not isinstance(value, float) or self.kind == "choices":
            return value
        low, high = self.allowed
        return min(max(float(f"{value:.{DIGITS}g}"), low), high)


def dimensions(
    method: type[Algorithm], run: config.Run, asked: Sequence[str]
) -> tuple[Dimension, ...]:
    """The hyperparameters of a run to search: those of the names asked for that the method has and
    that can vary.
    """
    hparams = registry.hparams_type(method)
    fields, hints = {f.name: f for f in dataclasses.fields(hparams)}, typing.get_type_hints(hparams)
    names = [
        name
        for word in asked
        for name in (by_rule(method, run.dataset) if word == RULE else [word])
    ]
    there = [name for name in dict.fromkeys(names) if name in fields]
    found = [_dimension(fields[name], hints[name], _value(run, fields[name])) for name in there]
    varied = tuple(one for one in found if len(set(one.allowed)) > 1)
    if not varied:
        raise UserError(
            f"--tune {','.join(asked)} names nothing to tune for {method.title},"
            f" which has {', '.join(fields)}"
        )
    return varied


def grid(
    method: type[Algorithm], run: config.Run, asked: Mapping[str, Sequence[Any]]
) -> tuple[Dimension, ...]:
    """The hyperparameters of a run to try at the values asked for, of those that the method has."""
    hparams = registry.hparams_type(method)
    fields = {f.name: f for f in dataclasses.fields(hparams)}
    found = []
    for name in (name for name in asked if name in fields):
        tried = [{**run.hparams, name: value} for value in asked[name]]
        checked = [
            getattr(complete(hparams, given, run.dataset, method.title), name) for given in tried
        ]
        found.append(Dimension(name, _value(run, fields[name]), tuple(checked), "choices"))
    if not found:
        raise UserError(
            f"--grid names nothing to tune for {method.title}, which has {', '.join(fields)}"
        )
    return tuple(found)


def _value(run: config.Run, f: "dataclasses.Field[Any]") -> Any:
    """What a run has; an option of training that is off is not stored."""
    return run.hparams.get(f.name, f.default)


def points(dimensions: Sequence[Dimension]) -> list[dict[str, Any]]:
    """The trials of a grid: the first one, and then all points, each once."""
    names = [one.name for one in dimensions]
    number = math.prod(len(one.allowed) for one in dimensions)
    if number > MOST:
        raise UserError(f"--grid has {number} points: must be at most {MOST}")
    every = [
        tuple(one.first for one in dimensions),
        *itertools.product(*(one.allowed for one in dimensions)),
    ]
    return [dict(zip(names, values, strict=True)) for values in dict.fromkeys(every)]


def by_rule(method: type[Algorithm], dataset: str) -> list[str]:
    """The names that are tuned by default; see the top of this file."""
    hparams = registry.hparams_type(method)
    hints = typing.get_type_hints(hparams)
    common = {f.name for f in dataclasses.fields(Hparams) if f.name not in OPTIONS}
    own = [f for f in dataclasses.fields(hparams) if f.name not in common]  # or options that are on
    chosen = [f.name for f in own if hints[f.name] is float and _is_switched_on(f, dataset)]
    return ["lr", *chosen]


def _is_switched_on(f: "dataclasses.Field[Any]", dataset: str) -> bool:
    """Whether a number is to be tuned, and its default lies inside its range."""
    allowed = f.metadata["allowed"]
    if isinstance(allowed, list) or not f.metadata.get("tune", True):
        return False
    low, high = allowed
    return bool(low < default_for(f, dataset) < high)


def check_names(methods: Iterable[type[Algorithm]], asked: Iterable[str], option: str) -> None:
    """Refuse a name that no method has."""
    known = {
        f.name for method in methods for f in dataclasses.fields(registry.hparams_type(method))
    }
    for name in asked:
        if name not in known and name != RULE:
            raise unknown(f"hyperparameter in {option}", name, [*known, RULE])


def _dimension(f: "dataclasses.Field[Any]", hint: Any, first: Any) -> Dimension:
    """A range is stretched to hold the first trial's value. Where it begins at 0 and that value is
    a hundredth of its end or less, values are searched by their sizes, from a hundredth of that
    value on: drawn uniformly, hardly one would be as small.
    """
    allowed = f.metadata["allowed"]
    if isinstance(allowed, list):
        return Dimension(f.name, first, tuple(allowed), "choices")
    if first is None:
        raise UserError(
            f"--tune {f.name}: its default is none; set it to a number in the file first"
        )
    number = float if float in (hint, *typing.get_args(hint)) else int
    low, high = number(min(allowed[0], first)), number(max(allowed[1], first))
    if number is float and low == 0 and 0 < WIDE * first <= high:
        low = first / WIDE
    return Dimension(
        f.name, first, (low, high), "log" if low > 0 and high / low >= WIDE else "uniform"
    )
