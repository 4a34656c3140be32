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
            torch._foreach_add_(
                moved, [p.grad for p in moved if p.grad is not None], alpha=-self.lr
            )


class Adam(SGD):
    """m <- b1 m + (1 - b1) g; s <- b2 s + (1 - b2) g^2; p <- p - lr m^ / (sqrt(s^) + eps).

    m^ = m / (1 - b1^t), s^ = s / (1 - b2^t), where t counts the steps of the parameter. One kernel does all of it.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, lr)
        self.b1, self.b2, self.eps = b1, b2, eps
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.s = [torch.zeros_like(p) for p in self.parameters]
        self.t = [torch.zeros((), device=p.device) for p in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        moved = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        if moved:
            p, m, s, t = (
                [tensors[i] for i in moved] for tensors in (self.parameters, self.m, self.s, self.t)
            )
            g = [tensor.grad for tensor in p if tensor.grad is not None]
            torch._foreach_add_(t, 1)
            torch._fused_adam_(
                p, g, m, s, [], t, lr=self.lr, beta1=self.b1, beta2=self.b2, eps=self.eps,
                weight_decay=0.0, amsgrad=False, maximize=False,
            )  # fmt: skip
