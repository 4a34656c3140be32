"""Checks of engines, traffic and checkpoints: what leaves a process, a client or a run."""

import io
from collections import Counter
from collections.abc import Mapping

import torch

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
"""Sizes of CIFAR-10 and EMNIST, with the default network."""
ROUNDS = 3

Traffic = dict[tuple[str, int], Counter[str]]
"""Bytes by part of a message, of each way ("down", "up") and client."""


@check
def measured_bytes_equal_formula(subject: Subject) -> None:
    """The bytes that a client receives and sends match `costs`, on problems as large as CIFAR and EMNIST.

    The formulas are of every round (the first ones may send less), or of a whole one-shot method.
    """
    for title, (dataset, classes) in SIZES.items():
        # together all classes, each client not all
        first = [*range(classes * 2 // 3), 0, 0]
        second = [*range(classes // 3, classes), classes - 1]
        split = split_by_class(dataset, [first, second], [[0], [classes - 1]])
        federation = subject.federation(split, dataset=dataset, model="cnn", width=128)
        whole: Traffic = {}
        for number in range(1, ROUNDS + 1):
            measured = _round_traffic(federation)
            for key, parts in measured.items():
                whole.setdefault(key, Counter()).update(parts)
            if not subject.cls.one_shot:
                where = f"{title}, round {number}"
                _compare(federation, measured, where, less_is_fine=number < ROUNDS)
        if subject.cls.one_shot:
            _compare(federation, whole, f"{title}, all rounds together")


def _round_traffic(federation: Federation) -> Traffic:
    """Play a round with both clients; what each was sent and sent."""
    algorithm = federation.algorithm
    cohort = Cohort(algorithm, federation.engine, federation.states, (0, 1), federation.round)
    federation.server = algorithm.round(federation.server, cohort)
    federation.states.update(cohort.new_states)
    federation.round += 1
    traffic = {}
    for id in cohort.ids:
        traffic["down", id] = cohort.down.get(id, Counter())
        traffic["up", id] = cohort.up.get(id, Counter())
    return traffic


def _compare(
    federation: Federation, traffic: Traffic, where: str, less_is_fine: bool = False
) -> None:
    """Compare what was measured with the formulas, for each way and client."""
    algorithm = federation.algorithm
    down, up = costs.stated(algorithm)
    labels = federation.setup.data.y
    for (way, id), parts in traffic.items():
        formula = down if way == "down" else up
        counts = Counter(labels[federation.partition.train[id]].tolist())
        names = costs.names_of(algorithm, counts.values())
        try:
            stated = costs.evaluate(formula, names)
        except ValueError as error:
            raise Failed(f"{way}: {error}; names of the method's own come from sizes()") from error
        measured = sum(parts.values()) / costs.NUMBER
        if measured != stated and not (less_is_fine and measured < stated):
            raise Failed(
                f"{way} = {formula!r} says {stated} numbers of 4 bytes, "
                f"measured are {measured:g} ({_listed(parts)}) at {where}, client {id}; correct the "
                f"formula or the message (float32 and int32 only), knowing "
                + ", ".join(f"{name} = {value}" for name, value in names.items())
            )


def _listed(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {size / costs.NUMBER:g}" for part, size in parts.items()) or "nothing"


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
            f"a resumed run differs from one that was not stopped: {found}; keep everything in the states"
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
