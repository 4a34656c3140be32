"""FedBABU: the identities of a body that is trained on the random initial head."""

from typing import Any

import pytest

from pflbench.api import Client
from pflbench.ops import phi, pi
from pflbench.testing import bare, equal, personal, played, toy


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_no_head_is_sent_or_kept_and_none_moves(optimizer: str):
    federation = toy("fedbabu", {"lr": 0.05, "optimizer": optimizer})
    initial = federation.algorithm.task.initial
    body = phi(initial)
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    assert reply.keys() == {"phi", "n"}
    assert reply["phi"].keys() == body.keys()
    assert state == {}
    record, _ = federation.step()
    payload = 4 * 4 * sum(p.numel() for p in body.values())  # 4 clients, 4 bytes
    assert record["bytes"] == {"down": {"phi": payload}, "up": {"phi": payload, "n": 16}}
    assert federation.server["phi"].keys() == body.keys()
    trained: Any = federation.algorithm.trained_model(
        federation.client(0), federation.server, reply
    )
    assert equal(pi(trained), pi(initial))
    assert equal(phi(trained), reply["phi"])


def test_bodies_are_those_of_fedrep_without_head_passes(monkeypatch: pytest.MonkeyPatch):
    generator = Client.generator
    one = {"base": "train"}  # FedRep's name of the stream
    monkeypatch.setattr(
        Client, "generator", lambda self, *names: generator(self, *(one.get(n, n) for n in names))
    )
    babu = toy("fedbabu", {"lr": 0.05}, participation=0.5)
    rep = toy("fedrep", {"lr": 0.05, "head_epochs": 0}, participation=0.5)
    for _ in range(3):
        babu.step()
        rep.step()
        assert equal(babu.server["phi"], rep.server["phi"])
    assert not equal(babu.server["phi"], phi(babu.algorithm.task.initial))


def test_without_a_head_it_is_fedavg_ft():
    hparams = {"lr": 0.05, "ft_epochs": 2, "ft_lr": 0.1}
    babu = played(toy("fedbabu", hparams, head_layers=0), 2)
    tuned = played(toy("fedavgft", hparams, head_layers=0), 2)
    assert equal(babu.server["phi"], tuned.server["theta"])
    assert equal(personal(babu), personal(tuned))


def test_with_a_head_only_nothing_is_learned_and_the_start_is_tuned():
    hparams = {"lr": 0.05, "ft_epochs": 1}
    babu = played(toy("fedbabu", hparams, head_layers=2), 2)
    assert babu.server["phi"] == {}
    local = toy("local", {"lr": 0.05})
    local.round = 2  # the batches of that round
    _, state = local.algorithm.client_update(local.client(0), {})
    assert equal(bare(personal(babu)), bare(state["theta"]))


def test_the_first_step_moves_the_body_as_fedavg_does():
    hparams = {"lr": 0.05, "batch_size": 1000}
    babu, fedavg = toy("fedbabu", hparams), toy("fedavg", hparams)
    for id in range(4):
        own, _ = babu.algorithm.client_update(babu.client(id), babu.server)
        other, _ = fedavg.algorithm.client_update(fedavg.client(id), fedavg.server)
        assert equal(own["phi"], phi(other["theta"]))


def test_no_passes_evaluate_the_body_with_the_initial_head():
    federation = played(toy("fedbabu", {"lr": 0.05, "ft_epochs": 0}), 2)
    expected = {**federation.server["phi"], **pi(federation.algorithm.task.initial)}
    (shown,) = federation.algorithm.extra_models(federation.client(0), federation.server).values()
    assert equal(personal(federation), expected)
    assert equal(shown, expected)


@pytest.mark.parametrize("part", ["full", "head", "body"])
def test_tuning_moves_what_it_is_asked_to_on_a_copy(part: str):
    federation = played(toy("fedbabu", {"lr": 0.05, "ft_part": part}), 1)
    model = personal(federation)
    assert equal(phi(model), federation.server["phi"]) == (part == "head")
    assert equal(pi(model), pi(federation.algorithm.task.initial)) == (part == "body")
    again = played(toy("fedbabu", {"lr": 0.05, "ft_epochs": 0}), 1)
    assert equal(federation.server["phi"], again.server["phi"])
