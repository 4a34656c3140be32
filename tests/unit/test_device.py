"""No CPU assumptions: client functions and evaluation on the meta device, where mixing devices is an error.

Tensors there have shapes, types and a device but no values, as on a GPU that is not there.
"""

import dataclasses

import pytest
import torch

from pflbench import ops
from pflbench.errors import UserError
from pflbench.simulation import messages
from pflbench.simulation.client_worker import device_of
from pflbench.testing import toy

META = torch.device("meta")


def elsewhere():
    """A method and a client whose tensors are not on the CPU."""
    federation = toy(
        "fedavg", {"dropout": 0.3}, model="cnn", dataset="synthetic:classes=4,side=16,samples=160"
    )
    task = dataclasses.replace(federation.algorithm.task, device=META)
    client = federation.client(0)
    client = dataclasses.replace(client, task=task, y=client.y.to(META))
    return type(federation.algorithm)(federation.algorithm.hp, task), client


def devices(tree) -> set[str]:
    return {leaf.device.type for leaf in messages.leaves(tree)}


def test_a_whole_client_round_stays_on_the_device():
    algorithm, client = elsewhere()
    reply, state = algorithm.client_update(
        client, messages.sent({"theta": algorithm.task.initial}, META)
    )
    assert devices(reply) == {"meta"}
    assert devices(algorithm.trained_model(client, {}, reply)) == {"meta"}
    assert state == {}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_with_clipping_and_dropout_stays_on_the_device(optimizer):
    algorithm, client = elsewhere()
    hp = dataclasses.replace(algorithm.hp, optimizer=optimizer, clip=1.0)
    theta = ops.local_sgd(ops.cross_entropy_loss, algorithm.task.initial, client, hp)
    assert devices(theta) == {"meta"}


def test_statistics_and_evaluation_stay_on_the_device():
    algorithm, client = elsewhere()
    means, counts = ops.class_prototypes(algorithm.net(algorithm.task.initial), client)
    x, y = next(client.samples())
    scores = algorithm.predict(algorithm.task.initial, x)
    assert devices({"a": means, "b": counts, "c": scores, "d": (scores.argmax(1) == y).sum()}) == {
        "meta"
    }


def test_the_meta_device_does_catch_what_stayed_on_the_cpu():
    algorithm, client = elsewhere()
    x, _ = next(client.samples())
    here = dataclasses.replace(algorithm.task, device=torch.device("cpu")).net(
        algorithm.task.initial
    )
    with pytest.raises(RuntimeError):
        ops.cross_entropy_loss(here, x, client.y)


def test_a_device_that_is_not_there_is_an_error_in_one_line():
    if torch.cuda.is_available():
        device_of("cuda")
    else:
        with pytest.raises(UserError, match="device 'cuda' cannot be used here"):
            device_of("cuda")
    with pytest.raises(UserError, match="device 'gpu' cannot be used here"):
        device_of("gpu")
