"""FedRoD: the identities of a balanced shared head and a private one beside it."""

import math
import sys
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot, softmax

from pflbench.methods import registry
from pflbench.ops import pi
from pflbench.testing import TOY, equal, personal, played, split_by_class, toy
from pflbench.testing.problem import TOY_CNN

DATA = TOY["dataset"]


def module() -> Any:
    return sys.modules[registry.load("fedrod").__module__]


@pytest.mark.parametrize("settings", [{}, TOY_CNN], ids=["mlp", "cnn"])
def test_without_balance_the_shared_models_are_fedavgs(settings):
    fedrod = toy("fedrod", {"lr": 0.05, "gamma": 0.0}, **settings)
    fedavg = toy("fedavg", {"lr": 0.05}, **settings)
    for _ in range(3):
        record, _ = fedrod.step()
        other, _ = fedavg.step()
        assert equal(fedrod.server["theta"], fedavg.server["theta"])
        assert record["accuracy"]["global"] == other["accuracy"]["pre"]


def test_equal_counts_of_all_classes_need_no_balance():
    split = split_by_class(DATA, [[0, 1, 2, 3] * 4] * 2, [[0], [1]])
    fedrod, fedavg = (played(toy(name, {"lr": 0.05}, split)) for name in ("fedrod", "fedavg"))
    for name, p in fedavg.server["theta"].items():
        torch.testing.assert_close(fedrod.server["theta"][name], p, rtol=1e-4, atol=1e-6)


def test_the_private_head_never_changes_the_shared_model():
    first, second = (played(toy("fedrod", {"lr": 0.05, "head_lr": rate})) for rate in (0.0, 0.5))
    assert equal(first.server["theta"], second.server["theta"])
    assert all(p.abs().max() == 0 for p in first.states[0]["psi"].values())
    assert not equal(first.states[0]["psi"], second.states[0]["psi"])
    x, _ = next(first.client(0).samples())
    models = (personal(first), first.server["theta"])
    assert torch.equal(*(first.algorithm.predict(model, x) for model in models))


def test_rows_of_absent_classes_come_back_as_they_were():
    split = split_by_class(DATA, [[0, 1, 1] * 4, [2, 3, 0] * 4], [[0], [2]])
    federation = played(toy("fedrod", {"lr": 0.1}, split), 1)
    for id, absent in ((0, [2, 3]), (1, [1])):
        reply, _ = federation.algorithm.client_update(federation.client(id), federation.server)
        for name, received in pi(federation.server["theta"]).items():
            same = [torch.equal(reply["theta"][name][c], received[c]) for c in range(4)]
            assert [c for c in range(4) if same[c]] == absent


def test_the_gradient_of_the_balanced_loss():
    counts = torch.tensor([3, 1, 0, 6])
    q = torch.randn(5, 4, dtype=torch.float64).requires_grad_()
    y = torch.tensor([0, 0, 1, 3, 1])
    offsets = module().class_offsets(counts, 0.7)
    cross_entropy(q + offsets, y).backward()
    balanced = q.detach() + 0.7 * counts.double().log()
    expected = (softmax(balanced, 1) - one_hot(y, 4)) / 5
    torch.testing.assert_close(q.grad, expected, rtol=1e-5, atol=1e-7)
    assert torch.equal(module().class_offsets(counts, 0.0), torch.zeros(4))


def test_two_classes_by_hand():
    offsets = module().class_offsets(torch.tensor([3, 1]), 1.0)
    loss = cross_entropy(torch.zeros(1, 2) + offsets, torch.tensor([1]))
    assert loss.item() == pytest.approx(math.log(4))


def test_the_private_head_takes_a_step_of_plain_cross_entropy_at_the_shared_logits():
    federation = played(toy("fedrod", {"lr": 0.1, "head_lr": 0.3, "batch_size": 1000}), 1)
    client = federation.client(0)
    psi = client.state["psi"]
    _, state = federation.algorithm.client_update(client, federation.server)
    net = federation.algorithm.task.net(federation.server["theta"])
    (x, y), (weight, bias) = next(client.samples()), psi.values()
    z = net.body(x).detach()
    error = softmax(net.head(z) + z @ weight.T + bias, 1) - one_hot(y, 4)
    new_weight, new_bias = state["psi"].values()
    torch.testing.assert_close(new_weight, weight - 0.3 * error.T @ z / len(y))
    torch.testing.assert_close(new_bias, bias - 0.3 * error.mean(0))


def test_what_is_evaluated_is_the_sum_of_both_heads():
    federation = played(toy("fedrod", {"lr": 0.1}), 2)
    x, _ = next(federation.client(1).samples())
    net = federation.algorithm.task.net(federation.server["theta"])
    weight, bias = federation.states[1]["psi"].values()
    z = net.body(x)
    scores = federation.algorithm.predict(personal(federation, 1), x)
    torch.testing.assert_close(scores, net.head(z) + z @ weight.T + bias)
    assert (scores - net(x)).abs().max() > 1e-3


def test_a_client_of_one_class_sends_back_what_it_got_and_no_private_head():
    split = split_by_class(DATA, [[1] * 9, [0, 1, 2, 3] * 3], [[1], [0]])
    federation = played(toy("fedrod", {"lr": 0.1}, split), 1)
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    assert reply.keys() == {"theta", "n"}
    assert equal(reply["theta"], federation.server["theta"])
    assert not equal(state["psi"], federation.states[0]["psi"])


def test_a_head_of_several_layers_starts_silent_and_learns():
    federation = toy("fedrod", {"lr": 0.1}, head_layers=2)
    x, _ = next(federation.client(0).samples())
    net = federation.algorithm.task.net(federation.server["theta"])
    start = federation.algorithm.predict(personal(federation), x)
    assert torch.equal(start, net(x))
    played(federation, 2)
    lower = "head.fc1.weight"
    assert not torch.equal(federation.states[0]["psi"][lower], net.head.fc1.weight)


def test_a_client_that_never_trained_has_the_shared_head_alone():
    federation = played(toy("fedrod", {"lr": 0.1}, clients=6, participation=0.2), 1)
    absent = next(id for id in range(6) if id not in federation.states)
    x, _ = next(federation.client(absent).samples())
    models = (personal(federation, absent), federation.server["theta"])
    assert torch.equal(*(federation.algorithm.predict(model, x) for model in models))
