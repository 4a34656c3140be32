"""What networks are made of."""

from torch import nn

Unit = list[tuple[str, nn.Module]]
"""Named layers that stay together when a network is split into body and head."""
