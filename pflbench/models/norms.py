"""Batch norm in a federation: running statistics are part of a network's state, like its weights.

`num_batches_tracked` is left out: it counts batches, and is read only where statistics are the mean
over all batches ever seen (`momentum=None`), which clients that are averaged do not have.
"""

from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from pflbench.errors import UserError


class _SingleValues(_BatchNorm):
    """Batch norm of which a batch with one value per channel has no variance to divide by: it is
    normalised by the running statistics, which stay as they are.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.running_mean is not None and x.numel() == x.shape[1]:
            mean, variance = self.running_mean, self.running_var
            return batch_norm(x, mean, variance, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


class BatchNorm1d(_SingleValues, nn.BatchNorm1d):
    pass


class BatchNorm2d(_SingleValues, nn.BatchNorm2d):
    pass


class BatchNorm3d(_SingleValues, nn.BatchNorm3d):
    pass


OURS: dict[type[_BatchNorm], type[_BatchNorm]] = {
    nn.BatchNorm1d: BatchNorm1d,
    nn.BatchNorm2d: BatchNorm2d,
    nn.BatchNorm3d: BatchNorm3d,
}


def prepare(model: str, net: nn.Module) -> None:
    """Make the batch norms of a network, if any, work in a federation; in place."""
    for name, module in net.named_modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            if module.momentum is None:
                raise UserError(
                    f"model {model!r}: {name} has momentum=None, a mean over all batches that"
                    " clients cannot share; set a number, e.g. 0.1"
                )
            module.num_batches_tracked = None
            module.__class__ = OURS.get(type(module), type(module))
