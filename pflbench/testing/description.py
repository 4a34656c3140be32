"""Checks of what a plugin says about itself."""

import dataclasses
import re
import sys
import typing
from typing import Any

from pflbench.methods import costs, registry
from pflbench.testing.kit import CHECKS, Failed, check
from pflbench.testing.subject import Subject

PARTS = ("Down:", "Up:", "Private:", "Evaluated:", "Deviations:")


@check
def docstring_has_its_parts(subject: Subject) -> None:
    """The file's docstring cites the paper and has its parts; title, family and point are right."""
    cls = subject.cls
    for name in ("title", "family"):
        if not getattr(cls, name, None):
            raise Failed(f"{cls.__name__}.{name} is not set; reports need it")
    text = sys.modules[cls.__module__].__doc__ or ""
    citation = text.strip().partition("\n\n")[0]
    if not citation.startswith(cls.title):
        raise Failed(
            f"the docstring must begin with {cls.title!r} and the citation: '{cls.title} (authors, venue year)'"
        )
    if costs.by_default(cls) != ("0", "0") and not re.search(r"\b(19|20)\d\d\b", citation):
        raise Failed("the first paragraph of the docstring names no year; cite the paper there")
    places = [text.find(part) for part in PARTS]
    missing = [part for part, place in zip(PARTS, places, strict=True) if place < 0]
    if missing or places != sorted(places):
        problem = f"lacks {', '.join(missing)}" if missing else "has its parts in another order"
        raise Failed(f"the docstring {problem}; it needs, in this order: {' '.join(PARTS)}")
    _evaluation_point(subject, text[places[3] : places[4]])
    strangers = [name for name in cls.exceptions if name.replace("_", "-") not in CHECKS]
    if strangers:
        raise Failed(
            f"exceptions names {strangers[0]!r}, which is not a check; checks: {', '.join(CHECKS)}"
        )


def _evaluation_point(subject: Subject, text: str) -> None:
    """A method evaluated at `post` has a trained model, and the docstring says the same point."""
    point = subject.cls.evaluation_point
    if point not in ("pre", "post"):
        raise Failed(f"evaluation_point = {point!r}; it must be 'pre' or 'post'")
    said = [name for name in ("pre", "post") if f"({name})" in text]
    if said and said != [point]:
        raise Failed(
            f"the docstring says Evaluated: ({said[0]}) but the class says evaluation_point = {point!r}"
        )
    try:
        last = subject.reference.records[-1]
    except Exception:  # a run that fails is for other checks
        return
    if point not in last["accuracy"]:
        raise Failed(
            "evaluation_point = 'post', but trained_model() returns no model; return the one to evaluate"
        )


@check
def hyperparameters_have_ranges(subject: Subject) -> None:
    """Every hyperparameter is made by hparam(), has a meaning, and its defaults lie within its
    range.
    """
    hparams = registry.hparams_type(subject.cls)
    hints = typing.get_type_hints(hparams)
    for f in dataclasses.fields(hparams):
        if not {"allowed", "meaning", "per_dataset"} <= f.metadata.keys():
            raise Failed(
                f"hyperparameter {f.name} is not made by hparam(default, (low, high) or [choices], 'meaning')"
            )
        if not str(f.metadata["meaning"]).strip():
            raise Failed(f"hyperparameter {f.name} has no meaning; say in a few words what it is")
        defaults = {
            "default": f.default,
            **{f"default for {d}": v for d, v in f.metadata["per_dataset"].items()},
        }
        for which, value in defaults.items():
            problem = _misfit(value, f.metadata["allowed"], hints[f.name])
            if problem:
                raise Failed(f"hyperparameter {f.name}: its {which}, {value!r}, {problem}")


def _misfit(value: Any, allowed: Any, kind: Any) -> str | None:
    """What is wrong with a default, if anything."""
    kinds = typing.get_args(kind) or (kind,)
    if not isinstance(value, (*kinds, int) if float in kinds else kinds) or (
        isinstance(value, bool) > (bool in kinds)
    ):
        return f"is not of its type, {getattr(kind, '__name__', kind)}"
    if isinstance(allowed, list):
        return None if value in allowed else f"is not among its choices {allowed}"
    if not (isinstance(allowed, tuple) and len(allowed) == 2 and allowed[0] < allowed[1]):
        return f"has no range: {allowed!r} is neither (low, high) nor a list of choices"
    return (
        None
        if value is None or allowed[0] <= value <= allowed[1]
        else f"is outside its range {allowed}"
    )
