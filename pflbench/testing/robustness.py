"""Checks of who takes part: few clients, clients with odd data, clients that were never or not
always there.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pflbench.data.partition import Partition
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation
from pflbench.simulation.round_record import Record
from pflbench.testing.compare import difference
from pflbench.testing.kit import Failed, check
from pflbench.testing.problem import split_by_class
from pflbench.testing.subject import PARTIAL, SMALL, Played, Subject, evaluation_messages, play

ALL = [0, 1, 2, 3] * 4  # the classes of a client with four samples of each
TEST = [0, 1, 2, 3]
FAILURES: dict[str, Any] = {"dropout_rate": 0.5, "slow_clients": 0.5, "slow_work": 0.25, "seed": 23}
"""Of four clients one fails in the first round, all in the second, one in the third; two are slow."""


NEW: dict[str, Any] = {
    **{"clients": 5, "new_clients": 2, "new_client_epochs": 2, "rounds": 2},
    "eval_every": 2,
}
"""The last two of five clients never take part."""


@check
def partial_participation(subject: Subject) -> None:
    """Two of six clients per round: the states of the others stay as they are, and their data have no
    influence.
    """
    base = subject.partial
    for number, record in enumerate(base.records[1:], 1):
        for id in set(base.states[number - 1]) | set(base.states[number]):
            before, after = (base.states[round].get(id) for round in (number - 1, number))
            found = difference(before, after)
            if id not in record["cohort"] and found:
                raise Failed(
                    f"client {id} was not selected in round {number}, but its state changed: {found}"
                )
    absent = _never_selected(base)
    other = play(_with_other_data(base.federation, absent))
    what = f"client {absent} never took part, but with other data on it"
    for number, (one, two) in enumerate(zip(base.servers, other.servers, strict=True)):
        if found := difference(one, two):
            raise Failed(f"{what} the server's state differs after round {number}: {found}")
    if found := difference(base.states, other.states):
        raise Failed(f"{what} the states of other clients differ: {found}")


@check
def unseen_client(subject: Subject) -> None:
    """A client that never took part can be evaluated, before the first round and later."""
    base = subject.partial
    absent = _never_selected(base)
    for federation in (subject.federation(**PARTIAL), base.federation):
        when = f"client {absent}, which never took part, after round {federation.round}"
        algorithm, client = federation.algorithm, federation.client(absent)
        if absent not in algorithm.download(federation.server, (absent,)):
            raise Failed(f"download() has no message for {when}")
        message = evaluation_messages(federation, (absent,))[absent]
        x = client.task.inputs(client.x[torch.arange(3)])
        model = algorithm.personal_model(client, message)
        with torch.no_grad():
            scores = algorithm.predict(model, x)
        if scores.shape != (3, client.task.classes):
            raise Failed(
                f"predict() gives {tuple(scores.shape)} for 3 samples and 4 classes, not (3, 4), for {when}"
            )
        if scores.isnan().any():
            raise Failed(f"predict() gives scores that are not numbers for {when}")


@check
def failing_and_slow_clients(subject: Subject) -> None:
    """Clients that fail after the download, rounds without any reply, and clients that process
    only a part of their batches.
    """
    played = play(subject.federation(**FAILURES))
    for number, record in enumerate(played.records[1:], 1):
        _unchanged_where_failed(played, number, record)
        nobody = record["failed"] == record["cohort"]
        if nobody and record["bytes"]["up"]:
            raise Failed(f"no client replied in round {number}, but something was sent up")


@check
def new_clients(subject: Subject) -> None:
    """New clients are evaluated without training and after local epochs; their data reach nobody,
    and nothing is kept.
    """
    federation = subject.federation(**NEW)
    played = play(federation)
    first = federation.run.seen_clients
    for name in ("new_pre", "new_1", "new_2"):
        accuracies = played.records[-1]["accuracy"].get(name, [])
        if [value is None for value in accuracies] != [True] * first + [False, False]:
            raise Failed(f"{name} is not of the two new clients alone: {accuracies}")
    if found := difference(federation.evaluation(), federation.evaluation()):
        raise Failed(f"two evaluations of the new clients differ: {found}; they must only read")
    other = play(_with_other_data(federation, first))
    for what, one, two in (
        ("server", played.servers, other.servers),
        ("clients", played.states, other.states),
    ):
        if found := difference(one, two):
            raise Failed(f"with other data on a new client the {what} differ: {found}")


@check
def one_class_client(subject: Subject) -> None:
    """A client whose samples are all of one class."""
    _fine(subject, _split([ALL, [1] * 9, ALL], [TEST, [1, 1], TEST]))


@check
def one_sample_client(subject: Subject) -> None:
    """A client with a single training sample."""
    _fine(subject, _split([ALL, [2], ALL], [TEST, [2], TEST]))


@check
def client_without_test_data(subject: Subject) -> None:
    """A client that has no test samples."""
    _fine(subject, _split([ALL, ALL, ALL], [TEST, [], TEST]))


@check
def one_client_federation(subject: Subject) -> None:
    """A single client, N = 1."""
    _fine(subject, _split([ALL], [TEST]))


@check
def two_client_federation(subject: Subject) -> None:
    """Two clients that have no class in common, N = 2."""
    _fine(subject, _split([[0, 1] * 8, [2, 3] * 4], [[0, 1], [2, 3]]))


@check
def one_client_cohort(subject: Subject) -> None:
    """One client selected in a round, each class held by one client only."""
    split = _split([[0] * 9, [1] * 8, [2, 3] * 6], [[0], [1], [2, 3]])
    _fine(subject, split, participation=0.34, rounds=5)


def _unchanged_where_failed(played: Played, number: int, record: Record) -> None:
    """Whoever failed in a round is after it as before; the server too, if all failed."""
    before, after = played.states[number - 1], played.states[number]
    for id in record["failed"]:
        if found := difference(before.get(id), after.get(id)):
            raise Failed(f"client {id} failed in round {number}, but its state changed: {found}")
    servers = played.servers[number - 1], played.servers[number]
    if record["failed"] == record["cohort"] and (found := difference(*servers)):
        raise Failed(
            f"no client replied in round {number}, but the server's state changed: {found}"
        )


def _split(train: list[list[int]], test: list[list[int]]) -> Partition:
    return split_by_class(SMALL["dataset"], train, test)


def _fine(subject: Subject, split: Partition, **settings: Any) -> None:
    """A run on this split ends, finite, with an accuracy for every client that has test data."""
    rounds = settings.setdefault("rounds", 3)
    played = play(subject.federation(split, eval_every=rounds, **settings))
    for series, accuracies in played.records[-1]["accuracy"].items():
        for id, accuracy in enumerate(accuracies):
            if (accuracy is None) != (len(split.test[id]) == 0):
                raise Failed(
                    f"client {id} with {len(split.test[id])} test samples has accuracy {accuracy} ({series})"
                )


def _never_selected(played: Played) -> int:
    chosen = {id for record in played.records[1:] for id in record["cohort"]}
    return min(set(range(played.federation.run.clients)) - chosen)


def _with_other_data(federation: Federation, id: int) -> Federation:
    """A new federation in which a client has other, and fewer, training samples."""
    setup = federation.setup
    train = list(setup.partition.train)
    train[id] = np.sort(setup.partition.train[(id + 1) % len(train)][::2])
    setup = replace(setup, partition=Partition(tuple(train), setup.partition.test))
    return Federation(setup, Serial(setup))
