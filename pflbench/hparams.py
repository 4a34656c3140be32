"""Hyperparameters: how a method declares them, and those that every method has."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pflbench.errors import UserError


def hparam(
    default: Any,
    allowed: Any,
    meaning: str,
    per_dataset: Mapping[str, Any] | None = None,
    *,
    tune: bool = True,
) -> Any:
    """A hyperparameter: its default, its range `(low, high)` or list of choices, and its meaning, on
    one line.

    `tune=False` keeps it out of the default search of `pflbench tune`.
    """
    metadata = {
        "allowed": allowed,
        "meaning": meaning,
        "per_dataset": dict(per_dataset or {}),
        "tune": tune,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Hparams:
    """The hyperparameters every method has; a method adds its own, or other defaults, in a subclass.

    One that a method cannot honour is declared there with its only value, and the reason in place
    of the meaning: `hparam(0.0, [0.0], "its steps are written out", tune=False)`.
    """

    lr: float = hparam(0.01, (1e-4, 1.0), "eta, learning rate of local training")
    batch_size: int = hparam(
        16, (1, 1024), "b, samples in a batch; the last, shorter batch is kept"
    )
    epochs: int = hparam(1, (0, 50), "r, passes over the local data per round")
    optimizer: str = hparam("sgd", ["sgd", "adam"], "local optimizer")
    keep_optimizer: bool = hparam(
        False, [False, True], "keep the local optimizer's state between rounds", tune=False
    )
    dropout: float = hparam(0.0, (0.0, 0.9), "dropout between body and head in local training")
    participation: float = hparam(
        1.0, (0.05, 1.0), "at most this share of the clients takes part per round"
    )
    # options of training, off by default
    local_momentum: float = hparam(0.0, (0.0, 0.99), "momentum of local SGD", tune=False)
    weight_decay: float = hparam(
        0.0, (0.0, 0.1), "times the parameters, added to local gradients", tune=False
    )
    clip: float = hparam(
        0.0, (0.0, 100.0), "bound of the norm of a local gradient; 0: none", tune=False
    )
    schedule: str = hparam(
        "constant", ["constant", "step", "cosine"], "local rates over the rounds", tune=False
    )
    schedule_rounds: int = hparam(
        0, (0, 1000), "rounds between steps, or until the end of the cosine", tune=False
    )
    schedule_factor: float = hparam(
        0.1, (0.001, 1.0), "of a step, or at the end of the cosine", tune=False
    )
    augment: str = hparam(
        "none", ["none", "flip", "crop", "flip+crop"], "of images in batches", tune=False
    )
    crop_padding: int = hparam(4, (1, 16), "pixels around an image that is cropped", tune=False)

    def rate_factor(self, round: int) -> float:
        """What local rates are multiplied by in a round, from 0: f^(t // T) of the factor f and the
        rounds T of the schedule, or f + (1 - f) (1 + cos(pi min(t, T) / T)) / 2.
        """
        f, T = self.schedule_factor, self.schedule_rounds
        if self.schedule == "step":
            return float(f ** (round // T))
        if self.schedule == "cosine":
            return f + (1 - f) * (1 + math.cos(math.pi * min(round, T) / T)) / 2
        return 1.0


OPTIONS = (
    *("local_momentum", "weight_decay", "clip", "schedule", "schedule_rounds", "schedule_factor"),
    *("augment", "crop_padding"),
)
"""Hyperparameters of all methods that are options of training; by default they do nothing."""
SWITCHES = {"schedule_rounds": "schedule", "schedule_factor": "schedule", "crop_padding": "augment"}
"""Options that say more about another one."""


def refuse_options(hp: Hparams, reason: str, names: Iterable[str] = OPTIONS) -> None:
    """Refuse options of training that are on, by a method that has no place for them as it is."""
    for name in names:
        if (value := getattr(hp, name)) != Hparams.__dataclass_fields__[name].default:
            raise UserError(f"hyperparameter {name} = {value!r}: {reason}")
