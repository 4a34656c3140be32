"""FedRep: the identities of heads that are fitted first, and a shared body after them."""

import dataclasses
import sys
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy

from pflbench import ops
from pflbench.api import Client
from pflbench.data.partition import Partition
from pflbench.methods import registry
from pflbench.ops import cross_entropy_loss, local_sgd, phi, pi
from pflbench.testing import equal, played, toy


def with_decay(hp, parameters):
    return torch.optim.SGD(list(parameters), lr=hp.lr, momentum=0.9, weight_decay=0.1)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "momentum and decay"])
@pytest.mark.parametrize("phase, other", [("head_epochs", "epochs"), ("epochs", "head_epochs")])
def test_a_phase_changes_its_own_part_only(
    monkeypatch: pytest.MonkeyPatch, phase: str, other: str, optimizer: str
):
    if optimizer not in ("sgd", "adam"):
        monkeypatch.setattr(ops, "optimizer_of", with_decay)
        optimizer = "sgd"
    federation = toy("fedrep", {"lr": 0.05, "optimizer": optimizer, phase: 2, other: 0})
    client, message = federation.client(0), federation.server
    reply, state = federation.algorithm.client_update(client, message)
    head_phase = phase == "head_epochs"
    assert equal(reply["phi"], message["phi"]) == head_phase
    assert equal(state["pi"], client.state["pi"]) == (not head_phase)


def test_a_client_without_training_data_returns_what_it_got():
    federation = toy("fedrep", {"head_epochs": 2, "final_head_epochs": 2})
    client = federation.client(0)
    client = dataclasses.replace(client, y=client.y[:0])
    reply, state = federation.algorithm.client_update(client, federation.server)
    assert equal(reply["phi"], federation.server["phi"])
    assert equal(state["pi"], client.state["pi"])
    model = federation.algorithm.personal_model(client, federation.server)
    assert equal(model, federation.algorithm.task.initial)


def test_upload_is_the_body_exactly_and_the_server_has_no_head():
    federation = toy("fedrep")
    body = phi(federation.algorithm.task.initial)
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    assert set(reply) == {"phi", "n"}
    assert reply["phi"].keys() == body.keys()
    assert state["pi"].keys() == pi(federation.algorithm.task.initial).keys()
    record, _ = federation.step()
    payload = 4 * 4 * sum(p.numel() for p in body.values())  # 4 clients, 4 bytes
    assert record["bytes"] == {"down": {"phi": payload}, "up": {"phi": payload, "n": 16}}
    assert federation.server.keys() == {"phi"}
    assert federation.server["phi"].keys() == body.keys()


def test_no_body_passes_leave_the_body_and_fit_logistic_regressions_on_fixed_features():
    federation = toy("fedrep", {"lr": 0.1, "epochs": 0, "head_epochs": 2})
    task = federation.algorithm.task
    net = task.net(task.initial)
    weight, bias = (p.clone().requires_grad_() for p in net.head.state_dict().values())
    for _ in range(2):
        for x, y in federation.client(1).batches(16, 2, "head"):
            loss = cross_entropy(net.body(x).detach() @ weight.T + bias, y)
            by_weight, by_bias = torch.autograd.grad(loss, [weight, bias])
            weight = (weight - 0.1 * by_weight).detach().requires_grad_()
            bias = (bias - 0.1 * by_bias).detach().requires_grad_()
        federation.step()
    for name, p in federation.server["phi"].items():
        torch.testing.assert_close(p, task.initial[name], rtol=1e-6, atol=0)
    for p, expected in zip(federation.states[1]["pi"].values(), (weight, bias), strict=True):
        torch.testing.assert_close(p, expected.detach(), rtol=1e-4, atol=1e-6)


def test_no_body_passes_make_heads_independent_of_other_clients():
    hparams = {"lr": 0.1, "epochs": 0, "head_epochs": 1}
    split = toy("fedrep").partition
    fewer = Partition((*split.train[:3], split.train[3][:5]), split.test)
    first, second = (
        played(toy("fedrep", hparams, split=split), 1),
        played(toy("fedrep", hparams, split=fewer), 1),
    )
    assert all(equal(first.states[i]["pi"], second.states[i]["pi"]) for i in range(3))
    assert not equal(first.states[3]["pi"], second.states[3]["pi"])


def test_no_head_passes_leave_every_head_at_the_start():
    federation = played(toy("fedrep", {"lr": 0.1, "head_epochs": 0}))
    assert len(federation.states) == 4
    assert all(
        equal(state["pi"], pi(federation.algorithm.task.initial))
        for state in federation.states.values()
    )


