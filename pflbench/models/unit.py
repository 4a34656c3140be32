"""What networks are made of."""

from torch import nn

from pflbench.errors import UserError

Unit = list[tuple[str, nn.Module]]
"""Named layers that stay together when a network is split into body and head."""


def image_sides(model: str, shape: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """Channels, height and width of the images that a network takes; refused if they are none, or
    too small.
    """
    if len(shape) != 3:
        fits = "cnn1d or mlp" if len(shape) == 2 else "mlp"
        raise UserError(
            f"model {model!r} needs images (channels, height, width), not samples of the shape"
            f" {shape}; use --model {fits}"
        )
    channels, height, width = shape
    if min(height, width) < least:
        raise UserError(
            f"model {model!r} needs images of at least {least}x{least}, "
            f"not {height}x{width}; use --model mlp"
        )
    return channels, height, width
