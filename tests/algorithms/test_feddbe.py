"""FedDBE: the identities of a private bias and a mean that is held in place."""

import sys
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot, softmax

from pflbench.methods import registry
from pflbench.ops import cross_entropy_loss, local_sgd, representations
from pflbench.testing import equal, personal, played, toy
from pflbench.testing.problem import TOY_CNN


def module() -> Any:
    return sys.modules[registry.load("feddbe").__module__]


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_without_pull_and_bias_later_rounds_are_fedavgs(settings):
    feddbe = toy("feddbe", {"lr": 0.05, "kappa": 0.0, "m_lr": 0.0}, **settings)
    fedavg = toy("fedavg", {"lr": 0.05}, **settings)
    feddbe.step()
    assert equal(feddbe.server["theta"], feddbe.algorithm.task.initial)
    fedavg.round = 1  # its streams
    for _ in range(2):
        feddbe.step()
        fedavg.step()
        assert equal(feddbe.server["theta"], fedavg.server["theta"])


def test_the_mean_is_found_once_and_the_bias_is_never_sent():
    federation = toy("feddbe", {"lr": 0.05})
    size = sum(p.numel() for p in federation.algorithm.task.initial.values())
    first, _ = federation.step()
    assert first["bytes"] == {"down": {"theta": 16 * size}, "up": {"r": 16 * 8, "n": 16}}
    r = federation.server["r"]
    for _ in range(2):
        record, _ = federation.step()
        assert record["bytes"]["down"] == {"theta": 16 * size, "r": 16 * 8}
        assert record["bytes"]["up"] == {"theta": 16 * size, "n": 16}
        assert torch.equal(federation.server["r"], r)


@pytest.mark.parametrize("mu", [1.0, 0.1])
def test_the_first_mean_by_hand(mu: float):
    federation = toy("feddbe", {"lr": 0.05, "mu": mu, "init_epochs": 2})
    client, task = federation.client(0), federation.algorithm.task
    reply, state = federation.algorithm.client_update(client, federation.server)
    net = task.net(task.initial)
    s = torch.zeros(8)
    for x, y in client.batches(16, 2):
        z = net.body(x)
        s = (1 - mu) * s + mu * z.detach().mean(0)
        parameters = list(net.parameters())
        gradients = torch.autograd.grad(cross_entropy(net.head(z), y), parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients, strict=True):
                p.sub_(0.05 * g)
    torch.testing.assert_close(reply["r"], s)
    assert state["m"].abs().max() == 0
    assert federation.algorithm.trained_model(client, federation.server, reply) is None


def test_the_first_mean_of_all_data():
    federation = toy("feddbe", {"lr": 0.05, "init": "all_data"})
    client, task, hp = federation.client(1), federation.algorithm.task, federation.algorithm.hp
    reply, _ = federation.algorithm.client_update(client, federation.server)
    theta = local_sgd(cross_entropy_loss, task.initial, client, hp)
    torch.testing.assert_close(reply["r"], representations(theta, client).mean(0))


def test_the_servers_mean_is_weighted_by_samples():
    federation = toy("feddbe", {"lr": 0.05})
    replies = {
        id: federation.algorithm.client_update(federation.client(id), federation.server)[0]
        for id in range(4)
    }
    federation.step()
    n = torch.tensor([len(rows) for rows in federation.partition.train]).double()
    means = torch.stack([replies[id]["r"] for id in range(4)]).double()
    torch.testing.assert_close(federation.server["r"].double(), n @ means / n.sum())


def test_the_bias_is_one_of_the_heads_and_its_gradient_the_formula():
    hparams = {"lr": 0.1, "m_lr": 0.4, "batch_size": 1000, "kappa": 0.0}
    federation = played(toy("feddbe", hparams), 3)
    client, task = federation.client(0), federation.algorithm.task
    m, theta = client.state["m"], federation.server["theta"]
    assert m.abs().max() > 0
    weight, bias = theta["head.fc2.weight"], theta["head.fc2.bias"]
    x, y = next(client.samples())
    same = task.net({**theta, "head.fc2.bias": bias + weight @ m})
    logits = federation.algorithm.predict(personal(federation), x)
    torch.testing.assert_close(logits, same(x))
    _, state = federation.algorithm.client_update(client, federation.server)
    error = softmax(logits, 1) - one_hot(y, 4)
    torch.testing.assert_close(state["m"], m - 0.4 * (weight.T @ error.mean(0)))


@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_the_pull_and_its_gradient(mu: float):
    algorithm: Any = toy("feddbe", {"kappa": 6.0, "mu": mu}).algorithm
    z = torch.rand(5, 8).requires_grad_()
    y = torch.zeros(5, dtype=torch.int64)
    mean = module().RunningMean(8, mu, torch.device("cpu"))
    mean.add(torch.rand(5, 8))
    r = torch.rand(8)
    net: Any = Still(z)
    s = (1 - mu) * mean.s + mu * z.mean(0)
    value = algorithm.debiased_loss(torch.zeros(8), r, mean)(net, z, y)
    value.backward()
    torch.testing.assert_close(value, 6.0 / 16 * (s - r).square().sum())
    assert z.grad is not None
    torch.testing.assert_close(z.grad, (mu * 6.0 * (s - r) / (8 * 5)).expand(5, 8))
    torch.testing.assert_close(mean.s, s.detach())
    again = module().RunningMean(8, 1.0, torch.device("cpu"))
    at_r = algorithm.debiased_loss(torch.zeros(8), z.detach().mean(0), again)
    if mu == 1.0:
        assert at_r(net, z, y).item() == 0


class Still:
    """A network whose representations are given and whose loss is 0."""

    def __init__(self, z):
        self.z = z

    def body(self, x):
        return x

    def drop(self, z):
        return z

    def head(self, z):
        return torch.zeros(len(z), 1)


def test_a_network_without_a_head_has_a_bias_of_its_logits():
    federation = played(toy("feddbe", {"lr": 0.05}, head_layers=0), 3)
    x, _ = next(federation.client(0).samples())
    net = federation.algorithm.task.net(federation.server["theta"])
    scores = federation.algorithm.predict(personal(federation), x)
    torch.testing.assert_close(scores, net(x) + federation.states[0]["m"])


def test_representations_that_are_images_have_a_bias_too():
    federation = played(toy("feddbe", {"lr": 0.05}, **{**TOY_CNN, "head_layers": 3}), 2)
    assert federation.server["r"].shape == (federation.algorithm.task.width,)
    assert all(state["m"].abs().max() > 0 for state in federation.states.values())


def test_a_client_that_never_trained_is_evaluated_with_the_global_model():
    federation = played(toy("feddbe", {"lr": 0.05}, clients=6, participation=0.34), 2)
    absent = [id for id in range(6) if id not in federation.states]
    assert absent
    x, _ = next(federation.client(absent[0]).samples())
    models = (personal(federation, absent[0]), federation.server["theta"])
    assert torch.equal(*(federation.algorithm.predict(model, x) for model in models))
