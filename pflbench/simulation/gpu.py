"""Runs on a GPU: the same bits in every attempt on one kind of GPU, and data that are copied once."""

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

WORKSPACE = ":4096:8"  # of cuBLAS: with buffers of a fixed size its sums have one order
SHARE = 4  # data may take one part in so many of the memory that is free


def prepare(device: str) -> None:
    """Choose deterministic kernels and whole 32-bit products, in this process and before its first
    call of CUDA; nothing for other devices.
    """
    if device.partition(":")[0] != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", WORKSPACE)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def resident(x: Any, device: torch.device) -> Tensor | None:
    """The samples on the GPU, if they fit; None: they are copied batch by batch."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return torch.from_numpy(np.array(x)).to(device) if x.nbytes <= free // SHARE else None


class RowsThere:
    """Some rows of samples that are on a device."""

    def __init__(self, x: Tensor, indices: Any) -> None:
        self.x = x
        self.indices = torch.from_numpy(np.asarray(indices)).to(x.device)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.x[self.indices[rows.to(self.x.device)]]
