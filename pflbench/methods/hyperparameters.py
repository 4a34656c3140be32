"""A run from what a user gives: hyperparameters checked, completed by the defaults of the
method.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pflbench.api import OPTIONS, Algorithm, Hparams
from pflbench.config import Run, checked, typed
from pflbench.data import datasets, natural
from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError, unknown
from pflbench.hparams import SWITCHES
from pflbench.methods import registry

BELOW_1 = ("dropout",)  # a share that leaves something


def make_run(
    method: str | type[Algorithm],
    settings: Mapping[str, Any],
    hparams: Mapping[str, Any],
    name: str | None = None,
    data_root: Path | None = None,
) -> Run:
    """A run of a method (its name, the path of its file, or its class), under another name than
    its own if one is given. `data_root` is where the data are, if they must be asked how many
    clients there are.
    """
    cls = registry.load(method) if isinstance(method, str) else method
    run = Run(name or registry.name_of(cls), **_with_clients(checked(settings), data_root))
    complete_hparams = complete(registry.hparams_type(cls), hparams, run.dataset, cls.title)
    version = registry.version_of(cls)
    return dataclasses.replace(run, hparams=stored(complete_hparams), version=version)


def stored(hparams: Hparams) -> dict[str, Any]:
    """Hyperparameters as a run has them: without options of training that are off, so that runs are
    the same ones, whatever options there are.
    """
    values = dataclasses.asdict(hparams)
    return {name: value for name, value in values.items() if not _is_off(hparams, name)}


def _is_off(hparams: Hparams, name: str) -> bool:
    """Whether an option, or the one that it belongs to, is as by default in all methods and in this
    one.
    """
    switch = SWITCHES.get(name, name)
    if switch not in OPTIONS:
        return False
    usual, own = (cls.__dataclass_fields__[switch].default for cls in (Hparams, type(hparams)))
    return bool(getattr(hparams, switch) == usual == own)


def complete(hparams: type[Hparams], given: Mapping[str, Any], dataset: str, title: str) -> Hparams:
    """The hyperparameters of a method: those given, and for the rest the default for this data
    set.
    """
    fields = {f.name: f for f in dataclasses.fields(hparams)}
    for name in given:
        if name not in fields:
            raise unknown(f"hyperparameter of {title}", name, fields)
    values = defaults(hparams, dataset)
    for name, text in given.items():
        values[name] = typed("hyperparameter", name, hparams, text)
        _check_allowed(fields[name], values[name], title)
    made = hparams(**values)
    check_options(made)
    return made


def check_options(hp: Hparams) -> None:
    """Refuse options of training that would do nothing, or cannot be done."""
    if hp.local_momentum and hp.optimizer != "sgd":
        raise UserError(
            f"local_momentum = {hp.local_momentum}: is of optimizer = sgd, not {hp.optimizer}"
        )
    if hp.local_momentum >= 1:
        raise UserError(f"local_momentum = {hp.local_momentum}: must be below 1")
    if hp.schedule != "constant" and hp.schedule_rounds < 1:
        raise UserError(
            f"schedule = {hp.schedule}: set schedule_rounds too, its own horizon (at least 1)"
        )
    if hp.schedule_factor <= 0:
        raise UserError(f"schedule_factor = {hp.schedule_factor}: must be above 0")
    idle = {
        "schedule_rounds": hp.schedule == "constant",
        "schedule_factor": hp.schedule == "constant",
        "crop_padding": "crop" not in hp.augment,
    }
    for name, useless in idle.items():
        if useless and getattr(hp, name) != Hparams.__dataclass_fields__[name].default:
            other = "augment" if name == "crop_padding" else "schedule"
            raise UserError(
                f"{name} = {getattr(hp, name)}: does nothing with {other} = {getattr(hp, other)}"
            )


def defaults(hparams: type[Hparams], dataset: str) -> dict[str, Any]:
    """The default of every hyperparameter for a data set."""
    return {f.name: default_for(f, dataset) for f in dataclasses.fields(hparams)}


def default_for(f: "dataclasses.Field[Any]", dataset: str) -> Any:
    """A hyperparameter's default for a data set: that of the longest data set name its (file) name
    begins with.
    """
    per_dataset = f.metadata["per_dataset"]
    stem = Path(dataset.partition(":")[2] or dataset).stem
    matching = [name for name in per_dataset if stem.startswith(name)]
    return per_dataset[max(matching, key=len)] if matching else f.default


def _with_clients(settings: dict[str, Any], data_root: Path | None) -> dict[str, Any]:
    """Settings in which a partition from a file, or a natural one, says how many clients there are,
    unless the user does.
    """
    kind, _, path = settings.get("partition", "").partition(":")
    if settings.get("clients") is not None:
        return settings
    if kind == "file" and path:
        arrays = plain_arrays(path)  # the partition checks their names
        return {**settings, "clients": max(1, sum(name.startswith("train_") for name in arrays))}
    if kind == "natural":
        owner = datasets.load(settings.get("dataset", Run.dataset), data_root).client
        least = settings.get("min_samples", Run.min_samples)
        return {**settings, "clients": natural.number(owner, least)}
    return settings


def _check_allowed(f: "dataclasses.Field[Any]", value: Any, title: str) -> None:
    """Refuse a value that makes no sense.

    A range is where to search: a number may lie above it, and a float below it down to 0.
    """
    name, allowed = f.name, f.metadata["allowed"]
    what = f"hyperparameter {name} = {value!r}: must be"
    if isinstance(allowed, list):
        if value not in allowed and len(allowed) == 1:
            raise UserError(f"{what} {allowed[0]} in {title} ({f.metadata['meaning']})")
        if value not in allowed:
            raise UserError(f"{what} one of {', '.join(map(str, allowed))}")
        return
    if value is None:
        return
    if not math.isfinite(value):
        raise UserError(f"{what} finite")
    least = allowed[0] if isinstance(value, int) else min(allowed[0], 0.0)
    if value < least:
        raise UserError(f"{what} at least {least}")
    if name in BELOW_1 and value >= 1:
        raise UserError(f"{what} below 1")
