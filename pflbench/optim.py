"""Local optimizers: SGD and Adam over a list of parameters, all tensors at once.

Those of torch give the same numbers, but the first of them imports torch's compiler: over a second in each worker.
"""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    """What local training needs of an optimizer; those of torch have it too."""

    def zero_grad(self) -> None: ...

    def step(self) -> None: ...


class SGD:
    """p <- p - lr g: no momentum, no weight decay. A parameter without a gradient stays as it is."""

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        self.parameters = list(parameters)
        self.lr = lr

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        moved = [p for p in self.parameters if p.grad is not None]
        if moved:
            torch._foreach_add_(moved, [p.grad for p in moved if p.grad is not None], alpha=-self.lr)


class Adam(SGD):
    """m <- b1 m + (1 - b1) g; s <- b2 s + (1 - b2) g^2; p <- p - lr m^ / (sqrt(s^) + eps).

    m^ = m / (1 - b1^t), s^ = s / (1 - b2^t), where t counts the steps of the parameter.
    """

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
    ) -> None:
        super().__init__(parameters, lr)
        self.b1, self.b2, self.eps = b1, b2, eps
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.s = [torch.zeros_like(p) for p in self.parameters]
        self.t = [0] * len(self.parameters)

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        groups: dict[int, list[int]] = {}  # by steps done: one, unless some parameters had no gradient before
        for i, p in enumerate(self.parameters):
            if p.grad is not None:
                groups.setdefault(self.t[i], []).append(i)
        for t, group in groups.items():
            self._step_of(group, t + 1)

    def _step_of(self, group: list[int], t: int) -> None:
        p, m, s = ([tensors[i] for i in group] for tensors in (self.parameters, self.m, self.s))
        g = [tensor.grad for tensor in p if tensor.grad is not None]
        torch._foreach_lerp_(m, g, 1 - self.b1)
        torch._foreach_mul_(s, self.b2)
        torch._foreach_addcmul_(s, g, g, 1 - self.b2)
        below = torch._foreach_sqrt(s)
        torch._foreach_div_(below, (1 - self.b2**t) ** 0.5)
        torch._foreach_add_(below, self.eps)
        torch._foreach_addcdiv_(p, m, below, -self.lr / (1 - self.b1**t))
        for i in group:
            self.t[i] = t
