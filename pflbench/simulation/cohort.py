"""The clients of a round: count what is sent, run client functions, keep new states, count what
comes back.
"""

import time
from collections import Counter
from collections.abc import Container, Mapping, Sequence

from pflbench.api import Algorithm, ClientFunction, Message, Replies, State
from pflbench.errors import RunFailed
from pflbench.logs import Work
from pflbench.simulation import contract
from pflbench.simulation.client_worker import ClientJob, ClientResult
from pflbench.simulation.engine import Engine
from pflbench.simulation.messages import parts
from pflbench.simulation.representations import Vectors


class Diverged(Exception):
    """Numbers that are not finite: the run ends here, and its record says so."""


def check_finite(results: Sequence[ClientResult], when: str) -> None:
    """Refuse results of clients whose reply, state or evaluated model is not finite."""
    if diverged := [result.client for result in results if not result.finite]:
        raise Diverged(f"numbers that are not finite from clients {diverged} {when}")


class Cohort:
    """What `Algorithm.round` gets. New private states stay here until the round ends: it happens
    whole or not at all.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        engine: Engine,
        states: Mapping[int, State],
        ids: tuple[int, ...],
        round: int,
        evaluated: Container[int] = (),
        failing: frozenset[int] = frozenset(),
        work: Mapping[int, float] | None = None,
        keep_models: bool = False,
    ) -> None:
        self.ids = ids
        self.round = round
        self.failed = tuple(id for id in ids if id in failing)  # after their first download
        self.new_states: dict[int, State] = {}
        self.down: dict[int, Counter[str]] = {}  # client -> part -> bytes
        self.up: dict[int, Counter[str]] = {}
        self.logs: dict[int, dict[str, float]] = {}
        self.notes: list[str] = []  # of clients, in ascending order of id
        # series -> client -> correct samples at `post`
        self.correct: dict[str, dict[int, int]] = {}
        self.represented: dict[int, Vectors] = {}  # client -> z of its test samples at `post`
        self.work: dict[int, Work] = {}
        self.seconds = 0.0  # of client functions, summed
        self.evaluation_seconds = 0.0
        self.exchange_seconds = 0.0  # between sending the messages and having the replies
        self._algorithm = algorithm
        self._engine = engine
        self._states = states
        self._evaluated = evaluated  # clients whose trained models are evaluated
        self._shares = work or {}  # of their batches that slow clients do
        self._keep_models = keep_models  # whether trained models stay in the stored states

    def call(self, function: ClientFunction, messages: Mapping[int, Message]) -> Replies:
        """Send each client its message, run `function` there, keep the new private states, return
        the replies of those that do not fail.
        """
        stage = function.__name__
        sender = "download()" if stage == "client_update" else f"what calls {stage}()"
        given = contract.by_client(messages, sender)
        jobs = self._jobs(stage, given)
        start = time.perf_counter()
        results = self._engine.run(jobs)
        self.exchange_seconds += time.perf_counter() - start
        results = sorted(results, key=lambda result: result.client)
        check_finite(results, f"in round {self.round + 1}")
        for result in results:
            self._keep(result)
        return {result.client: result.reply for result in results}

    def _jobs(self, stage: str, messages: Mapping[int, Message]) -> Sequence[ClientJob]:
        """A job for every message, whose bytes are counted. A client that fails does no job, and is
        sent nothing after its first message.
        """
        strangers = sorted(set(messages) - set(self.ids))
        if strangers:
            raise RunFailed(
                f"{self._algorithm.title}: {stage}() called for clients {strangers}, which are not in the cohort"
            )
        jobs = []
        for id, message in messages.items():
            if id not in self.failed:
                jobs.append(self._job(stage, id, message))
            elif id in self.down:
                continue
            self.down.setdefault(id, Counter()).update(parts(message))
        return jobs

    def _job(self, stage: str, id: int, message: Message) -> ClientJob:
        return ClientJob(
            stage,
            id,
            self.round,
            message,
            self._state(id),
            id in self._evaluated,
            self._shares.get(id, 1.0),
            self._keep_models,
        )

    def _keep(self, result: ClientResult) -> None:
        """Keep what a client did, but for its reply, whose bytes are counted."""
        id = result.client
        self.new_states[id] = result.state
        self.up.setdefault(id, Counter()).update(parts(result.reply))
        self.logs.setdefault(id, {}).update(result.logs)
        self.notes += result.notes
        self._add_work(id, result.work)
        for series, correct in result.correct.items():
            self.correct.setdefault(series, {})[id] = correct
        if result.represented is not None:
            self.represented[id] = result.represented
        self.seconds += result.seconds
        self.evaluation_seconds += result.evaluation_seconds

    def _add_work(self, id: int, done: Work) -> None:
        before = self.work.get(id, Work())
        self.work[id] = Work(before.batches + done.batches, before.samples + done.samples)

    def _state(self, id: int) -> State:
        """A client's private state: of this round, else of an earlier one, else the first."""
        if id in self.new_states:
            return self.new_states[id]
        if id in self._states:
            return self._states[id]
        state: State = contract.state(self._algorithm.init_client(), "init_client()")
        return state
