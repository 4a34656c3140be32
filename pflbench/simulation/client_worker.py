"""Where client functions run: builds what they see, runs them, evaluates models. One in every
process.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pflbench import models, optim
from pflbench.api import (
    LARGE,
    Algorithm,
    Client,
    Message,
    Model,
    Net,
    Params,
    Samples,
    State,
    Task,
    collect_logs,
    collect_notes,
)
from pflbench.augmentation import augmentation_of
from pflbench.config import Run
from pflbench.data.label_skew import Ints
from pflbench.data.partition import Partition
from pflbench.data.prepared import Data
from pflbench.data.standard import Standard
from pflbench.errors import UserError
from pflbench.logs import Work, collect_work
from pflbench.methods import registry
from pflbench.methods.failures import failure
from pflbench.simulation import contract, gpu, messages, representations
from pflbench.simulation.gpu import RowsThere
from pflbench.simulation.representations import Vectors

OPTIMIZERS = "kept optimizers"
"""The key of a client's stored state that the method does not see: states of its local optimizers,
by name.
"""
TRAINED = "trained model"
"""Another such key, where models are saved: what `trained_model` made after the client's latest
training.
"""


@dataclass(frozen=True)
class Setup:
    """All that a worker needs to know of a run; small when pickled (data go by the path of their
    memory map).
    """

    run: Run
    plugin: str  # what registry.load takes
    data: Data
    partition: Partition
    device: str = "cpu"
    standard: Standard | None = None  # of features that are standardized

    def algorithm(self) -> Algorithm:
        """The method of this run, on its task."""
        cls = registry.load(self.plugin)
        run, data = self.run, self.data
        skeleton, initial, width = self._network()
        task = Task(
            skeleton=skeleton,
            initial=initial,
            classes=data.classes,
            width=width,
            shape=data.shape,
            clients=run.seen_clients,
            dataset=run.dataset,
            seed=run.seed,
            device=device_of(self.device),
            pretrained=run.body_weights is not None,
            another=lambda draw: self._network(draw)[1],
            dtype=getattr(torch, data.x.dtype.name),
            standard=self._mean_and_std(),
        )
        hp = registry.hparams_type(cls)(**run.hparams)
        if hp.augment != "none" and data.kind != "images":
            raise UserError(f"augment = {hp.augment}: is for images, and {data.title} has none")
        return cls(hp, task)

    def _network(self, draw: int = 0) -> tuple[Net, Params, int]:
        """Skeleton, initial parameters and width of the network; `draw`: of other random values."""
        run, data = self.run, self.data
        skeleton, initial, width = models.build(
            run.model,
            data.shape,
            data.classes,
            width=run.width,
            head_layers=run.head_layers,
            seed=run.seed,
            draw=draw,
            vocabulary=data.vocabulary,
        )
        if run.body_weights is not None:
            initial.update(models.load_body(run.body_weights, initial))
        return skeleton, initial, width

    def _mean_and_std(self) -> tuple[Tensor, Tensor] | None:
        """Of features, in a shape that fits samples, on the device."""
        if self.standard is None:
            return None
        axes = (-1, *[1] * (len(self.data.shape) - 1))
        mean, std = torch.tensor(self.standard.mean), torch.tensor(self.standard.std)
        device = device_of(self.device)
        return mean.reshape(axes).to(device), std.reshape(axes).to(device)


def device_of(name: str) -> torch.device:
    """The device of this name, if it is there."""
    try:
        device = torch.device(name)
        gpu.prepare(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"device {name!r} cannot be used here: {reason}") from error
    return device


def series_of(split: Partition, name: str) -> list[str]:
    """The series of accuracies of models under a name: on the test and, if there is one, the
    validation part.
    """
    return [name, f"{name}_validation"] if "validation" in split.parts else [name]


def evaluated_on(split: Partition, series: str) -> tuple[Ints, ...]:
    """The samples of every client that the accuracies of a series are of."""
    return split.validation if series.endswith("_validation") else split.test


@dataclass(frozen=True)
class ClientJob:
    """Work for one client: a client function (`stage`), or the evaluation of its personal model."""

    stage: str
    client: int
    round: int
    message: Message
    state: State
    evaluate: bool = False  # the trained model too, after `client_update`
    work: float = 1.0  # share of its batches that the client does
    keep_model: bool = False  # the same model stays in the stored state


@dataclass(frozen=True)
class ClientResult:
    """What came of a job."""

    client: int
    reply: Message = field(default_factory=dict)
    state: State = field(default_factory=dict)
    logs: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    correct: dict[str, int] = field(default_factory=dict)  # series -> samples classified correctly
    represented: Vectors | None = None  # z of test samples, after the last round
    work: Work = field(default_factory=Work)  # of the client function
    seconds: float = 0.0  # of the client function
    evaluation_seconds: float = 0.0  # of the trained model
    finite: bool = True  # all numbers of the reply, the state and the evaluated models' scores


class NotFinite(Exception):
    """Scores of a model that say nothing: they are infinite or not a number."""


class Rows:
    """Some rows of a memory-mapped array, read when they are asked for."""

    def __init__(self, x: Any, indices: Any) -> None:
        self.x = x
        self.indices = indices

    def __getitem__(self, rows: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(self.x[self.indices[rows.numpy()]]))


class ClientWorker:
    """Does the jobs of clients: it has the data, a method of its own, and a device."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.algorithm = setup.algorithm()
        self.task = self.algorithm.task
        self.there = gpu.resident(setup.data.x, self.task.device)
        hp = self.algorithm.hp
        self.augmentation = augmentation_of(hp.augment, hp.crop_padding)

    def client(self, id: int, round: int, state: State) -> Client:
        """The view that a client function gets of a client with this stored state."""
        data, rows = self.setup.data, self.setup.partition.train[id]
        y = torch.from_numpy(np.asarray(data.y[rows])).to(self.task.device)
        own = {key: value for key, value in state.items() if key not in (OPTIMIZERS, TRAINED)}
        optimizers = state.get(OPTIMIZERS, {})
        samples = self._rows(rows)
        augmentation = self.augmentation
        return Client(id, round, self.task, samples, y, own, optimizers, augmentation=augmentation)

    def _rows(self, rows: Ints) -> Samples:
        """These samples, where they are."""
        return Rows(self.setup.data.x, rows) if self.there is None else RowsThere(self.there, rows)

    def work(self, job: ClientJob) -> ClientResult:
        """Do a job on copies of its message and state; a failure names the method, round, client
        and stage.
        """
        with self._naming_failures(job):
            device = self.task.device
            client = self.client(job.client, job.round, messages.sent(job.state, device))
            client = replace(client, work=job.work)
            message = messages.sent(job.message, device)
            try:
                if job.stage == "personal_model":
                    return self._evaluate(client, message)
                if job.stage == "adapted_model":
                    return self._adapt(client, message)
                return self._call(job, client, message)
            except NotFinite:
                return ClientResult(job.client, finite=False)

    def _call(self, job: ClientJob, client: Client, message: Message) -> ClientResult:
        """Run a client function and, if asked for, evaluate the model that it trained."""
        start = time.perf_counter()
        with collect_logs() as logs, collect_notes() as notes:
            with optim.collect_states() as optimizers, collect_work() as work:
                returned = getattr(self.algorithm, job.stage)(client, message)
                reply, state = contract.reply_and_state(returned, f"{job.stage}()")
            reply, kept = messages.sent(reply), messages.sent(state)
            if client.optimizers or optimizers:
                kept[OPTIMIZERS] = messages.sent({**client.optimizers, **optimizers})
            trained = time.perf_counter()
            correct: dict[str, int] = {}
            model = z = None
            after = replace(client, state=state)
            if job.evaluate and job.stage == "client_update":
                model = self._trained_model(after, message, reply)
                if model is not None:
                    correct = self._correct_by_series("post", model, client.id)
                    z = self._represented("post", model, client.id, job.round + 1)
        finite = messages.finite(reply) and messages.finite(kept)
        if TRAINED in job.state:
            kept[TRAINED] = job.state[TRAINED]
        if job.keep_model and job.stage == "client_update":
            if not job.evaluate:
                with collect_logs(), collect_notes():
                    model = self._trained_model(after, message, reply)
            if model is not None:
                kept[TRAINED] = messages.sent(model)
        end = time.perf_counter()
        return ClientResult(
            client.id,
            reply,
            kept,
            logs,
            notes,
            correct,
            z,
            work,
            trained - start,
            end - trained,
            finite,
        )

    def _trained_model(self, after: Client, message: Message, reply: Message) -> Model | None:
        received = messages.sent(reply, self.task.device)
        return self.algorithm.trained_model(after, message, received)

    def _evaluate(self, client: Client, message: Message) -> ClientResult:
        """Evaluate the client's personal model, and the method's extra ones."""
        with collect_logs() as logs, collect_notes() as notes:
            personal = self.algorithm.personal_model(client, message)
            correct = self._correct_by_series("pre", personal, client.id)
            further = contract.by_series(self.algorithm.extra_models(client, message))
            for name, model in further.items():
                correct.update(self._correct_by_series(name, model, client.id))
            z = self._represented("pre", personal, client.id, client.round)
        return ClientResult(client.id, logs=logs, notes=notes, correct=correct, represented=z)

    def _adapt(self, client: Client, message: Message) -> ClientResult:
        """Evaluate the models of a new client after passes over its own data."""
        correct: dict[str, int] = {}
        for epochs in self.setup.run.new_client_passes:
            model = self.algorithm.adapted_model(client, message, epochs)
            correct.update(self._correct_by_series(f"new_{epochs}", model, client.id))
        return ClientResult(client.id, correct=correct)

    def _correct_by_series(self, name: str, model: Model, id: int) -> dict[str, int]:
        split = self.setup.partition
        return {
            series: self._correct(model, evaluated_on(split, series)[id])
            for series in series_of(split, name)
        }

    @torch.no_grad()
    def _correct(self, model: Model, rows: Ints) -> int:
        """How many of these samples the model classifies correctly."""
        data = self.setup.data
        x = self._rows(rows)
        y = torch.from_numpy(np.asarray(data.y[rows])).to(self.task.device)
        correct = torch.zeros((), dtype=torch.int64, device=self.task.device)
        for batch in torch.arange(len(rows)).split(LARGE):
            scores = contract.scores(self.algorithm.predict(model, self.task.inputs(x[batch])))
            if scores.shape != (len(batch), self.task.classes):
                raise ValueError(
                    f"predict() returned scores of the shape {tuple(scores.shape)},"
                    f" not (samples, classes) = {(len(batch), self.task.classes)}"
                )
            best, label = scores.max(1)
            if not best.isfinite().all():  # an absent class may have -inf
                raise NotFinite
            correct += (label == y[batch.to(y.device)]).sum()
        return int(correct)

    def _represented(self, point: str, model: Model, id: int, rounds: int) -> Vectors | None:
        """z of a client's first test samples, if asked for: at the method's evaluation point, after
        the last round.
        """
        run = self.setup.run
        last = rounds == run.rounds
        if not run.representations or not last or point != self.algorithm.evaluation_point:
            return None
        rows = self.setup.partition.test[id][: run.representations]
        return representations.taken(model, self.task, self._rows(rows), len(rows))

    @contextmanager
    def _naming_failures(self, job: ClientJob) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also an exit
            where = f"round {job.round + 1}, client {job.client}, {job.stage}()"
            raise failure(type(self.algorithm), where, error) from error
