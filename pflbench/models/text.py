"""A text classifier."""

from torch import nn

from pflbench.errors import UserError
from pflbench.models.unit import Unit

PADDING = 0
"""The token that fills short texts up; it counts in no mean."""


def text(shape: tuple[int, ...], classes: int, width: int, vocabulary: int) -> list[Unit]:
    """The mean of the tokens' embeddings (k entries each), a hidden layer of k units, the classes."""
    if len(shape) != 1:
        raise UserError(f"model 'text' needs rows of tokens (length,), not of the shape {shape}")
    embedding = nn.EmbeddingBag(vocabulary, width, mode="mean", padding_idx=PADDING)
    return [
        [("embedding", embedding)],
        [("fc1", nn.Linear(width, width)), ("relu1", nn.ReLU())],
        [("fc2", nn.Linear(width, classes))],
    ]
