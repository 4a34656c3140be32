"""A method under test, with the runs that several checks read; each is done once, when it is first
asked for.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from pflbench.api import Algorithm, Message, State
from pflbench.data.partition import Partition
from pflbench.methods import registry
from pflbench.simulation.client_worker import ClientJob, ClientResult, Setup
from pflbench.simulation.cohort import Cohort
from pflbench.simulation.engine import Engine, Processes, Serial
from pflbench.simulation.federation import Federation
from pflbench.simulation.messages import sent
from pflbench.simulation.round_record import Record
from pflbench.testing.problem import TOY_CNN, network_of, toy_setup
from pflbench.testing.watch import Violations, watched

PARTIAL: dict[str, Any] = {"clients": 6, "participation": 0.34, "rounds": 4, "eval_every": 2}
"""Two of six clients per round, and at least one of them never in four rounds."""
SMALL: dict[str, Any] = {"dataset": "synthetic:classes=4,side=8,samples=96"}
NETWORK: dict[str, Any] = {**TOY_CNN, "dataset": "synthetic:classes=4,side=16,samples=64"}


@dataclass(frozen=True)
class Played:
    """A run that was played to its end: its records, the states after each round, and the
    federation itself.
    """

    federation: Federation
    records: list[Record]
    servers: list[State]  # after rounds 0, 1, ..., or after the last
    states: list[dict[int, State]]

    @property
    def all(self) -> dict[str, Any]:
        """Everything that must be the same in a run that claims to be the same."""
        after = [
            {"server": server, "client": states}
            for server, states in zip(self.servers, self.states, strict=True)
        ]
        return {"record": self.records, "state after round": after}


def play(
    federation: Federation, start: bool = True, keep_all: bool = True, seed: int = 1
) -> Played:
    """Play all rounds that are left, from a global seed; keep the states after each of them, or
    after the last.
    """
    with global_seed(seed):
        return _play(federation, start, keep_all)


def _play(federation: Federation, start: bool, keep_all: bool) -> Played:
    records, last = [federation.start()[0]] if start else [], federation.run.rounds
    servers, states = [], []
    while True:
        if keep_all or federation.round == last:
            servers.append(sent(federation.server))
            states.append(sent(federation.states))
        if federation.round == last:
            return Played(federation, records, servers, states)
        records.append(federation.step()[0])


def evaluation_messages(federation: Federation, ids: tuple[int, ...]) -> dict[int, Message]:
    """The messages from which these clients' personal models would be evaluated now."""
    cohort = Cohort(
        federation.algorithm, federation.engine, federation.states, ids, federation.round
    )
    messages = federation.algorithm.evaluation_messages(federation.server, cohort)
    return {id: sent(message) for id, message in messages.items()}


class Backwards(Serial):
    """In this process, the client with the highest id first."""

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        """Do the jobs in descending order of client."""
        return super().run(sorted(jobs, key=lambda job: -job.client))


class Alternating(Processes):
    """Two workers that take turns in being asked first, so that a client surely meets both of them."""

    turn = 0

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        """Do the jobs; every second time the other worker gets the largest client."""
        self.turn += 1
        # A round has two calls, training and evaluation: swap between rounds, not within.
        if self.turn % 2:
            self.workers = dict(reversed(self.workers.items()))
        return super().run(jobs)


class _Listing(Serial):
    """In this process; remembers which client functions were asked for."""

    def __init__(self, setup: Setup, stages: dict[str, None]) -> None:
        super().__init__(setup)
        self.stages = stages

    def run(self, jobs: Sequence[ClientJob]) -> list[ClientResult]:
        self.stages.update(dict.fromkeys(job.stage for job in jobs))
        return super().run(jobs)


class Subject:
    """A method, by its name or the path of its file."""

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.cls: type[Algorithm] = registry.load(plugin, anew=True)
        self.stages: dict[str, None] = {}  # client functions seen so far
        self._workers: Engine | None = None

    @cached_property
    def reference(self) -> Played:
        """Three rounds with all clients, evaluated after each."""
        return self.once_more()

    def once_more(self) -> Played:
        """The reference run, done again."""
        setup = self.setup()
        return play(Federation(setup, _Listing(setup, self.stages)))

    @cached_property
    def partial(self) -> Played:
        """Four rounds with two of six clients each."""
        return play(self.federation(**PARTIAL))

    @cached_property
    def seen(self) -> tuple[Violations, Played | Exception]:
        """What watching the reference run shows, under another global seed; and how that run ended."""
        with suppress(Exception):  # the watched run stops at the same place, and shows what it saw
            _ = self.reference
        setup = watched(self.setup(), tuple(self.stages))
        try:
            return setup.violations, play(Federation(setup, Serial(setup)), seed=2)
        except Exception as error:
            return setup.violations, error

    def setup(self, split: Partition | None = None, **settings: Any) -> Setup:
        """A small problem, with all clients even where the method by default takes fewer."""
        chosen = {**SMALL, **settings, **network_of(self.cls)}
        return toy_setup(self.plugin, {"participation": 1.0}, split, **chosen)

    def federation(self, split: Partition | None = None, **settings: Any) -> Federation:
        """A small problem at work, in this process."""
        setup = self.setup(split, **settings)
        return Federation(setup, Serial(setup))

    @cached_property
    def network_setup(self) -> Setup:
        """The problem on which engines are compared: with convolutions, whose layout in memory
        could matter.
        """
        return self.setup(**NETWORK)

    def start_workers(self) -> Engine:
        """Two worker processes for `network_setup`; they take seconds to be ready, so they can be
        started early.
        """
        if self._workers is None:
            self._workers = Alternating(self.network_setup, 2)
        return self._workers

    def close(self) -> None:
        """Stop the worker processes."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed all global random generators, and put them back."""
    kept = torch.get_rng_state(), np.random.get_state(), random.getstate()
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        np.random.set_state(kept[1])
        random.setstate(kept[2])
