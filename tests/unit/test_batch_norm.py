"""Networks with batch norm: running statistics are part of the state, in every method."""

import io

import pytest
import torch
from torch import nn

from pflbench import models
from pflbench.api import Task
from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.models import norms
from pflbench.testing.compare import tensors
from pflbench.testing.problem import toy

PROBLEM = {
    "model": "resnet8",
    "dataset": "synthetic:classes=4,side=8,samples=64",
    "clients": 2,
    "rounds": 2,
}
WITHOUT_TRAINING = {"feddbl"}  # its network keeps its random values


@pytest.mark.parametrize("name", registry.names())
def test_a_method_trains_statistics_and_resumes_or_refuses_in_one_line(name):
    if registry.load(name).batch_norm == "nowhere":
        with pytest.raises(UserError, match=r"^\S+ has no place for running statistics as body\.b"):
            toy(name, **PROBLEM)
        return
    first = toy(name, **PROBLEM)
    first.start()
    first.step()
    stored = io.BytesIO()
    torch.save(first.snapshot(), stored)
    stored.seek(0)
    second = toy(name, **PROBLEM)
    second.restore(torch.load(stored, weights_only=True))
    assert first.step()[0] == second.step()[0]
    kept = [*tensors(first.server), *tensors({str(i): s for i, s in first.states.items()})]
    variances = [t for path, t in kept if path.endswith("running_var")]
    assert all(bool((t >= 0).all()) for t in variances)
    assert name in WITHOUT_TRAINING or any(
        not torch.equal(t, torch.ones_like(t)) for t in variances
    )


def test_batches_are_not_counted_so_that_all_of_the_state_is_averaged():
    _, initial, _ = models.build("resnet8", (3, 32, 32), 10)
    assert {p.dtype for p in initial.values()} == {torch.float32}


def test_a_batch_of_one_value_per_channel_is_normalised_by_the_running_statistics():
    layer = nn.BatchNorm1d(3)
    norms.prepare("mine", layer)
    with torch.no_grad():
        layer.running_mean.fill_(2.0)
    x = torch.rand(1, 3, requires_grad=True)
    z = layer.train()(x)
    assert torch.allclose(z, (x - 2.0) / (1.0 + layer.eps) ** 0.5)
    assert torch.equal(layer.running_mean, torch.full((3,), 2.0))
    layer(torch.rand(2, 3))
    assert not torch.equal(layer.running_mean, torch.full((3,), 2.0))


def test_a_mean_over_all_batches_is_refused():
    with pytest.raises(UserError, match="momentum=None"):
        norms.prepare("mine", nn.Sequential(nn.BatchNorm1d(3, momentum=None)))


@pytest.mark.parametrize(
    ("name", "shape", "vocabulary", "says"),
    [
        ("cnn", (64,), None, "needs images"),
        ("resnet8", (3, 2, 2), None, "at least 4x4"),
        ("cnn1d", (3, 32, 32), None, "needs series"),
        ("text", (20,), None, "needs tokens, but"),
        ("text", (2, 20), 50, "needs rows of tokens"),
        ("mlp", (20,), 50, "cannot read tokens"),
    ],
)
def test_a_network_says_which_samples_it_needs(name, shape, vocabulary, says):
    with pytest.raises(UserError, match=says):
        models.build(name, shape, 5, vocabulary=vocabulary)


@pytest.mark.parametrize(
    ("name", "shape", "vocabulary", "numbers"),
    [("cnn1d", (9, 128), None, 250_762), ("text", (20,), 100, 30_602)],
)
def test_networks_for_series_and_text(name, shape, vocabulary, numbers):
    skeleton, initial, width = models.build(name, shape, 10, vocabulary=vocabulary)
    task = Task(skeleton, initial, 10, width, shape, clients=1, dataset="", seed=0)
    x = torch.rand(3, *shape) if vocabulary is None else torch.randint(vocabulary, (3, *shape))
    assert task.net(initial)(x).shape == (3, 10)
    assert sum(p.numel() for p in initial.values()) == numbers
