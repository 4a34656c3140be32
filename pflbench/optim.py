"""Local optimizers: SGD and Adam over a list of parameters, all tensors at once.

Those of torch give the same numbers, but the first of them imports torch's compiler: over a second
in each worker.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor

State = dict[str, dict[str, Tensor]]
"""What is kept of an optimizer: by kind (`v` of SGD; `m`, `s`, `t` of Adam), then by parameter."""


class Optimizer(Protocol):
    """What local training needs of an optimizer."""

    def zero_grad(self) -> None: ...

    def step(self) -> None: ...

    def state(self) -> dict[str, list[Tensor]]: ...

    def load(self, state: Mapping[str, list[Tensor]]) -> None: ...


class SGD:
    """g <- g + decay p; v <- momentum v + g, from 0; p <- p - lr v.

    A parameter without a gradient does not move.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.v = [torch.zeros_like(p) for p in self.parameters] if momentum else []

    def state(self) -> dict[str, list[Tensor]]:
        """What steps change apart from the parameters, a tensor per parameter: v, if there is one."""
        return {"v": self.v} if self.momentum else {}

    @torch.no_grad()
    def load(self, state: Mapping[str, list[Tensor]]) -> None:
        """Go on from a copy of this state."""
        for name, tensors in self.state().items():
            for tensor, kept in zip(tensors, state[name], strict=True):
                tensor.copy_(kept)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        moved = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        if not moved:
            return
        p = [self.parameters[i] for i in moved]
        step = [tensor.grad for tensor in p if tensor.grad is not None]
        if self.weight_decay:
            step = list(torch._foreach_add(step, p, alpha=self.weight_decay))
        if self.momentum:
            v = [self.v[i] for i in moved]
            torch._foreach_mul_(v, self.momentum)
            torch._foreach_add_(v, step)
            step = v
        torch._foreach_add_(p, step, alpha=-self.lr)


class Adam(SGD):
    """g <- g + decay p; m <- b1 m + (1 - b1) g; s <- b2 s + (1 - b2) g^2;
    p <- p - lr m^ / (sqrt(s^) + eps).

    m^ = m / (1 - b1^t), s^ = s / (1 - b2^t), where t counts the steps of the parameter. One kernel
    does all of it.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, weight_decay=weight_decay)
        self.b1 = b1
        self.b2 = b2
        self.eps = eps
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.s = [torch.zeros_like(p) for p in self.parameters]
        self.t = [torch.zeros((), device=p.device) for p in self.parameters]

    def state(self) -> dict[str, list[Tensor]]:
        """The moments m and s, and the number of steps t."""
        return {"m": self.m, "s": self.s, "t": self.t}

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        moved = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        if moved:
            p = [self.parameters[i] for i in moved]
            m = [self.m[i] for i in moved]
            s = [self.s[i] for i in moved]
            t = [self.t[i] for i in moved]
            g = [tensor.grad for tensor in p if tensor.grad is not None]
            torch._foreach_add_(t, 1)
            torch._fused_adam_(
                p, g, m, s, [], t, lr=self.lr, beta1=self.b1, beta2=self.b2, eps=self.eps,
                weight_decay=self.weight_decay, amsgrad=False, maximize=False,
            )  # fmt: skip


_optimizers: ContextVar[dict[str, State] | None] = ContextVar("_optimizers", default=None)


def keep_state(name: str, state: State) -> None:
    """Keep a local optimizer's state; the client's next call finds it in `client.optimizers[name]`."""
    sink = _optimizers.get()
    if sink is None:
        return
    if name in sink:
        raise ValueError(
            f"two local trainings keep their optimizer as {name!r}: give one another `kept_as`"
        )
    sink[name] = state


@contextmanager
def collect_states() -> Iterator[dict[str, State]]:
    """Collect the optimizer states that are kept inside, by name."""
    sink: dict[str, State] = {}
    token = _optimizers.set(sink)
    try:
        yield sink
    finally:
        _optimizers.reset(token)
