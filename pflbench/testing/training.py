"""The check of the options of training: none of them is ignored in silence."""

import dataclasses
from typing import Any

from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.testing.compare import difference
from pflbench.testing.kit import Failed, check
from pflbench.testing.problem import toy
from pflbench.testing.subject import SMALL, Played, Subject, play

ON: dict[str, dict[str, Any]] = {
    "local_momentum": {"local_momentum": 0.9},
    "weight_decay": {"weight_decay": 0.1},
    "clip": {"clip": 1e-3},
    "schedule": {"schedule": "step", "schedule_rounds": 1},
    "augment": {"augment": "flip+crop", "crop_padding": 2},
}
"""Values of the options at which a method that has them does something else in two rounds."""
BATCH = 4  # so small that there are several steps, if the method lets batches be


@check
def training_options(subject: Subject) -> None:
    """Every option of training changes what is trained, or is refused in one line."""
    plain = _played(subject, {})
    for name, values in ON.items():
        try:
            found = difference(_trained(plain), _trained(_played(subject, values)))
        except UserError as error:
            _in_one_line(name, str(error))
            continue
        if not found:
            off = _fields(subject)[name].default
            raise Failed(
                f"{name} = {values[name]!r} changes nothing; train by ops.local_sgd, or refuse it:"
                f" {name}: {type(off).__name__} = hparam({off!r}, [{off!r}], 'why', tune=False)"
            )


def _fields(subject: Subject) -> "dict[str, dataclasses.Field[Any]]":
    return {f.name: f for f in dataclasses.fields(registry.hparams_type(subject.cls))}


def _played(subject: Subject, values: dict[str, Any]) -> Played:
    """Two rounds with all clients, of several steps of SGD where the method allows it."""
    allowed = {name: f.metadata["allowed"] for name, f in _fields(subject).items()}
    hparams: dict[str, Any] = {"participation": 1.0, **values}
    if isinstance(allowed["batch_size"], tuple):
        hparams["batch_size"] = max(BATCH, allowed["batch_size"][0])
    if "sgd" in allowed["optimizer"]:
        hparams["optimizer"] = "sgd"
    settings = {**SMALL, "rounds": 2, "eval_every": 2}
    return play(toy(subject.plugin, hparams, **settings), keep_all=False)


def _trained(played: Played) -> Any:
    return {"server": played.servers[-1], "client": played.states[-1]}


def _in_one_line(name: str, message: str) -> None:
    if "\n" in message or name not in message:
        raise Failed(f"{name} is refused, but not in one line that names it: {message!r}")
