"""Checks of a data set in a file of your own."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pflbench.config import Run
from pflbench.data import datasets, loader_file, natural, prepared
from pflbench.data.arrays import KINDS, Arrays, gaps
from pflbench.errors import RunFailed, UserError
from pflbench.testing.kit import CheckResult, Failed
from pflbench.testing.problem import played, toy

MODELS = {"images": "mlp", "features": "mlp", "tokens": "text"}
"""A network that takes samples of every kind, whatever their shape."""


class Subject:
    """A data set as its file gives it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.arrays = self.loaded()

    def loaded(self) -> Arrays:
        return loader_file.read(datasets.data_root(), self.path, anew=True)


def loads_the_same_twice(subject: Subject) -> None:
    """Two executions of the file give the same arrays, bit for bit."""
    if prepared.digest(subject.arrays) != prepared.digest(subject.loaded()):
        raise Failed("they differ; draw with a generator of a fixed seed, and sort what you list")


def every_label_is_used(subject: Subject) -> None:
    """Every class has a sample."""
    said = gaps("labels", subject.arrays.y, subject.arrays.classes)
    if said:
        raise Failed(said)


def clients_can_be_natural(subject: Subject) -> None:
    """If samples have owners, some have enough of them for --partition natural."""
    client = subject.arrays.client
    if client is not None and not natural.owned(client, Run.min_samples):
        raise Failed(f"no client has min_samples = {Run.min_samples} samples")


def what_is_prepared_is_this(subject: Subject) -> None:
    """The arrays in the data folder, if there are any, are those that the file gives now."""
    there = datasets.prepared_already(subject.path)
    if there is not None and there.digest != prepared.digest(subject.arrays):
        raise Failed(
            f"{there.folder} has others; name the files that load() reads in FILES, and delete"
            " that folder once"
        )


def a_method_trains_on_it(subject: Subject) -> None:
    """FedAvg plays a round on it."""
    kind = KINDS[subject.arrays.x.dtype.name]
    size: dict[str, Any] = {"clients": 2, "min_samples": 2, "max_samples": 32}
    federation = toy("fedavg", dataset=subject.path, partition="iid", model=MODELS[kind], **size)
    played(federation, 1)


CHECKS: list[Callable[[Subject], None]] = [
    loads_the_same_twice,
    every_label_is_used,
    clients_can_be_natural,
    what_is_prepared_is_this,
    a_method_trains_on_it,
]


def checks(path: str) -> Iterator[CheckResult]:
    """All checks on a data set's file."""
    start = time.perf_counter()
    try:
        subject = Subject(path)
    except UserError as error:
        yield CheckResult("loads", False, None, str(error), time.perf_counter() - start)
        return
    yield CheckResult("loads", True, None, _described(subject.arrays), time.perf_counter() - start)
    for function in CHECKS:
        yield _result(function, subject)


def _described(found: Arrays) -> str:
    """Numbers, kind and shape of what is loaded."""
    kind, shape = KINDS[found.x.dtype.name], found.x.shape[1:]
    said = f"{len(found.y)} samples ({kind} of the shape {shape}), {found.classes} classes"
    if found.vocabulary is not None:
        said += f", {found.vocabulary} tokens"
    if found.client is not None:
        sizes = np.bincount(found.client)
        said += f", {len(sizes)} clients with {sizes.min()} to {sizes.max()} samples"
    return f"{said}."


def _result(function: Callable[[Subject], None], subject: Subject) -> CheckResult:
    start = time.perf_counter()
    name = function.__name__.replace("_", "-")
    try:
        function(subject)
    except (Failed, UserError, RunFailed) as error:
        return CheckResult(name, False, None, str(error), time.perf_counter() - start)
    said = " ".join((function.__doc__ or "").split())
    return CheckResult(name, True, None, said, time.perf_counter() - start)
