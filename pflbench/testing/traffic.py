"""Checks of engines, traffic and checkpoints: what leaves a process, a client or a run."""

import io
from collections import Counter
from collections.abc import Mapping

import torch

from pflbench.api import Algorithm
from pflbench.data import datasets
from pflbench.methods import costs
from pflbench.simulation.cohort import Cohort
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation
from pflbench.testing.compare import difference
from pflbench.testing.kit import Failed, check
from pflbench.testing.problem import split_by_class
from pflbench.testing.subject import PARTIAL, Subject, play

SIZES = {
    "3x32x32, 10 classes": ("synthetic:classes=10,side=32,channels=3,samples=60", 10),
    "1x28x28, 47 classes": ("synthetic:classes=47,side=28,channels=1,samples=141", 47),
}
"""CIFAR-10's and EMNIST's sizes, with the paper's network."""


@check
def measured_bytes_equal_formula(subject: Subject) -> None:
    """What each client is sent and sends is what `down` and `up` say, on CIFAR- and EMNIST-sized problems."""
    for title, (dataset, classes) in SIZES.items():
        first, last = (
            range(classes * 2 // 3),
            range(classes // 3, classes),
        )  # together all classes, each client not all
        split = split_by_class(
            dataset, [[*first, 0, 0], [*last, classes - 1]], [[0], [classes - 1]]
        )
        federation = subject.federation(split, dataset=dataset, model="cnn", width=128)
        labels = datasets.load(dataset).y
        names = [
            costs.names_of(federation.algorithm, Counter(labels[rows].tolist()).values())
            for rows in split.train
        ]
        for number in range(1, 4):
            cohort = Cohort(
                federation.algorithm, federation.engine, federation.states, (0, 1), federation.round
            )
            federation.server = federation.algorithm.round(federation.server, cohort)
            federation.states.update(cohort.new_states)
            federation.round = number
            for way, measured in (("down", cohort.down), ("up", cohort.up)):
                for id in cohort.ids:
                    where = f"{title}, client {id}, round {number}"
                    _compare(
                        federation.algorithm,
                        way,
                        measured.get(id, {}),
                        names[id],
                        number == 3,
                        where,
                    )


def _compare(
    algorithm: Algorithm,
    way: str,
    parts: Mapping[str, int],
    names: dict[str, int],
    last: bool,
    where: str,
) -> None:
    formula = dict(zip(("down", "up"), algorithm.costs(), strict=True))[way]
    try:
        stated = costs.evaluate(formula, names)
    except ValueError as error:
        raise Failed(f"{way}: {error}; names of the method's own come from sizes()") from error
    measured = sum(parts.values()) / costs.NUMBER
    if measured == stated or (measured < stated and not last):
        return
    found = (
        ", ".join(f"{part} {size / costs.NUMBER:g}" for part, size in parts.items()) or "nothing"
    )
    raise Failed(
        f"{way} = {formula!r} says {stated} numbers of 4 bytes, measured are {measured:g} ({found}) at {where}; "
        f"correct the formula or the message (float32 and int32 only), knowing {_listed(names)}"
    )


def _listed(names: dict[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in names.items())


@check
def resume_in_the_middle(subject: Subject) -> None:
    """A run that is stored, read back and continued equals the run that was not stopped."""
    whole, setup = subject.partial, subject.setup(**PARTIAL)
    first = Federation(setup, Serial(setup))
    first.start()
    first.step()
    first.step()
    stored = io.BytesIO()
    torch.save(first.snapshot(), stored)
    stored.seek(0)
    second = Federation(setup, Serial(setup))
    second.restore(torch.load(stored, weights_only=True))
    rest = play(second, start=False)
    found = difference(whole.all["record"][3:], rest.all["record"], "record")
    found = found or difference(
        whole.all["state after round"][2:], rest.all["state after round"], "state"
    )
    if found:
        raise Failed(
            f"a resumed run differs from the unbroken one: {found}; all that is kept must be in the states"
        )


@check
def engines_agree(subject: Subject) -> None:
    """Two worker processes give the same records and states as one process, bit for bit."""
    setup = subject.network_setup
    workers = subject.start_workers()
    here = play(Federation(setup, Serial(setup)), keep_all=False)
    there = play(Federation(setup, workers), keep_all=False)
    if found := difference(here.all, there.all):
        raise Failed(
            f"serial and processes differ: {found}; something is kept outside messages and states, "
            "or the result depends on the memory layout of a tensor"
        )
