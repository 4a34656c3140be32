"""The clients of a round: count down, run, keep states, count up, replies sorted by id."""

import time
from collections import Counter
from collections.abc import Container, Mapping

from pflbench.api import Algorithm, ClientFunction, Message, Replies, State
from pflbench.errors import RunFailed
from pflbench.simulation import messages as wire
from pflbench.simulation.client_worker import ClientJob
from pflbench.simulation.engine import Engine
from pflbench.simulation.representations import Vectors


class Cohort:
    """What `Algorithm.round` gets. New private states stay here until its end, so a round is all or nothing."""

    def __init__(
        self,
        algorithm: Algorithm,
        engine: Engine,
        states: Mapping[int, State],
        ids: tuple[int, ...],
        round: int,
        scored: Container[int] = (),
    ) -> None:
        self.ids = ids
        self.round = round
        self.new_states: dict[int, State] = {}
        self.down: dict[int, Counter[str]] = {}  # client -> part -> bytes
        self.up: dict[int, Counter[str]] = {}
        self.logs: dict[int, dict[str, float]] = {}
        self.notes: dict[str, None] = {}  # what clients noted, each text once
        self.scores: dict[
            str, dict[int, int]
        ] = {}  # series -> client -> correct samples right after training
        self.represented: dict[
            int, Vectors
        ] = {}  # client -> z of test samples of that model, in the last round
        self.seconds = 0.0  # of client work, summed
        self.exchange = 0.0  # between sending the messages and having the replies
        self.scoring = 0.0
        self.diverged: list[int] = []  # clients whose reply was not finite
        self._algorithm = algorithm
        self._engine = engine
        self._states = states
        self._scored = scored  # clients whose model right after training is scored

    def call(self, function: ClientFunction, messages: Mapping[int, Message]) -> Replies:
        """Send each client its message, run `function` there, keep the new private states, return the replies."""
        stage = function.__name__
        strangers = set(messages) - set(self.ids)
        if strangers:
            raise RunFailed(
                f"{self._algorithm.title}: {stage}() called for clients {sorted(strangers)} of no cohort"
            )
        for id, message in messages.items():
            self.down.setdefault(id, Counter()).update(wire.parts(message))
        jobs = [
            ClientJob(stage, id, self.round, message, self._state(id), id in self._scored)
            for id, message in messages.items()
        ]
        start = time.perf_counter()
        outcomes = self._engine.run(jobs)
        self.exchange += time.perf_counter() - start
        replies: Replies = {}
        for outcome in sorted(outcomes, key=lambda outcome: outcome.client):
            id = outcome.client
            replies[id] = outcome.reply
            self.new_states[id] = outcome.state
            self.up.setdefault(id, Counter()).update(wire.parts(outcome.reply))
            self.logs.setdefault(id, {}).update(outcome.logs)
            self.notes.update(dict.fromkeys(outcome.notes))
            for series, right in outcome.scores.items():
                self.scores.setdefault(series, {})[id] = right
            if outcome.represented is not None:
                self.represented[id] = outcome.represented
            self.seconds += outcome.seconds
            self.scoring += outcome.scoring
            if not wire.finite(outcome.reply):
                self.diverged.append(id)
        return replies

    def _state(self, id: int) -> State:
        if id in self.new_states:
            return self.new_states[id]
        return self._states[id] if id in self._states else self._algorithm.init_client()
