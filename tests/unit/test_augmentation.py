"""Flips and crops of training images: on known images, from a stream of their own, in batches alone."""

from dataclasses import replace

import pytest
import torch

from pflbench.augmentation import Augmentation, augmentation_of, cropped, flipped
from pflbench.errors import UserError
from pflbench.simulation.client_worker import Setup
from pflbench.testing import toy
from pflbench.testing.problem import toy_setup

IMAGE = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.uint8)[None, None]  # (1, 1, 2, 3)


def test_a_flip_reverses_the_columns_of_the_images_that_are_meant():
    both = torch.cat([IMAGE, IMAGE + 10])
    found = flipped(both, torch.tensor([True, False]))
    assert found[0, 0].tolist() == [[3, 2, 1], [6, 5, 4]]
    assert torch.equal(found[1], both[1])


@pytest.mark.parametrize(
    "place, expected",
    [
        ((1, 1), [[1, 2, 3], [4, 5, 6]]),  # in the middle: the image itself
        ((0, 0), [[0, 0, 0], [0, 1, 2]]),
        ((2, 1), [[4, 5, 6], [0, 0, 0]]),
        ((1, 2), [[2, 3, 0], [5, 6, 0]]),
    ],
)
def test_a_crop_is_a_window_of_the_image_in_zeros(place, expected):
    found = cropped(IMAGE, torch.tensor([place]), padding=1)
    assert found[0, 0].tolist() == expected
    assert found.dtype == torch.uint8


def test_every_image_of_a_batch_has_its_own_window_and_all_channels_the_same():
    x = torch.arange(24, dtype=torch.uint8).view(2, 3, 2, 2)
    found = cropped(x, torch.tensor([[1, 1], [0, 2]]), padding=1)
    assert torch.equal(found[0], x[0])
    for channel in range(3):
        assert found[1, channel].tolist() == [[0, 0], [int(x[1, channel, 0, 1]), 0]]


def test_half_of_the_images_are_flipped_and_all_windows_occur():
    x = IMAGE.expand(2000, -1, -1, -1)
    draws = torch.Generator().manual_seed(0)
    flips = Augmentation(flip=True, crop=False, padding=1)(x, draws)
    assert 0.45 < float((flips[:, 0, 0, 0] == 3).float().mean()) < 0.55
    crops = Augmentation(flip=False, crop=True, padding=1)(x, draws)
    windows = {tuple(image.flatten().tolist()) for image in crops}
    assert len(windows) == 9


@pytest.mark.parametrize("augment", ["flip", "crop", "flip+crop"])
def test_the_options_say_what_is_done(augment: str):
    made = augmentation_of(augment, 3)
    assert made == Augmentation("flip" in augment, "crop" in augment, 3)
    assert augmentation_of("none", 3) is None


def test_batches_are_augmented_in_the_same_order_and_samples_are_not():
    plain, augmented = (
        toy("fedavg", {"augment": augment}).client(0) for augment in ("none", "flip+crop")
    )
    pairs = list(zip(plain.batches(8, 2), augmented.batches(8, 2), strict=True))
    assert all(torch.equal(y, again) for (_, y), (_, again) in pairs)
    assert not any(torch.equal(x, other) for (x, _), (other, _) in pairs)
    for (x, _), (other, _) in zip(plain.samples(), augmented.samples(), strict=True):
        assert torch.equal(x, other)


def test_a_flip_in_a_batch_is_of_the_pixels_that_training_sees():
    plain, augmented = (toy("fedavg", {"augment": how}).client(0) for how in ("none", "flip"))
    seen = set()
    for (x, _), (other, _) in zip(plain.batches(8), augmented.batches(8), strict=True):
        for image, changed in zip(x, other, strict=True):
            is_flipped = torch.equal(changed, image.flip(2))
            assert is_flipped or torch.equal(changed, image)
            seen.add(is_flipped)
    assert seen == {True, False}


def test_draws_depend_on_client_round_and_stream_alone():
    client = toy("fedavg", {"augment": "crop"}).client(0)
    torch.rand(7)  # the global generator has no part in it
    first, again = (next(client.batches(8))[0] for _ in range(2))
    assert torch.equal(first, again)
    later = replace(client, round=1)
    order, draws = client.generator("train"), client.generator("augment", "train")
    rows = torch.randperm(len(client.y), generator=order)[:8]
    assert client.augmentation is not None
    assert torch.equal(first, client.task.inputs(client.augmentation(client.x[rows], draws)))
    assert not torch.equal(first, next(later.batches(8))[0])


def test_what_is_no_image_is_refused_in_one_line():
    setup = toy_setup("fedavg", {"augment": "flip"})
    features = replace(setup.data, x=setup.data.x.astype("float32"))
    with pytest.raises(UserError, match=r"augment = flip: is for images, and .* has none") as told:
        Setup(setup.run, setup.plugin, features, setup.partition).algorithm()
    assert "\n" not in str(told.value)
