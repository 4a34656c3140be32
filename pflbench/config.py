"""What a run is: a frozen description, read from TOML or options, stored as JSON, named by its
hash.
"""

import dataclasses
import hashlib
import json
import re
import tomllib
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pflbench import plugin_file, shapes
from pflbench.errors import UserError, unknown

FILES = ("npz:", "file:")  # beginnings of specs that name a file
WIDEST = 65536  # entries of a representation
AT_LEAST_1 = (
    *("clients", "rounds", "eval_every", "evaluate_clients", "width", "min_samples"),
    "new_client_epochs",
)


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
    body_weights: str | None = None  # file of the body's initial values; None: drawn by the seed
    partition_seed: int | None = None  # None: the run's seed
    test_fraction: float = 0.25
    min_samples: int = 10
    samples_per_client: tuple[int, int] | None = None
    overlap: bool = False
    data_fraction: float = 1.0
    scarce_clients: int | None = None
    max_samples: int | None = None
    standardize: bool = True  # features, by mean and std of the training samples
    # of every client's training samples, held out to select a round or a hyperparameter
    validation: float = 0.0
    representations: int = 0  # test samples of every client whose z is stored after the last round
    dropout_rate: float = 0.0  # chance that a selected client fails after the download
    slow_clients: float = 0.0  # share of the clients, fixed by the seed
    slow_work: float = 0.5  # share of its batches that a slow client does, at least one
    # the last so many clients never take part, and are evaluated by themselves
    new_clients: int = 0
    new_client_epochs: int = 5  # E: they are evaluated after 1 and E passes over their own data
    hparams: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""  # of the method's code, see `pflbench.methods.versions`; "": unknown

    def __post_init__(self) -> None:
        least = {**dict.fromkeys(AT_LEAST_1, 1), "representations": 0, "new_clients": 0}
        for name, low in least.items():
            if (value := getattr(self, name)) is not None and value < low:
                raise UserError(f"{name} = {value}: must be at least {low}")
        if self.new_clients >= self.clients:
            raise UserError(
                f"new_clients = {self.new_clients}: must be below clients = {self.clients}"
            )
        if self.width > WIDEST:
            raise UserError(f"width = {self.width}: must be at most {WIDEST}")
        for name in ("participation", "slow_work"):
            if not 0 < (value := getattr(self, name)) <= 1:
                raise UserError(f"{name} = {value}: must be above 0 and at most 1")
        if not 0 <= self.dropout_rate < 1:
            raise UserError(f"dropout_rate = {self.dropout_rate}: must be at least 0 and below 1")
        if not 0 <= self.slow_clients <= 1:
            raise UserError(f"slow_clients = {self.slow_clients}: must be at least 0 and at most 1")

    @property
    def cohort_size(self) -> int:
        """|S_t| = max(1, floor(share * N)), safe against rounding; a method may ask for less than
        the run.
        """
        share = min(self.participation, self.hparams.get("participation", 1.0))
        return max(1, int(share * self.seen_clients + 1e-9))

    @property
    def seen_clients(self) -> int:
        """Clients that may take part: the first ones, new clients being the last."""
        return self.clients - self.new_clients

    @property
    def new_client_passes(self) -> tuple[int, ...]:
        """After how many passes over their own data new clients are evaluated: 1 and E."""
        return (1,) if self.new_client_epochs == 1 else (1, self.new_client_epochs)

    @property
    def names_files(self) -> bool:
        """Whether files that the user has are a part of what it is."""
        files = self.body_weights is not None or self.model.endswith(".py")
        return files or any(spec.startswith(FILES) for spec in (self.dataset, self.partition))

    @property
    def id(self) -> str:
        """The name of the run's folder: what it is in words, a hash of its configuration, the
        method's version.

        The hash is of all that changes the numbers but the version; files count by content, not by
        path. What is at its default does not count, so that an option that is new leaves the ids of
        older runs as they are.
        """
        content = {name: _digest(getattr(self, name)) for name in ("dataset", "partition")}
        if self.dataset.endswith(".py"):
            loader = user_path(self.dataset)
            content["dataset"] = f"file:{plugin_file.content(loader, 'data set')[:16]}"
        if self.body_weights is not None:
            content["body_weights"] = _digest(f"file:{self.body_weights}")
        if self.model.endswith(".py"):
            content["model"] = _digest(f"file:{self.model}")
        same = {**_beyond_defaults(self), **{name: of for name, of in content.items() if of}}
        text = json.dumps(same, sort_keys=True, separators=(",", ":"))
        words = [self.algorithm, _short(self.dataset), _short(self.partition), f"s{self.seed}"]
        words += [hashlib.sha256(text.encode()).hexdigest()[:10], self.version]
        return "-".join(filter(None, words))


SETTINGS = tuple(
    f.name for f in dataclasses.fields(Run) if f.name not in ("algorithm", "hparams", "version")
)
"""What a user sets of a run, next to its method and hyperparameters."""

