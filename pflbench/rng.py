"""Random streams that are seeded by names, never by the order of calls.

`stream(0, "batches", 3, 7)` is the same generator on every machine, in every process and whatever
was drawn before, so results cannot depend on which client ran first or how many workers there were.
"""

import hashlib

import numpy as np
import torch


def seed_of(*names: object) -> int:
    """A 63-bit seed from a tuple of names; value and type of a name count (`1` is not
    `"1"`).
    """
    digest = hashlib.blake2b(repr(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def stream(*names: object) -> torch.Generator:
    """The torch generator of these names (on the CPU: draws are moved to the device, so devices
    agree).
    """
    return torch.Generator().manual_seed(seed_of(*names))


def numpy_stream(*names: object) -> np.random.Generator:
    """The numpy generator of these names."""
    return np.random.default_rng(seed_of(*names))