def test_no_head_passes_are_fedper_with_a_frozen_head(monkeypatch: pytest.MonkeyPatch):
    generator = Client.generator
    one = {"base": "train"}  # FedPer's name of the stream
    monkeypatch.setattr(
        Client, "generator", lambda self, *names: generator(self, *(one.get(n, n) for n in names))
    )
    monkeypatch.setattr(
        sys.modules[registry.load("fedper").__module__],
        "local_sgd",
        partial(local_sgd, part="body"),
    )
    fedrep = played(toy("fedrep", {"lr": 0.1, "head_epochs": 0}), 3)
    fedper = played(toy("fedper", {"lr": 0.1}), 3)
    assert equal(fedrep.server["phi"], fedper.server["phi"])
    assert not equal(fedrep.server["phi"], phi(fedrep.algorithm.task.initial))


def test_body_step_takes_the_gradient_at_the_new_head():
    federation = toy("fedrep", {"lr": 0.1, "batch_size": 1000, "head_epochs": 3})
    client, task = federation.client(0), federation.algorithm.task
    reply, state = federation.algorithm.client_update(client, federation.server)
    x, y = next(client.samples())

    def stepped(head):
        net = task.net({**federation.server["phi"], **head})
        names, parameters = zip(*net.body.named_parameters(prefix="body"), strict=True)
        gradient = torch.autograd.grad(cross_entropy(net(x), y), parameters)
        return {
            name: p.detach() - 0.1 * g
            for name, p, g in zip(names, parameters, gradient, strict=True)
        }

    new, old = stepped(state["pi"]), stepped(client.state["pi"])
    for name, p in reply["phi"].items():
        torch.testing.assert_close(p, new[name], rtol=1e-5, atol=1e-7)
    assert any((p - old[name]).abs().max() > 1e-5 for name, p in reply["phi"].items())


def test_client_order_does_not_matter():
    federation = toy("fedrep", {"lr": 0.1})
    algorithm = federation.algorithm
    replies = {
        i: algorithm.client_update(federation.client(i), federation.server)[0] for i in range(4)
    }
    backwards = {
        i: algorithm.client_update(federation.client(i), federation.server)[0] for i in (3, 2, 1, 0)
    }
    assert equal(algorithm.aggregate({}, replies)["phi"], algorithm.aggregate({}, backwards)["phi"])


def test_one_client_trains_head_and_body_in_turn_and_is_not_local():
    federation = toy("fedrep", {"lr": 0.1}, clients=1)
    theta, hp = federation.algorithm.task.initial, federation.algorithm.hp
    four, one = (dataclasses.replace(hp, epochs=epochs) for epochs in (4, 1))
    for round in range(2):
        client = dataclasses.replace(federation.client(0), round=round)
        theta = local_sgd(cross_entropy_loss, theta, client, four, part="head", stream="head")
        theta = local_sgd(cross_entropy_loss, theta, client, one, part="body", stream="base")
    played(federation, 2)
    assert equal({**federation.server["phi"], **federation.states[0]["pi"]}, theta)
    alone = played(toy("local", {"lr": 0.1, "epochs": 5}, clients=1))
    assert not equal(alone.states[0]["theta"], theta)


def test_heads_of_unselected_clients_stay_and_are_evaluated_with_the_newest_body():
    federation = played(toy("fedrep", {"lr": 0.1}, clients=6, participation=0.2), 1)
    for id in range(6):
        model = federation.algorithm.personal_model(federation.client(id), federation.server)
        assert equal(phi(model), federation.server["phi"])
        assert equal(pi(model), pi(federation.algorithm.task.initial)) == (
            id not in federation.states
        )


def test_final_head_passes_fit_a_copy_of_the_head_for_scoring():
    plain, tuned = (played(toy("fedrep", {"lr": 0.1, "final_head_epochs": n})) for n in (0, 3))
    assert all(equal(plain.states[i]["pi"], tuned.states[i]["pi"]) for i in range(4))
    client = tuned.client(0)
    model = tuned.algorithm.personal_model(client, tuned.server)
    assert equal(phi(model), tuned.server["phi"])
    x, y = next(client.samples())
    before = cross_entropy(
        tuned.algorithm.predict({**tuned.server["phi"], **client.state["pi"]}, x), y
    )
    assert cross_entropy(tuned.algorithm.predict(model, x), y) < before
