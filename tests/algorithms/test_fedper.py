"""FedPer: the identities of a shared body and private heads."""

import sys
from functools import partial

import pytest
import torch

from pflbench.methods import registry
from pflbench.ops import local_sgd, phi
from pflbench.testing import bare, personal, toy


def equal(first, second) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_heads_never_leave_the_client():
    federation = toy("fedper")
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    body = set(phi(federation.algorithm.task.initial))
    assert set(reply) == {"phi", "n"}
    assert set(reply["phi"]) == body
    assert set(state["pi"]) == set(federation.algorithm.task.initial) - body
    federation.step()
    assert set(federation.server) == {"phi"}
    assert set(federation.server["phi"]) == body


def test_one_client_is_local_bit_for_bit():
    local, fedper = toy("local", {"lr": 0.05}, clients=1), toy("fedper", {"lr": 0.05}, clients=1)
    for _ in range(3):
        local.step()
        fedper.step()
    assert equal(personal(fedper), local.states[0]["theta"])


def test_all_layers_private_is_local():
    local, fedper = toy("local", {"lr": 0.05}), toy("fedper", {"lr": 0.05}, head_layers=2)
    for _ in range(3):
        local.step()
        fedper.step()
    for i in range(4):
        assert equal(bare(personal(fedper, i)), bare(local.states[i]["theta"]))


def test_no_layer_private_is_fedavg():
    fedavg, fedper = toy("fedavg", {"lr": 0.05}), toy("fedper", {"lr": 0.05}, head_layers=0)
    for _ in range(3):
        fedavg.step()
        fedper.step()
    assert equal(bare(fedper.server["phi"]), bare(fedavg.server["theta"]))


def test_first_round_body_is_fedavgs_and_later_ones_are_not():
    fedavg, fedper = toy("fedavg", {"lr": 0.05}), toy("fedper", {"lr": 0.05})
    fedavg.step()
    fedper.step()
    assert equal(fedper.server["phi"], phi(fedavg.server["theta"]))
    fedavg.step()
    fedper.step()
    assert not equal(fedper.server["phi"], phi(fedavg.server["theta"]))


def test_download_changes_the_body_only_also_for_clients_long_unselected():
    federation = toy("fedper", {"lr": 0.05}, clients=6, participation=0.2)
    federation.step()
    (first,) = federation.states
    unselected = 0
    for _ in range(8):
        head = federation.states[first]["pi"]
        unselected += first not in federation.select()
        trained = first in federation.select()
        federation.step()
        model = personal(federation, first)
        assert trained or equal(head, model)
        assert equal(federation.server["phi"], model)
    assert unselected > 3


def test_head_at_rate_zero_is_fedavg_with_a_frozen_head(monkeypatch: pytest.MonkeyPatch):
    for name in ("fedavg", "fedper"):
        module = sys.modules[registry.load(name).__module__]
        monkeypatch.setattr(module, "local_sgd", partial(local_sgd, part="body"))
    fedavg, fedper = toy("fedavg", {"lr": 0.05}), toy("fedper", {"lr": 0.05})
    for _ in range(3):
        fedavg.step()
        fedper.step()
    assert all(
        equal(state["pi"], fedper.algorithm.task.initial) for state in fedper.states.values()
    )
    assert equal(fedper.server["phi"], fedavg.server["theta"])


def test_permuting_clients_leaves_the_body_unchanged():
    federation = toy("fedper", {"lr": 0.05})
    algorithm = federation.algorithm
    replies = {
        i: algorithm.client_update(federation.client(i), federation.server)[0] for i in range(4)
    }
    backwards = dict(reversed(replies.items()))
    assert equal(algorithm.aggregate({}, replies)["phi"], algorithm.aggregate({}, backwards)["phi"])
