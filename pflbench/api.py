"""The contract between a method and the harness.

A method is one class, `Algorithm`, whose functions are pure: they read their arguments, return new values and keep
nothing on `self`. What travels between server and clients, and what a client keeps for itself, are dicts whose leaves
are tensors. The harness copies at every hand-over, so no two parties ever share storage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from pflbench.augmentation import Augmentation
from pflbench.errors import UserError
from pflbench.hparams import OPTIONS, Hparams, hparam, refuse_options
from pflbench.logs import collect_logs, collect_notes, count_batch, log, note
from pflbench.task import Dropout, Net, Params, Task

__all__ = [
    "LARGE",
    "OPTIONS",
    "Algorithm",
    "Client",
    "ClientFunction",
    "Cohort",
    "Dropout",
    "Hparams",
    "Loss",
    "Message",
    "Model",
    "Net",
    "Params",
    "Replies",
    "Samples",
    "State",
    "Task",
    "UserError",
    "collect_logs",
    "collect_notes",
    "hparam",
    "log",
    "note",
    "refuse_options",
]

Message = dict[str, Any]
"""What is sent: top-level keys are its parts (`theta`, `phi`, `pi`, `omega`, ...), leaves are tensors."""
State = dict[str, Any]
"""What a server or a client keeps between rounds; leaves are tensors."""
Model = Any
"""What `predict` takes: parameters of a network, or whatever tree of tensors a method scores with."""
Replies = dict[int, Message]
"""Replies by client id, in ascending order of id."""
Loss = Callable[["Net", Tensor, Tensor], Tensor]
"""loss(net, x, y) -> scalar; x: (B, channels, height, width), y: (B,)."""


LARGE = 256
"""Samples in a batch without gradients. Twice as many take longer: the system then hands out fresh memory each time."""


class Samples(Protocol):
    """Samples that are read on demand: a tensor (uint8, float32 or int64), or rows of a memory map."""

    def __getitem__(self, rows: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Client:
    """What a client function sees: the client's training data, its private state and its random streams."""

    id: int
    round: int  # from 0
    task: Task
    x: Samples  # (n, ...) as in the data set: images (n, channels, height, width) are uint8
    y: Tensor  # (n,) int64, on the device
    state: State
    optimizers: Mapping[str, State] = field(default_factory=dict)  # kept states, by name
    work: float = 1.0  # share of its batches that the client does; a slow one does less
    augmentation: Augmentation | None = None  # of the images in batches

    @cached_property
    def n(self) -> Tensor:
        """n_i, as a tensor so that it can be sent."""
        return torch.tensor(len(self.y), dtype=torch.int32, device=self.y.device)

    @cached_property
    def counts(self) -> Tensor:
        """n_ic for every class c: (C,) int32."""
        onehot = nn.functional.one_hot(self.y, self.task.classes)
        return onehot.sum(0).to(torch.int32)

    def batches(
        self, size: int, epochs: int = 1, stream: str = "train", z: Tensor | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Shuffled batches (x, y), or (z, y) if there is a row of z for every sample.

        The order depends on seed, client, round and the name of the stream only. A slow client has
        the first of them, at least one. Images are augmented, if the run says so.
        """
        order = self.generator(stream)
        draws = self.generator("augment", stream) if self.augmentation else None
        left = self.steps(epochs * math.ceil(len(self.y) / size))
        for _ in range(epochs if len(self.y) else 0):
            for rows in torch.randperm(len(self.y), generator=order).split(size):
                if left == 0:
                    return
                left -= 1
                count_batch(len(rows))
                here = rows.to(self.y.device)
                yield self._augmented(rows, draws) if z is None else z[here], self.y[here]

    def _augmented(self, rows: Tensor, draws: torch.Generator | None) -> Tensor:
        x = self.x[rows]
        if self.augmentation and draws:
            x = self.augmentation(x, draws)
        return self.task.inputs(x)

    def steps(self, planned: int) -> int:
        """How many of the planned steps the client does: all, or the share of a slow one, at least one."""
        return min(planned, max(1, int(self.work * planned + 1e-9)))

    def samples(self, size: int = LARGE) -> Iterator[tuple[Tensor, Tensor]]:
        """All training samples once, in order, as they are, in large batches: for statistics."""
        for rows in torch.arange(len(self.y)).split(size) if len(self.y) else ():
            yield self.task.inputs(self.x[rows]), self.y[rows.to(self.y.device)]

    def generator(self, *names: object) -> torch.Generator:
        """A random stream of this client in this round, named."""
        from pflbench.rng import stream

        return stream(self.task.seed, "client", self.id, self.round, *names)


class Cohort(Protocol):
    """The clients of a round, as the server sees them."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the selected clients."""

    @property
    def round(self) -> int:
        """Number of the round, from 0."""

    def call(self, function: ClientFunction, messages: Mapping[int, Message]) -> Replies:
        """Send each client its message, run `function` there, keep the new private states, return the replies.

        A client that fails gets its first message of the round and never replies: there may be fewer replies than
        messages, or none.
        """


ClientFunction = Callable[[Client, Message], tuple[Message, State]]


class Algorithm:
    """A method. Subclasses declare `hp: TheirHparams` and define at least `client_update`, `aggregate` and
    `personal_model`."""

    title: ClassVar[str]
    family: ClassVar[str]  # what the method is built on, in two words: "Model splitting"
    # the point whose accuracy tables show
    evaluation_point: ClassVar[Literal["pre", "post"]] = "pre"
    # where the network may have running statistics
    batch_norm: ClassVar[Literal["anywhere", "body", "nowhere"]] = "anywhere"
    one_shot: ClassVar[bool] = False  # all messages travel once; `costs` then counts the whole run
    # conformance check -> why this method cannot pass it
    exceptions: ClassVar[Mapping[str, str]] = {}
    # network of checks and golden numbers; "": the usual small ones
    check_model: ClassVar[str] = ""
    hp: Hparams

    def __init__(self, hp: Hparams, task: Task) -> None:
        self.hp = hp
        self.task = task
        refused = {"anywhere": (), "body": ("head.",), "nowhere": ("body.", "head.")}
        for name in sorted(task.statistics):
            if name.startswith(refused[self.batch_norm]):
                where = "of the head " if self.batch_norm == "body" else ""
                raise UserError(
                    f"{self.title} has no place for running statistics {where}as {name};"
                    " use a network without batch norm there"
                )

    def init_server(self) -> State:
        """The server's state before the first round: the common initial model."""
        return {"theta": dict(self.task.initial)}

    def init_client(self) -> State:
        """A client's private state before its first round."""
        return {}

    def download(self, server: State, ids: tuple[int, ...]) -> dict[int, Message]:
        """The message to each of these clients, among which may be clients that never took part."""
        return dict.fromkeys(ids, server)

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        """A client in a round: from message and `client.state` to reply and new private state."""
        raise TypeError(f"{type(self).__name__} does not define client_update(client, message)")

    def aggregate(self, server: State, replies: Replies) -> State:
        """The new state of the server, from the replies by client id."""
        raise TypeError(f"{type(self).__name__} does not define aggregate(server, replies)")

    def round(self, server: State, cohort: Cohort) -> State:
        """One round. Override it if a round has several exchanges; each may have fewer replies than messages."""
        replies = cohort.call(self.client_update, self.download(server, cohort.ids))
        return self.aggregate(server, replies) if replies else server

    def evaluation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        """What `personal_model` gets for each of these clients: by default the newest download.

        Override it if the server has to ask the clients first. `cohort.call` works as in a round, except that no
        traffic is counted and new private states are dropped.
        """
        return self.download(server, cohort.ids)

    def personal_model(self, client: Client, message: Message) -> Model:
        """The model evaluated at `pre`, before local training: from `client.state` and message."""
        raise TypeError(f"{type(self).__name__} does not define personal_model(client, message)")

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model | None:
        """The model evaluated at `post`, after `client_update`; `client.state` is the new one."""
        return None

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        """Further models to evaluate together with the personal one, by the name of their series."""
        return {}

    def adaptation_messages(self, server: State, cohort: Cohort) -> dict[int, Message]:
        """What `adapted_model` gets for each of these clients, which never took part: by default
        the newest download.

        Override it if a new client needs something else; `cohort.call` works as for `evaluation_messages`.
        """
        return self.download(server, cohort.ids)

    def adapted_model(self, client: Client, message: Message, epochs: int) -> Model:
        """The model of a client that never took part, after so many epochs on its own data.

        Nothing of it is sent or kept. By default the model after a `client_update` with these epochs: that of
        `trained_model`, or else of `personal_model`.
        """
        alone = type(self)(replace(self.hp, epochs=epochs), self.task)
        reply, state = alone.client_update(client, message)
        after = replace(client, state=state)
        trained = alone.trained_model(after, message, reply)
        return alone.personal_model(after, message) if trained is None else trained

    def predict(self, model: Model, x: Tensor) -> Tensor:
        """Scores (B, C) of a model for a batch; the highest wins."""
        logits: Tensor = self.net(model)(x)
        return logits

    def costs(self) -> tuple[str, str]:
        """Numbers of 4 bytes sent to and by a client per round: two formulas, which may depend on `self.hp` alone.

        Names in them are theta, phi, pi, C, k, N, the client's own C_i and n_i, and those of `sizes`.
        """
        return "theta", "theta + 1"

    def sizes(self) -> dict[str, int]:
        """Names of the method's own in the formulas of `costs`."""
        return {}

    def net(self, theta: Params) -> Net:
        """A network of these parameters, in evaluation mode."""
        return self.task.net(theta)
