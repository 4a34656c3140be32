"""Checks of a network: one that ships with pflbench, or a file of your own."""

import ast
import time
from collections.abc import Callable, Iterator
from inspect import getdoc
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pflbench import models, plugin_file
from pflbench.api import Net, Params, Task
from pflbench.config import user_path
from pflbench.errors import UserError
from pflbench.testing.kit import CheckResult, Failed

Claim = tuple[tuple[int, ...], int | None]
"""The shape of samples and, of tokens, their vocabulary."""
USUAL: list[Claim] = [
    ((3, 32, 32), None),
    ((1, 28, 28), None),
    ((9, 128), None),
    ((64,), None),
    ((32,), 100),
]
"""What is tried where a file has no SHAPES."""
CLASSES = 7


def is_network(name: str) -> bool:
    """Whether a name or a file is a network: its code has a function `build`. Nothing is executed."""
    if name in models.MODELS:
        return True
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body)


class Subject:
    """A network, built for one shape of samples."""

    def __init__(self, name: str, claim: Claim) -> None:
        self.name = name
        self.shape, self.vocabulary = claim
        skeleton, self.initial, width = self.built()
        self.task = Task(skeleton, self.initial, CLASSES, width, self.shape, 1, dataset="", seed=0)

    def built(self, seed: int = 0) -> tuple[Net, Params, int]:
        return models.build(
            self.name, self.shape, CLASSES, width=32, seed=seed, vocabulary=self.vocabulary
        )

    def samples(self, number: int) -> Tensor:
        draws = torch.Generator().manual_seed(1)
        if self.vocabulary is None:
            return torch.rand(number, *self.shape, generator=draws)
        return torch.randint(self.vocabulary, (number, *self.shape), generator=draws)


def same_start_for_the_same_seed(subject: Subject) -> None:
    """Initial values depend on the seed, and on nothing else."""
    again, other = subject.built()[1], subject.built(seed=1)[1]
    if any(not torch.equal(p, again[name]) for name, p in subject.initial.items()):
        raise Failed(
            "two networks with the same seed differ; draw from torch's global generator only"
        )
    if all(torch.equal(p, other[name]) for name, p in subject.initial.items()):
        raise Failed("networks with different seeds are equal")


def repeats_itself_in_training(subject: Subject) -> None:
    """Two networks of the same values give the same logits in training."""
    x = subject.samples(4)
    first, second = (subject.task.net(subject.initial).train()(x) for _ in range(2))
    if not torch.equal(first, second):
        raise Failed("two passes over the same samples differ; nothing in forward may be random")


def samples_do_not_see_each_other(subject: Subject) -> None:
    """In evaluation, the logits of a sample do not depend on the others in its batch."""
    x, net = subject.samples(4), subject.task.net(subject.initial)
    with torch.no_grad():
        alone = torch.cat([net(sample[None]) for sample in x])
        together = net(x)
    if not torch.allclose(alone, together, rtol=1e-4, atol=1e-5):
        raise Failed("the logits of a sample alone and in a batch differ; keep running statistics")


def one_sample_in_training(subject: Subject) -> None:
    """A batch of one sample can be trained on."""
    logits = subject.task.net(subject.initial).train()(subject.samples(1))
    if not logits.isfinite().all():
        raise Failed("the logits of a batch of one sample are not finite")


def gradients_reach_every_parameter(subject: Subject) -> None:
    """The loss has a gradient in every parameter, of body and head."""
    net = subject.task.net(subject.initial).train()
    cross_entropy(net(subject.samples(8)), torch.arange(8) % CLASSES).backward()
    without = [name for name, p in net.named_parameters() if p.grad is None]
    if without:
        raise Failed(f"no gradient reaches {', '.join(without)}; leave it out, or use it")


CHECKS: list[Callable[[Subject], None]] = [
    same_start_for_the_same_seed,
    repeats_itself_in_training,
    samples_do_not_see_each_other,
    one_sample_in_training,
    gradients_reach_every_parameter,
]


def checks(name: str) -> Iterator[CheckResult]:
    """All checks on a network, for every shape that its file claims (SHAPES) or that is usual."""
    start = time.perf_counter()
    try:
        subjects = _subjects(name)
    except UserError as error:
        yield CheckResult("builds", False, None, str(error), time.perf_counter() - start)
        return
    shapes = ", ".join(str(subject.shape) for subject in subjects)
    said = f"It is built with body and head for samples of {shapes}."
    yield CheckResult("builds", True, None, said, time.perf_counter() - start)
    for function in CHECKS:
        yield _result(function, subjects)


def _result(function: Callable[[Subject], None], subjects: list[Subject]) -> CheckResult:
    start = time.perf_counter()
    name = function.__name__.replace("_", "-")
    for subject in subjects:
        try:
            function(subject)
        except Exception as error:
            reason = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
            said = f"samples of {subject.shape}: {reason}".partition("\n")[0]
            return CheckResult(name, False, None, said, time.perf_counter() - start)
    return CheckResult(name, True, None, getdoc(function) or "", time.perf_counter() - start)


def _subjects(name: str) -> list[Subject]:
    """The network for each shape that its file claims; without claims, for those that fit."""
    claimed = None
    if name.endswith(".py"):
        claimed = getattr(plugin_file.execute(user_path(name), kind="network"), "SHAPES", None)
    if claimed is not None:
        return [Subject(name, (tuple(shape), None)) for shape in claimed]
    found, refused = [], []
    for claim in USUAL:
        try:
            found.append(Subject(name, claim))
        except UserError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found
