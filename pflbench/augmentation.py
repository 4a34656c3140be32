"""Random changes of training images: flips and crops."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Augmentation:
    """Each image is flipped left to right with probability 1/2, and then cropped to its own size at
    a random place of itself with `padding` zeros (black pixels) on each side.
    """

    flip: bool
    crop: bool
    padding: int

    def __call__(self, x: Tensor, draws: torch.Generator) -> Tensor:
        """Images (B, channels, height, width), drawn anew for each; x stays as it is."""
        if self.flip:
            x = flipped(x, torch.rand(len(x), generator=draws) < 0.5)
        if self.crop:
            places = torch.randint(2 * self.padding + 1, (len(x), 2), generator=draws)
            x = cropped(x, places, self.padding)
        return x


def augmentation_of(augment: str, padding: int) -> Augmentation | None:
    """What the options `augment` and `crop_padding` say; None for "none"."""
    if augment == "none":
        return None
    return Augmentation("flip" in augment, "crop" in augment, padding)


def flipped(x: Tensor, which: Tensor) -> Tensor:
    """Images whose columns are in reverse order where `which` (B,) says so."""
    return torch.where(which.to(x.device)[:, None, None, None], x.flip(3), x)


def cropped(x: Tensor, places: Tensor, padding: int) -> Tensor:
    """Of every padded image the window of its own size from `places` (B, 2) on, a row and a column."""
    batch, channels, height, width = x.shape
    place = places.to(x.device)
    image = torch.arange(batch, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    row = (place[:, :1] + torch.arange(height, device=x.device))[:, None, :, None]
    column = (place[:, 1:] + torch.arange(width, device=x.device))[:, None, None, :]
    return pad(x, (padding,) * 4)[image, channel, row, column]