_SCALAR = shapes.Leaf("a value", lambda value: isinstance(value, str | int | float | None))
_SHAPES: dict[Any, shapes.Shape] = {
    str: shapes.TEXT,
    bool: shapes.TRUTH,
    int: shapes.Leaf("a whole number", lambda value: type(value) is int),
    float: shapes.NUMBER,
    type(None): shapes.NOTHING,
    tuple[int, int]: shapes.Leaf(
        "two whole numbers",
        lambda value: isinstance(value, list | tuple) and [*map(type, value)] == [int, int],
    ),
    Mapping[str, Any]: shapes.Each((_SCALAR, [_SCALAR])),
}


def _options(hint: Any) -> tuple[Any, ...]:
    """The types that a value may have, by its annotation."""
    return typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)


STORED: shapes.Shape = {
    name if name == "algorithm" else f"{name}?": tuple(_SHAPES[part] for part in _options(hint))
    for name, hint in typing.get_type_hints(Run).items()
}
"""What a run is as it is stored: settings that are at their defaults may be missing."""


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a run, their names and types checked."""
    for name in settings:
        if name not in SETTINGS:
            raise unknown("option", name, SETTINGS)
    return {name: typed("option", name, Run, value) for name, value in settings.items()}


def from_toml(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings (with `algorithm`, if it is there) and the hyperparameters (`[hparams]`) of a
    TOML file.
    """
    table = read_toml(path)
    hparams = table.pop("hparams", {})
    if not isinstance(hparams, dict):
        raise UserError(f"{path}: hparams must be a table: [hparams]")
    return table, hparams


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # also of text that is not UTF-8
        raise UserError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise UserError(f"{path} is not TOML: it is nested too deeply") from error


def as_json(run: Run) -> dict[str, Any]:
    """A run as it is stored: plain values."""
    return dataclasses.asdict(run)


def _beyond_defaults(run: Run) -> dict[str, Any]:
    """The stored values of a run, but for its version and settings that are at their defaults; of
    its hyperparameters, options that are off are not stored.
    """
    stored = as_json(run)
    del stored["version"]
    defaults = {field.name: field.default for field in dataclasses.fields(run)}
    given = {name: value for name, value in stored.items() if value != defaults[name]}
    return {**given, "hparams": dict(run.hparams)}


def read_run(stored: Mapping[str, Any]) -> Run:
    """The run that a stored configuration describes; a UserError where it describes none."""
    values = dict(stored)
    if strange := sorted(values.keys() - {f.name for f in dataclasses.fields(Run)}):
        raise UserError(f"config.{strange[0]} is not known")
    if wrong := shapes.wrong(values, STORED, "config"):
        raise UserError(wrong)
    pair = values.get("samples_per_client")
    return Run(**{**values, "samples_per_client": tuple(pair) if pair else None})


def typed(kind: str, name: str, owner: type, value: Any) -> Any:
    """A value as the field's type says; text, as it comes from a command line, is parsed."""
    hint = _hints(owner)[name]
    options = _options(hint)
    if value is None or (value == "none" and type(None) in options):
        return None
    target = options[0]
    parse, what = PARSERS.get(target, (_pair, "two numbers, as 80-100"))
    try:
        return parse(value)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise UserError(f"{kind} {name} = {value!r}: must be {what}") from None


@lru_cache
def _hints(owner: type) -> dict[str, Any]:
    return typing.get_type_hints(owner)


def _truth(value: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    return words[str(value).lower()]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or float(value) != int(float(value)):
        raise ValueError
    return int(float(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _pair(value: Any) -> tuple[int, int]:
    low, high = re.split(r"[-:,]", value) if isinstance(value, str) else value
    return int(low), int(high)


PARSERS: dict[type, tuple[Callable[[Any], Any], str]] = {
    bool: (_truth, "true or false"),
    int: (_whole, "a whole number"),
    float: (float, "a number"),
    str: (_text, "a text"),
}
"""How a value of a type is read, and what it must be."""


def user_path(text: str) -> Path:
    """A path as the user wrote it; ~ is a home."""
    try:
        if "\0" in text:
            raise RuntimeError("it has a null character")
        return Path(text).expanduser()
    except RuntimeError as error:  # of a user that is not known
        raise UserError(f"cannot read {text}: {error}") from error


def _short(spec: str) -> str:
    kind, _, argument = spec.partition(":")
    if spec.endswith(".py"):
        kind, argument = "", Path(spec).stem
    text = f"{kind}-{Path(argument).stem}" if kind in ("npz", "file") else kind + argument
    return re.sub(r"[^A-Za-z0-9.]+", "_", text)


def _digest(spec: str) -> str | None:
    kind, _, argument = spec.partition(":")
    if kind not in ("npz", "file"):
        return None
    path = user_path(argument)
    try:
        return f"{kind}:{_file_digest(path, path.stat().st_mtime_ns)}"
    except OSError as error:
        raise UserError(f"cannot read {argument!r}: {error.strerror}") from error


@lru_cache
def _file_digest(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
