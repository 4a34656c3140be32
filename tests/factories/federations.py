"""What tests build in one place: federations of methods that are written in a test."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from pflbench.api import Algorithm, Client, Message, Model, Replies, State
from pflbench.data.partition import Partition
from pflbench.simulation.client_worker import Setup
from pflbench.simulation.engine import Engine, Serial
from pflbench.simulation.federation import Federation
from pflbench.testing.problem import toy_setup


class Constant(Algorithm):
    """A method that does nothing, to be changed in a test. Its models are classes: what they say
    for every sample.
    """

    title = "Constant"
    family = "None"

    def init_server(self) -> State:
        return {}

    def client_update(self, client: Client, message: Message) -> tuple[Message, State]:
        return {}, {}

    def aggregate(self, server: State, replies: Replies) -> State:
        return server

    def personal_model(self, client: Client, message: Message) -> Model:
        return 0

    def predict(self, model: Model, x: Tensor) -> Tensor:
        scores = torch.zeros(len(x), self.task.classes)
        scores[:, model] = 1.0
        return scores


@dataclass(frozen=True)
class SetupOf(Setup):
    """A setup whose method is a class that no file holds; worker processes cannot have it."""

    method: type[Algorithm] = Constant

    def algorithm(self) -> Algorithm:
        usual = super().algorithm()
        return self.method(usual.hp, usual.task)


def setup_of(
    method: type[Algorithm],
    split: Partition | None = None,
    hparams: Mapping[str, Any] | None = None,
    **settings: Any,
) -> SetupOf:
    """A small problem for a method, with the hyperparameters that all methods have."""
    setup = toy_setup("fedavg", hparams, split, **settings)
    return SetupOf(**{f.name: getattr(setup, f.name) for f in fields(Setup)}, method=method)


def federation_of(
    method: type[Algorithm],
    split: Partition | None = None,
    engine: type[Serial] = Serial,
    **settings: Any,
) -> Federation:
    """A small federation of a method, in memory and in this process."""
    setup = setup_of(method, split, **settings)
    made: Engine = engine(setup)
    return Federation(setup, made)
