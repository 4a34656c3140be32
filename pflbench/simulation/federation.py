"""The server and its clients: rounds and evaluation. Files, if any, are the business of who keeps the states."""

import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pflbench.api import Algorithm, Client, State, collect_logs, collect_notes
from pflbench.errors import RunFailed
from pflbench.records.run_folder import Unwritable
from pflbench.rng import stream
from pflbench.simulation import messages as wire
from pflbench.simulation.client_states import ClientStates
from pflbench.simulation.client_worker import ClientJob, ClientWorker, Setup, counted_on, series_of
from pflbench.simulation.cohort import Cohort
from pflbench.simulation.engine import Engine
from pflbench.simulation.representations import Vectors

Record = dict[str, Any]
"""What is written of a round."""


class Diverged(Exception):
    """Numbers that are not finite: the run ends here, and its record says so."""


class Federation:
    """A method at work. What `snapshot` returns is all that the next round reads.

    Private states are kept in `states`, by default in memory.
    """

    def __init__(self, setup: Setup, engine: Engine, states: ClientStates | None = None) -> None:
        self.setup = setup
        self.run = setup.run
        self.partition = setup.partition
        self.algorithm = setup.algorithm()
        self.engine = engine
        self.round = 0  # rounds done
        with self._on_server("init_server()"):
            self.server: State = self.algorithm.init_server()
        self.states: dict[int, State] | ClientStates = {} if states is None else states
        self.able = [
            id for id, rows in enumerate(self.partition.train) if len(rows)
        ]  # who can take part in a round
        self.evaluated = self._sample()
        # series -> client -> correct samples: before the first round, and of the latest trained model
        self.right: dict[str, dict[int, int]] = {
            series: {}
            for name in ("untrained", "post")
            for series in series_of(self.partition, name)
        }
        self.represented: dict[
            int, Vectors
        ] = {}  # z of test samples, after the last round: no later round reads it

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, to go on from later. Nothing is copied: states are replaced, never edited."""
        right = {series: dict(clients) for series, clients in self.right.items()}
        return {"round": self.round, "server": self.server, "clients": self.states.copy(), **right}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.round, self.server = snapshot["round"], snapshot["server"]
        self.states.clear()
        self.states.update(snapshot["clients"])
        self.right = {series: snapshot[series] for series in self.right}

    def start(self) -> tuple[Record, Record]:
        """The record of round 0, of the untrained models, and its timing."""
        begin = time.perf_counter()
        record = {"round": 0, **self.evaluation()}
        return record, {"round": 0, "evaluation": time.perf_counter() - begin}

    def step(self) -> tuple[Record, Record]:
        """One round: select, download, train, upload, aggregate, evaluate. Returns its record and its timing."""
        begin = time.perf_counter()
        due = (self.round + 1) % self.run.eval_every == 0 or self.round + 1 == self.run.rounds
        score = (
            due or self.run.cohort_size < self.run.clients
        )  # the unselected are scored by their latest model
        scored = self.evaluated if score else ()
        cohort = Cohort(self.algorithm, self.engine, self.states, self.select(), self.round, scored)
        with (
            self._on_server(f"round {self.round + 1}"),
            collect_logs() as server_logs,
            collect_notes() as notes,
        ):
            server = self.algorithm.round(self.server, cohort)
            wire.check(server)
        if cohort.diverged or not wire.finite(server):
            who = f"clients {cohort.diverged}" if cohort.diverged else "the server"
            raise Diverged(f"numbers that are not finite from {who} in round {self.round + 1}")
        self.server, self.round = server, self.round + 1
        self.states.update(cohort.new_states)
        for series, right in cohort.scores.items():
            self.right[series].update(right)
        self.represented.update(cohort.represented)
        trained = time.perf_counter()
        record = {"round": self.round, **self._summary(cohort), "server": server_logs}
        if due:
            record.update(self.evaluation())
        notes = [*notes, *cohort.notes, *record.pop("notes", [])]
        if notes:
            record["notes"] = list(dict.fromkeys(notes))
        end = time.perf_counter()
        timing = {
            "round": self.round,
            "client": cohort.seconds,
            "server": trained - begin - cohort.exchange,
            "evaluation": end - trained + cohort.scoring,
            "wall": end - begin,
        }
        return record, timing

    def select(self) -> tuple[int, ...]:
        """The cohort of this round: it depends on seed and round only, so every method sees the same clients."""
        order = torch.randperm(
            len(self.able), generator=stream(self.run.seed, "cohort", self.round)
        )
        return tuple(sorted(self.able[place] for place in order[: self.run.cohort_size].tolist()))

    def _sample(self) -> dict[int, None]:
        """The clients whose accuracy is measured, in ascending order: by the seed only, as the cohorts."""
        order = torch.randperm(
            self.run.clients, generator=stream(self.run.seed, "evaluated clients")
        )
        return dict.fromkeys(sorted(order[: self.run.evaluate_clients].tolist()))

    def state(self, id: int) -> State:
        """A client's private state."""
        return self.states[id] if id in self.states else self.algorithm.init_client()

    def client(self, id: int) -> Client:
        """What a client function would see of this client now."""
        return ClientWorker(self.setup).client(id, self.round, wire.sent(self.state(id)))

    def evaluation(self) -> Record:
        """Accuracy of clients: `pre` and other series of their personal models now, `post` of their latest training.

        A client that never trained has the untrained model's accuracy as its `post`. One without test data, or outside
        the sample of `evaluate_clients`, has none. Where a validation part is held out, every series has a second one
        that is counted on it.
        """
        outcomes = {}
        notes: list[str] = []
        for ids in _chunks(tuple(self.evaluated), 256):
            cohort = Cohort(
                self.algorithm, self.engine, self.states, ids, self.round
            )  # what it keeps is dropped
            with (
                self._on_server(f"the evaluation after round {self.round}"),
                collect_notes() as noted,
            ):
                messages = self.algorithm.evaluation_messages(self.server, cohort)
                jobs = [
                    ClientJob("personal_model", id, self.round, messages[id], self.state(id))
                    for id in ids
                ]
            notes += noted
            outcomes.update({outcome.client: outcome for outcome in self.engine.run(jobs)})
        scores: dict[str, dict[int, int]] = {}
        for id, outcome in outcomes.items():
            if outcome.represented is not None:
                self.represented[id] = outcome.represented
            for series, count in outcome.scores.items():
                scores.setdefault(series, {})[id] = count
        triples = (series_of(self.partition, name) for name in ("untrained", "pre", "post"))
        for untrained, pre, post in zip(*triples, strict=True):
            if self.round == 0:
                self.right[untrained] = scores[pre]
            if self.right[post] or self._scored_unseen():
                scores[post] = {**self.right[untrained], **self.right[post]}
        accuracy = {series: self._shares(series, right) for series, right in scores.items()}
        names = sorted({name for outcome in outcomes.values() for name in outcome.logs})
        by_client = (
            [outcomes[id].logs if id in outcomes else {} for id in range(self.run.clients)]
            if names
            else []
        )
        logs = {name: [each.get(name) for each in by_client] for name in names}
        notes = dict.fromkeys(
            [*notes, *(text for id in sorted(outcomes) for text in outcomes[id].notes)]
        )
        if untrained := self._untrained():
            notes[f"{untrained} of {len(self.evaluated)} evaluated clients have never trained"] = (
                None
            )
        return {
            "accuracy": accuracy,
            **({"evaluated": logs} if logs else {}),
            **({"notes": list(notes)} if notes else {}),
        }

    def _untrained(self) -> int:
        """Evaluated clients that have training data and were in no cohort yet; none before the first round."""
        return sum(
            id not in self.states
            for id in self.evaluated
            if self.round and len(self.partition.train[id])
        )

    def _scored_unseen(self) -> bool:
        """Whether clients were scored after training if any of the sample had been in a cohort yet."""
        sampled = len(self.evaluated) < self.run.clients
        return (
            sampled
            and self.round > 0
            and type(self.algorithm).trained_model is not Algorithm.trained_model
        )

    def _shares(self, series: str, right: dict[int, int]) -> list[float | None]:
        """Correct samples over samples, of every client that has any and was scored."""
        counted = counted_on(self.partition, series)
        shares: list[float | None] = [None] * self.run.clients
        for id, correct in right.items():
            if len(counted[id]):
                shares[id] = correct / len(counted[id])
        return shares

    @contextmanager
    def _on_server(self, moment: str) -> Iterator[None]:
        """Anything that goes wrong in the method names it and the moment."""
        try:
            yield
        except (RunFailed, Unwritable):  # a state that cannot be read back, a disk that is full
            raise
        except Exception as error:
            cause = f"{type(error).__name__}: {error}".partition("\n")[0]
            where = f"{moment}, on the server"
            raise RunFailed(
                f"{self.algorithm.title} failed in {where}: {cause}", traceback.format_exc()
            ) from error

    def _summary(self, cohort: Cohort) -> Record:
        """What the cohort did: who, mean training loss (by samples, of all passes), bytes by part, clients' logs."""
        names = sorted({name for logs in cohort.logs.values() for name in logs})
        logs = {name: [cohort.logs.get(id, {}).get(name) for id in cohort.ids] for name in names}
        sizes = [len(self.partition.train[id]) for id in cohort.ids]
        passes = (
            [logs.pop("loss")]
            if "loss" in logs
            else [logs[name] for name in names if name.startswith("loss_")]
        )
        known = [
            (loss, n)
            for losses in passes
            for loss, n in zip(losses, sizes, strict=True)
            if loss is not None
        ]
        loss = sum(loss * n for loss, n in known) / sum(n for _, n in known) if known else None
        ways = {"down": cohort.down, "up": cohort.up}
        summed = {way: dict(sum(parts.values(), Counter())) for way, parts in ways.items()}
        return {"cohort": list(cohort.ids), "loss": loss, "bytes": summed, "logs": logs}


def _chunks(ids: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    for first in range(0, len(ids), size):
        yield tuple(ids[first : first + size])
