"""What a run is: a frozen description, read from TOML or options, stored as JSON, named by its hash."""

import dataclasses
import hashlib
import json
import math
import re
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pflbench.api import Hparams
from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError, unknown
from pflbench.methods import registry


@dataclass(frozen=True)
class Run:
    """Everything that changes a run's numbers or what is kept of it, and nothing else."""

    algorithm: str
    dataset: str = "digits"
    partition: str = "dir:0.1"
    clients: int = 20
    rounds: int = 200
    seed: int = 0
    participation: float = 1.0
    eval_every: int = 1
    evaluate_clients: int | None = None  # a random sample of so many, fixed by the seed; None: all
    model: str = "cnn"
    width: int = 128
    head_layers: int = 1
    partition_seed: int | None = None  # None: the run's seed
    test_fraction: float = 0.25
    min_samples: int = 10
    samples_per_client: tuple[int, int] | None = None
    overlap: bool = False
    data_fraction: float = 1.0
    scarce_clients: int | None = None
    max_samples: int | None = None
    validation: float = (
        0.0  # of every client's training samples, held out to select a round or a hyperparameter
    )
    representations: int = 0  # test samples of every client whose z is stored after the last round
    hparams: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least_1 = ("clients", "rounds", "eval_every", "evaluate_clients", "width", "min_samples")
        for name, least in {**dict.fromkeys(at_least_1, 1), "representations": 0}.items():
            if (value := getattr(self, name)) is not None and value < least:
                raise UserError(f"{name} = {value}: must be at least {least}")
        if not 0 < self.participation <= 1:
            raise UserError(f"participation = {self.participation}: must be above 0 and at most 1")

    @property
    def cohort_size(self) -> int:
        """|S_t| = max(1, floor(share * N)), safe against rounding; a method may ask for less than the run."""
        share = min(self.participation, self.hparams.get("participation", 1.0))
        return max(1, int(share * self.clients + 1e-9))

    @property
    def id(self) -> str:
        """A readable name ending in a hash of all that changes the numbers; files count by content, not by path."""
        content = {name: _digest(getattr(self, name)) for name in ("dataset", "partition")}
        same = {**as_json(self), **{name: value for name, value in content.items() if value}}
        text = json.dumps(same, sort_keys=True, separators=(",", ":"))
        words = [self.algorithm, _short(self.dataset), _short(self.partition), f"s{self.seed}"]
        return "-".join([*words, hashlib.sha256(text.encode()).hexdigest()[:10]])


def make(algorithm: str, settings: Mapping[str, Any], hparams: Mapping[str, Any]) -> Run:
    """A run of an algorithm (name or plugin path), with hyperparameters checked and completed by the defaults."""
    cls = registry.load(algorithm)
    run = Run(registry.name_of(cls), **checked(settings))
    hp = complete(registry.hparams_type(cls), hparams, run.dataset, cls.title)
    return dataclasses.replace(run, hparams=dataclasses.asdict(hp))


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a run, their names and types checked; a partition from a file says how many clients there are."""
    known = {f.name for f in dataclasses.fields(Run)} - {"algorithm", "hparams"}
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    given = {name: _typed("setting", name, Run, value) for name, value in settings.items()}
    kind, _, path = given.get("partition", "").partition(":")
    if kind == "file" and path and given.get("clients") is None:
        arrays = plain_arrays(path)  # the partition checks the names
        given["clients"] = max(1, sum(name.startswith("train_") for name in arrays))
    return given


def complete(hparams: type[Hparams], given: Mapping[str, Any], dataset: str, title: str) -> Hparams:
    """The hyperparameters of a method: those given, and for the rest the default for this data set."""
    fields = {f.name: f for f in dataclasses.fields(hparams)}
    for name in given:
        if name not in fields:
            raise unknown(f"hyperparameter of {title}", name, fields)
    typed = {name: _typed("hyperparameter", name, hparams, value) for name, value in given.items()}
    for name, value in typed.items():
        _check_allowed(name, value, fields[name].metadata["allowed"])
    defaults = {name: default_for(f, dataset) for name, f in fields.items()}
    return hparams(**{**defaults, **typed})


def _check_allowed(name: str, value: Any, allowed: Any) -> None:
    """Refuse what makes no sense. A range is where to search: a number may lie outside it, but not below any sense."""
    what = f"hyperparameter {name} = {value!r}: must be"
    if isinstance(allowed, list):
        if value not in allowed:
            raise UserError(f"{what} one of {', '.join(map(str, allowed))}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{what} finite")
    elif value is not None and value < (
        least := allowed[0] if isinstance(value, int) else min(allowed[0], 0.0)
    ):
        raise UserError(f"{what} at least {least}")


def default_for(f: "dataclasses.Field[Any]", dataset: str) -> Any:
    """A hyperparameter's default for a data set: that of the longest data set name its (file) name begins with."""
    per_dataset = f.metadata["per_dataset"]
    stem = Path(dataset.partition(":")[2] or dataset).stem
    matching = [name for name in per_dataset if stem.startswith(name)]
    return per_dataset[max(matching, key=len)] if matching else f.default


def from_toml(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings (with `algorithm`, if it is there) and the hyperparameters (`[hparams]`) of a TOML file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # also of text that is not UTF-8
        raise UserError(f"{path} is not TOML: {error}") from error
    hparams = table.pop("hparams", {})
    if not isinstance(hparams, dict):
        raise UserError(f"{path}: hparams must be a table, as in: [hparams]")
    return table, hparams


def as_json(run: Run) -> dict[str, Any]:
    """A run as it is stored: plain values."""
    return dataclasses.asdict(run)


def read(run_json: Mapping[str, Any]) -> Run:
    """The run that a stored configuration describes."""
    values = dict(run_json)
    pair = values.get("samples_per_client")
    return Run(**{**values, "samples_per_client": tuple(pair) if pair else None})


def _typed(kind: str, name: str, owner: type, value: Any) -> Any:
    """The value as the field's type says; text, as it comes from a command line, is parsed."""
    hint = typing.get_type_hints(owner)[name]
    options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    if value is None or (value == "none" and type(None) in options):
        return None
    target = options[0]
    try:
        if typing.get_origin(target) is tuple:
            low, high = (
                int(part)
                for part in (re.split(r"[-:,]", value) if isinstance(value, str) else value)
            )
            return (low, high)
        if target is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                str(value).lower()
            ]
        if target is int and (isinstance(value, bool) or float(value) != int(float(value))):
            raise ValueError
        if target is str and not isinstance(value, str):
            raise ValueError
        return target(float(value)) if target is int else target(value)
    except (ValueError, KeyError, TypeError, OverflowError):
        what = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(
            target, "two numbers, as 80-100"
        )
        raise UserError(f"{kind} {name} = {value!r}: must be {what}") from None


def _short(spec: str) -> str:
    kind, _, argument = spec.partition(":")
    text = f"{kind}-{Path(argument).stem}" if kind in ("npz", "file") else kind + argument
    return re.sub(r"[^A-Za-z0-9.]+", "_", text)


def _digest(spec: str) -> str | None:
    kind, _, argument = spec.partition(":")
    if kind not in ("npz", "file"):
        return None
    path = Path(argument).expanduser()
    try:
        return f"{kind}:{_file_digest(path, path.stat().st_mtime_ns)}"
    except OSError as error:
        raise UserError(f"cannot read {argument!r}: {error.strerror}") from error


@lru_cache
def _file_digest(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
