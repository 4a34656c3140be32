"""Networks: sizes as published, one start for every split, the same values as the textbook order of layers."""

import pytest
import torch
from torch import nn

from pflbench import models
from pflbench.api import Task
from pflbench.errors import UserError
from pflbench.ops import phi, pi

CIFAR, EMNIST = (3, 32, 32), (1, 28, 28)


def numbers(theta) -> int:
    return sum(p.numel() for p in theta.values())


@pytest.mark.parametrize(
    ("shape", "classes", "body", "head"),
    [(CIFAR, 10, 258_624, 1_290), (CIFAR, 100, 258_624, 12_900), (EMNIST, 47, 183_296, 6_063)],
)
def test_cnn_has_the_papers_sizes(shape, classes, body, head):
    _, initial, width = models.build("cnn", shape, classes)
    assert (numbers(phi(initial)), numbers(pi(initial)), width) == (body, head, 128)


@pytest.mark.parametrize("name", ["cnn", "mlp", "resnet18"])
@pytest.mark.parametrize("shape", [CIFAR, EMNIST])
def test_body_then_head_is_the_network(name, shape):
    skeleton, initial, width = models.build(name, shape, 7)
    net = task_of(skeleton, initial, width, shape).net(initial)
    x = torch.rand(3, *shape)
    z = net.body(x)
    assert z.shape == (3, width)
    assert torch.equal(net.head(z), net(x))
    assert net(x).shape == (3, 7)


def test_start_depends_on_the_seed_and_not_on_the_split():
    bare = [
        {
            name.partition(".")[2]: p
            for name, p in models.build("cnn", EMNIST, 10, head_layers=h, seed=s)[1].items()
        }
        for h, s in ((0, 1), (1, 1), (4, 1), (1, 2))
    ]
    assert all(torch.equal(bare[0][name], other[name]) for other in bare[1:3] for name in bare[0])
    assert not torch.equal(bare[0]["conv1.weight"], bare[3]["conv1.weight"])


def test_pooling_before_relu_gives_the_same_values():
    skeleton, initial, width = models.build("cnn", CIFAR, 10)
    x = torch.rand(4, *CIFAR)
    conv1, conv2, fc1, fc2 = (
        nn.Conv2d(3, 32, 5),
        nn.Conv2d(32, 64, 5),
        nn.Linear(1600, 128),
        nn.Linear(128, 10),
    )
    pool, relu = nn.MaxPool2d(2), nn.ReLU()
    usual = nn.Sequential(conv1, relu, pool, conv2, relu, pool, nn.Flatten(), fc1, relu, fc2)
    usual.load_state_dict(dict(zip(usual.state_dict(), initial.values(), strict=True)))
    net = task_of(skeleton, initial, width, CIFAR).net(initial)
    torch.testing.assert_close(net(x), usual(x))


def test_building_does_not_touch_the_global_generator():
    before = torch.get_rng_state()
    models.build("cnn", EMNIST, 10)
    assert torch.equal(before, torch.get_rng_state())


def test_network_owns_its_parameters():
    skeleton, initial, width = models.build("mlp", EMNIST, 10)
    net = task_of(skeleton, initial, width, EMNIST).net(initial)
    with torch.no_grad():
        net.head.fc2.weight.zero_()
    assert initial["head.fc2.weight"].abs().sum() > 0


def test_networks_share_nothing_that_can_be_changed():
    skeleton, initial, width = models.build("cnn", EMNIST, 10)
    task = task_of(skeleton, initial, width, EMNIST)
    first, second = task.net(initial), task.net(initial)
    calls = []
    first.body.conv1.register_forward_hook(lambda *_: calls.append(1))
    first.train()
    second(torch.rand(2, *EMNIST))
    assert not calls
    assert not second.training
    assert not any(p.is_meta for p in first.parameters())
    assert all(p.is_meta for p in skeleton.parameters())


def test_parameters_that_do_not_fit_are_named():
    skeleton, initial, width = models.build("mlp", EMNIST, 10)
    wrong = {**initial, "head.fc3.bias": torch.zeros(1)}
    del wrong["body.fc1.bias"]
    with pytest.raises(
        ValueError, match=r"missing \['body.fc1.bias'\], unexpected \['head.fc3.bias'\]"
    ):
        task_of(skeleton, initial, width, EMNIST).net(wrong)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_and_convolutions_are_laid_out_channels_last_also_for_one_channel(channels):
    shape = (channels, 28, 28)
    skeleton, initial, width = models.build("cnn", shape, 10)
    task = task_of(skeleton, initial, width, shape)
    x = task.inputs(torch.zeros(4, *shape, dtype=torch.uint8))
    assert x.stride()[1] == 1
    assert task.net(initial).body.conv1.weight.stride()[1] == 1
    assert task.net(initial).parameters_now()["body.conv1.weight"].is_contiguous()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("cnnn", EMNIST, 10), "did you mean 'cnn'"),
        (("cnn", (1, 8, 8), 10), "at least 16x16"),
    ],
)
def test_what_cannot_be_built_says_why(arguments, says):
    with pytest.raises(UserError, match=says):
        models.build(*arguments)
    with pytest.raises(UserError, match="0 to 4"):
        models.build("cnn", EMNIST, 10, head_layers=5)


def test_dropout_acts_in_training_only_and_repeats_with_its_generator():
    skeleton, initial, width = models.build("mlp", EMNIST, 10)
    task = task_of(skeleton, initial, width, EMNIST)
    x = torch.rand(8, *EMNIST)
    plain = task.net(initial)(x)
    first, again = (
        task.net(initial, 0.5, torch.Generator().manual_seed(3)).train() for _ in range(2)
    )
    assert torch.equal(first(x), again(x))
    assert not torch.equal(first(x), plain)
    assert torch.equal(first.eval()(x), plain)


def task_of(skeleton, initial, width, shape) -> Task:
    return Task(skeleton, initial, 10, width, shape, clients=1, dataset="", seed=0)
