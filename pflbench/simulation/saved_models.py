"""The models of a finished run that saved them: made by the method itself from the saved state, as
for the evaluation after the last round.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pflbench.api import LARGE, Algorithm, Message, Model, Net, State
from pflbench.errors import UserError, unknown
from pflbench.records import models
from pflbench.simulation import messages
from pflbench.simulation.client_states import ClientStates
from pflbench.simulation.client_worker import TRAINED, Setup
from pflbench.simulation.cohort import Cohort
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation
from pflbench.simulation.threads import one_thread

POINTS = ("pre", "post")
Samples = Tensor | npt.NDArray[np.generic]
"""(n, ...): as in the data set of the run."""
Labels = npt.NDArray[np.int64]


class ClientModel(nn.Module):
    """A client's model. Calling it gives scores (n, classes); the highest wins.

    Samples are as in the data set, before any scaling; images may also have their channels last, or
    no axis of one channel. `network` is the model as a network, or None
    where a method predicts with more than one (nearest neighbours, prototypes).
    """

    def __init__(self, algorithm: Algorithm, model: Model, client: int, point: str) -> None:
        super().__init__()
        self.client = client
        self.point = point
        self.network: Net | None = _network(algorithm, model)
        self.classes = algorithm.task.classes
        self._algorithm = algorithm
        self._model = model

    @torch.no_grad()
    def forward(self, x: Samples) -> Tensor:
        """Scores (n, classes) of samples, the same bits as in the run: with one thread and in
        batches of the same size.
        """
        task = self._algorithm.task
        samples = _checked(x, task.shape, task.dtype)
        with one_thread():
            scores = [
                self._algorithm.predict(self._model, task.inputs(batch)).cpu()
                for batch in samples.split(LARGE)
            ]
        return torch.cat([torch.zeros(0, task.classes), *scores])

    def predict(self, x: Samples) -> Labels:
        """The label of every sample."""
        return cast(Labels, self(x).argmax(1).numpy())

    def accuracy(self, x: Samples, y: Any) -> float:
        """The fraction of samples whose label is predicted."""
        return float(np.mean(self.predict(x) == np.asarray(y))) if len(x) else float("nan")


def _network(algorithm: Algorithm, model: Model) -> Net | None:
    task = algorithm.task
    plain = isinstance(model, Mapping) and model.keys() == task.initial.keys()
    return task.net(dict(model)) if plain else None


def _checked(x: Samples, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Samples as the data set has them, as a tensor."""
    given = x if isinstance(x, Tensor) else torch.from_numpy(_array(x))
    found = _channels_second(given, shape)
    if found.shape[1:] != shape or found.dtype != dtype:
        kind, wanted = (str(one).removeprefix("torch.") for one in (found.dtype, dtype))
        raise UserError(
            f"samples are {kind} of the shape {tuple(given.shape)}: must be {wanted} of the shape"
            f" {('n', *shape)}, as in the data set of the run".replace("'", "")
        )
    return found


def _array(x: Any) -> npt.NDArray[np.generic]:
    """An array of a kind that torch knows."""
    found = np.array(x)
    if found.dtype.kind not in "biuf":
        raise UserError(
            f"samples are {found.dtype}: must be numbers, as in the data set of the run"
        )
    return found


def _channels_second(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(n, channels, height, width) of images as (n, height, width) or (n, height, width, channels),
    if that is what the data set has.
    """
    if len(shape) == 3 and shape[0] == 1 and x.shape[1:] == shape[1:]:
        return x.unsqueeze(1)
    if len(shape) == 3 and x.ndim == 4 and x.shape[1:] == (*shape[1:], shape[0]) != shape:
        return x.permute(0, 3, 1, 2).contiguous()
    return x


class _SavedStates(ClientStates):
    """Private states in the files of a finished run."""

    def _read(self, id: int) -> State:
        return models.client(self.folder.parent, self._files[id])


class SavedModels:
    """The models of all clients of a run, each made when it is asked for."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        snapshot = models.read(folder)
        self.algorithm = setup.algorithm()
        self.has_all = snapshot.get("has_all_models", False)
        self.engine = Serial(setup)
        states = _SavedStates(folder / models.FOLDER, 2**31)
        self.last = Federation(setup, self.engine, states)
        self.last.restore(snapshot)
        self.first = Federation(setup, self.engine)
        self._messages: dict[tuple[int, tuple[int, ...]], dict[int, Message]] = {}

    def model(self, client: int, point: str | None = None) -> ClientModel:
        """A client's model at an evaluation point, by default that of the method, or under the name
        of another series.
        """
        clients = self.last.run.clients
        if type(client) is not int or not 0 <= client < clients:
            raise UserError(f"client {client}: must be a number from 0 to {clients - 1}")
        chosen = point or self.algorithm.evaluation_point
        with one_thread():
            if chosen == "post":
                found = self._after_training(client)
            else:
                found = self._personal(self.last, client, chosen)
        return ClientModel(self.algorithm, found, client, chosen)

    def _after_training(self, id: int) -> Model:
        """The model after the client's latest training; that of a client that never trained is the
        untrained one, as in the record.
        """
        method = type(self.algorithm)
        if method.trained_model is Algorithm.trained_model:
            raise UserError(f"{method.title} has no model at post: its models are those at pre")
        state = self.last.state(id)
        if TRAINED in state:
            return messages.sent(state[TRAINED], self.algorithm.task.device)
        if id in self.last.states and not self.has_all:
            raise UserError(
                f"client {id} has no model at post: it trained last before --save-models was given"
            )
        return self._personal(self.first, id, "pre")

    def _personal(self, federation: Federation, id: int, series: str) -> Model:
        """The personal model, or an extra one, as it is evaluated."""
        device = self.algorithm.task.device
        message = messages.sent(self._message(federation, id), device)
        state = messages.sent(federation.state(id), device)
        client = self.engine.worker.client(id, federation.round, state)
        if series == "pre":
            return self.algorithm.personal_model(client, message)
        extra = self.algorithm.extra_models(client, message)
        if series not in extra:
            raise unknown("evaluation point", series, [*POINTS, *extra])
        return extra[series]

    def _message(self, federation: Federation, id: int) -> Message:
        """What the client was sent for its evaluation, together with the same others."""
        ids = federation.evaluated_with(id)
        key = (federation.round, ids)
        if key not in self._messages:
            cohort = Cohort(self.algorithm, self.engine, federation.states, ids, federation.round)
            # of one group of clients at a time
            self._messages = {key: self.algorithm.evaluation_messages(federation.server, cohort)}
        return self._messages[key][id]
