"""The server and its clients: rounds and evaluation. Files, if any, are the business of whoever
keeps the states.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pflbench.api import Algorithm, Client, State, collect_logs, collect_notes
from pflbench.errors import RunFailed
from pflbench.methods.failures import failure
from pflbench.records.run_folder import Unwritable
from pflbench.rng import stream
from pflbench.simulation import contract, failures, messages, round_record
from pflbench.simulation.client_states import ClientStates
from pflbench.simulation.client_worker import (
    ClientJob,
    ClientResult,
    ClientWorker,
    Setup,
    series_of,
)
from pflbench.simulation.cohort import Cohort, Diverged, check_finite
from pflbench.simulation.engine import Engine
from pflbench.simulation.representations import Vectors
from pflbench.simulation.round_record import Correct, Record

CHUNK = 256
"""Clients that are evaluated together: their messages are in memory at once."""


class Federation:
    """A method at work. What `snapshot` returns is all that the next round reads.

    Private states are kept in `states`, by default in memory. With `keep_models`, they have the
    models that clients trained last.
    """

    def __init__(
        self,
        setup: Setup,
        engine: Engine,
        states: ClientStates | None = None,
        keep_models: bool = False,
    ) -> None:
        self.setup = setup
        self.keep_models = keep_models
        self.has_all_models = keep_models  # of every client that was in a cohort
        self.run = setup.run
        self.partition = setup.partition
        self.algorithm = setup.algorithm()
        self.engine = engine
        self.round = 0  # rounds that are finished
        with self._on_server("init_server()"):
            made = self.algorithm.init_server()
            self.server: State = contract.state(made, "init_server()")
        self.states: dict[int, State] | ClientStates = {} if states is None else states
        seen = range(self.run.seen_clients)
        self.trainable = [id for id in seen if len(self.partition.train[id])]
        self.evaluated = self._evaluated_clients()
        self.slow = failures.slow(self.run, seen)
        kept = [*series_of(self.partition, "untrained"), *series_of(self.partition, "post")]
        self.correct: Correct = {series: {} for series in kept}  # of each client's latest models
        self.represented: dict[int, Vectors] = {}  # z of test samples; no later round reads it

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, to go on from later. Nothing is copied: states are replaced,
        never edited.
        """
        correct = {series: dict(clients) for series, clients in self.correct.items()}
        return {
            "round": self.round,
            "server": self.server,
            "clients": self.states.copy(),
            "has_all_models": self.has_all_models,
            **correct,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self.round = snapshot["round"]
        self.server = snapshot["server"]
        self.states.clear()
        self.states.update(snapshot["clients"])
        self.has_all_models = self.keep_models and snapshot.get("has_all_models", False)
        self.correct = {series: dict(snapshot[series]) for series in self.correct}

    def start(self) -> tuple[Record, Record]:
        """The record of round 0, of the untrained models, and its timing."""
        start = time.perf_counter()
        record = {"round": 0, **self.evaluation()}
        return record, {"round": 0, "evaluation": time.perf_counter() - start}

    def step(self) -> tuple[Record, Record]:
        """One round: select, download, train, upload, aggregate, evaluate. Returns its record and
        its timing.
        """
        start = time.perf_counter()
        number = self.round + 1
        due = number % self.run.eval_every == 0 or number == self.run.rounds
        cohort = self._cohort(due)
        server_logs, notes = self._play(cohort)
        played = time.perf_counter()
        record = {
            "round": self.round,
            **round_record.summary(self.run, self.partition, cohort),
            "server": server_logs,
        }
        if due:
            evaluation = self.evaluation()
            notes += evaluation.pop("notes", [])
            record.update(evaluation)
        if notes:
            record["notes"] = list(dict.fromkeys(notes))
        end = time.perf_counter()
        timing = {
            "round": self.round,
            "client": cohort.seconds,
            "server": played - start - cohort.exchange_seconds,
            "evaluation": end - played + cohort.evaluation_seconds,
            "wall": end - start,
        }
        return record, timing

    def select(self) -> tuple[int, ...]:
        """The cohort of this round: it depends on seed and round only, so every method sees the
        same clients.
        """
        draws = stream(self.run.seed, "cohort", self.round)
        order = torch.randperm(len(self.trainable), generator=draws).tolist()
        return tuple(sorted(self.trainable[place] for place in order[: self.run.cohort_size]))

    def _evaluated_clients(self) -> tuple[int, ...]:
        """The clients whose accuracy is measured, in ascending order: by the seed only, as the
        cohorts.
        """
        draws = stream(self.run.seed, "evaluated clients")
        order = torch.randperm(self.run.seen_clients, generator=draws).tolist()
        return tuple(sorted(order[: self.run.evaluate_clients]))

    def state(self, id: int) -> State:
        """A client's private state."""
        if id in self.states:
            return self.states[id]
        state: State = contract.state(self.algorithm.init_client(), "init_client()")
        return state

    def client(self, id: int) -> Client:
        """What a client function would see of this client now."""
        return ClientWorker(self.setup).client(id, self.round, messages.sent(self.state(id)))

    def evaluated_with(self, id: int) -> tuple[int, ...]:
        """The clients whose messages for the evaluation are made together with this one's."""
        groups = [ids for ids in _chunks(self.evaluated, CHUNK) if id in ids]
        return groups[0] if groups else (id,)

    def _cohort(self, evaluation_due: bool) -> Cohort:
        """The clients of this round. Where not all of them answer in every round, their trained
        models are evaluated in each: at the next evaluation, the `post` accuracy of a client is
        that of its latest training.
        """
        partial = self.run.cohort_size < self.run.seen_clients or self.run.dropout_rate > 0
        needed = evaluation_due or partial
        failing = failures.failing(self.run, self.round)
        work = dict.fromkeys(self.slow, self.run.slow_work)
        return Cohort(
            self.algorithm,
            self.engine,
            self.states,
            self.select(),
            self.round,
            frozenset(self.evaluated if needed else ()),
            failing,
            work,
            self.keep_models and needed,
        )

    def _play(self, cohort: Cohort) -> tuple[dict[str, float], list[str]]:
        """Play the round and take over what is new, if all of it is finite; returns the server's
        logs, and all notes.
        """
        with (
            self._on_server(f"round {self.round + 1}"),
            collect_logs() as logs,
            collect_notes() as notes,
        ):
            server = self.algorithm.round(self.server, cohort)
            own = type(self.algorithm).round is not Algorithm.round
            contract.state(server, "round()" if own else "aggregate()")
        if len(cohort.failed) == len(cohort.ids):
            server = self.server  # nobody answered: everything stays as it was
        if not messages.finite(server):
            raise Diverged(f"numbers that are not finite from the server in round {self.round + 1}")
        self.server = server
        self.round += 1
        self.states.update(cohort.new_states)
        for series, correct in cohort.correct.items():
            self.correct[series].update(correct)
        self.represented.update(cohort.represented)
        return logs, [*notes, *cohort.notes]

    def evaluation(self) -> Record:
        """Accuracy of clients: `pre` and other series of their personal models now, `post` of their
        latest training.

        A client that never trained has the untrained model's accuracy as its `post`. One without
        test data, or outside the sample of `evaluate_clients`, has none. Where a validation part is
        held out, every series has a second one on it.
        """
        results, notes = self._evaluate("personal_model", self.evaluated)
        correct = self._correct_by_series(results)
        if self.run.new_clients and self.round > 0:
            correct.update(self._correct_of_new_clients())
        for result in results:
            notes += result.notes
            if result.represented is not None:
                self.represented[result.client] = result.represented
        if untrained := self._never_trained():
            notes.append(
                f"{untrained} of {len(self.evaluated)} evaluated clients have never trained"
            )
        record: Record = {"accuracy": round_record.accuracies(self.run, self.partition, correct)}
        if logs := round_record.logs_by_client(self.run, results):
            record["evaluated"] = logs
        if notes:
            record["notes"] = list(dict.fromkeys(notes))
        return record

    def _evaluate(self, stage: str, clients: Sequence[int]) -> tuple[list[ClientResult], list[str]]:
        """The results of these clients, in ascending order, and what was noted before they got
        their messages.
        """
        method = self.algorithm
        own = {"adapted_model": method.adaptation_messages}
        messages_for = own.get(stage, method.evaluation_messages)
        results: list[ClientResult] = []
        notes: list[str] = []
        for ids in _chunks(clients, CHUNK):
            cohort = Cohort(self.algorithm, self.engine, self.states, ids, self.round)
            with (
                self._on_server(f"the evaluation after round {self.round}"),
                collect_notes() as of_server,
            ):
                sent = messages_for(self.server, cohort)
                downloads = contract.by_client(sent, _sender(method, messages_for.__name__), ids)
                jobs = [
                    ClientJob(stage, id, self.round, downloads[id], self.state(id)) for id in ids
                ]
            notes += [*of_server, *cohort.notes]
            results += self.engine.run(jobs)
        results = sorted(results, key=lambda result: result.client)
        check_finite(results, f"in the evaluation after round {self.round}")
        return results, notes

    def _correct_by_series(self, results: Sequence[ClientResult]) -> Correct:
        """Correct samples of the personal models, and at `post` those of the latest trained or
        untrained ones.
        """
        correct: Correct = {}
        for result in results:
            for series, number in result.correct.items():
                correct.setdefault(series, {})[result.client] = number
        names = [series_of(self.partition, name) for name in ("untrained", "pre", "post")]
        for untrained, pre, post in zip(*names, strict=True):
            if self.round == 0:
                self.correct[untrained] = correct[pre]
            if self.correct[post] or self._post_is_pending():
                correct[post] = {**self.correct[untrained], **self.correct[post]}
        return correct

    def _correct_of_new_clients(self) -> Correct:
        """Correct samples of the clients that never take part: `new_pre` of the personal model that
        they are sent, and after passes over their own data, if they have any, `new_1` and `new_E`.
        """
        new = range(self.run.seen_clients, self.run.clients)
        trainable = [id for id in new if len(self.partition.train[id])]
        correct: Correct = {}
        for result in self._evaluate("personal_model", new)[0]:
            for series in series_of(self.partition, "pre"):
                correct.setdefault(f"new_{series}", {})[result.client] = result.correct[series]
        for result in self._evaluate("adapted_model", trainable)[0]:
            for series, number in result.correct.items():
                correct.setdefault(series, {})[result.client] = number
        return correct

    def _post_is_pending(self) -> bool:
        """Whether the method will be evaluated at `post` too, but no evaluated client was in a
        cohort yet.
        """
        has_trained_model = type(self.algorithm).trained_model is not Algorithm.trained_model
        trained = any(id in self.states for id in self.evaluated)
        return self.round > 0 and has_trained_model and not trained

    def _never_trained(self) -> int:
        """Evaluated clients that have training data and were in no cohort yet; none before the
        first round.
        """
        if self.round == 0:
            return 0
        trainable = [id for id in self.evaluated if len(self.partition.train[id])]
        return sum(id not in self.states for id in trainable)

    @contextmanager
    def _on_server(self, moment: str) -> Iterator[None]:
        """Anything that goes wrong in the method names it and the moment."""
        try:
            yield
        except (Diverged, RunFailed, Unwritable, KeyboardInterrupt):
            raise
        except BaseException as error:  # also an exit
            raise failure(type(self.algorithm), f"{moment}, on the server", error) from error


def _sender(method: Algorithm, function: str) -> str:
    """The function of a method that makes messages: this one, or `download`, which it stands for."""
    own = getattr(type(method), function) is not getattr(Algorithm, function)
    return f"{function}()" if own else "download()"


def _chunks(ids: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    for first in range(0, len(ids), size):
        yield tuple(ids[first : first + size])
