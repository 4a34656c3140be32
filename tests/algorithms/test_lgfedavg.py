"""LG-FedAvg: the identities of private bodies and a shared head."""

import sys
from dataclasses import replace
from functools import partial

import pytest
import torch

from pflbench.data.partition import Partition
from pflbench.methods import registry
from pflbench.ops import cross_entropy_loss, local_sgd, phi, pi
from pflbench.sweep import experiment
from pflbench.testing import bare, equal, personal, played, toy

ALL = {"lr": 0.05, "epochs": 1, "participation": 1.0}
"""As the other methods by default: one pass, all clients."""


@pytest.mark.parametrize(
    "classes, side, channels, numbers", [(10, 32, 3, 1290), (47, 28, 1, 6063), (100, 32, 3, 12900)]
)
def test_upload_is_the_head_exactly_k_times_c_plus_c_numbers(
    classes: int, side: int, channels: int, numbers: int
):
    dataset = f"synthetic:classes={classes},side={side},channels={channels},samples={2 * classes}"
    federation = toy("lgfedavg", {"epochs": 0}, dataset=dataset, model="cnn", width=128, clients=1)
    reply, state = federation.algorithm.client_update(federation.client(0), federation.server)
    head = pi(federation.algorithm.task.initial)
    assert reply.keys() == {"pi", "n"}
    assert reply["pi"].keys() == head.keys()
    assert sum(p.numel() for p in reply["pi"].values()) == numbers
    assert state["phi"].keys() == federation.algorithm.task.initial.keys() - head.keys()


def test_measured_traffic_and_the_server_are_heads_only():
    federation = toy("lgfedavg", ALL)
    record, _ = federation.step()
    payload = 4 * 4 * sum(p.numel() for p in pi(federation.algorithm.task.initial).values())
    assert record["bytes"] == {"down": {"pi": payload}, "up": {"pi": payload, "n": 16}}
    assert federation.server.keys() == {"pi"}
    assert federation.server["pi"].keys() == pi(federation.algorithm.task.initial).keys()


def test_after_the_download_heads_are_identical_and_bodies_differ():
    federation = played(toy("lgfedavg", ALL), 2)
    models = [personal(federation, id) for id in range(4)]
    assert all(equal(pi(model), pi(models[0])) for model in models)
    assert not any(equal(phi(a), phi(b)) for i, a in enumerate(models) for b in models[:i])


def test_body_of_an_unselected_client_is_unchanged():
    federation = toy("lgfedavg", {"lr": 0.05, "epochs": 1, "participation": 0.5})
    trained = 0
    for _ in range(4):
        cohort, before = federation.select(), [phi(personal(federation, id)) for id in range(4)]
        federation.step()
        for id in range(4):
            assert equal(phi(personal(federation, id)), before[id]) == (id not in cohort)
        trained += len(cohort)
    assert trained == 8


def test_after_training_the_trained_head_is_evaluated_and_before_it_the_global_one():
    federation = toy("lgfedavg")
    algorithm, client = federation.algorithm, federation.client(0)
    assert algorithm.hp.epochs == 5
    reply, state = algorithm.client_update(client, federation.server)
    after = replace(client, state=state)
    trained = local_sgd(cross_entropy_loss, algorithm.task.initial, client, algorithm.hp)
    assert equal(algorithm.trained_model(after, federation.server, reply), trained)
    before = algorithm.personal_model(after, federation.server)
    assert equal(before, {**phi(trained), **federation.server["pi"]})
    assert not equal(before, trained)


def test_all_clients_take_part_by_default_and_a_tenth_in_the_papers_experiments():
    assert toy("lgfedavg").select() == (0, 1, 2, 3)

    def shares(name):
        table = {**experiment.read(name), "algorithms": ["lgfedavg", "fedavg"]}
        runs = [planned.run for planned in experiment.make(name, table).runs]
        return {(run.algorithm, run.hparams["participation"]) for run in runs}

    for name in ("main", "efficiency", "scalability", "scarcity", "representations"):
        assert shares(name) == {("lgfedavg", 0.1), ("fedavg", 1.0)}
    for name in ("digits", "quickstart"):
        assert shares(name) == {("lgfedavg", 1.0), ("fedavg", 1.0)}


def test_the_papers_experiments_can_be_run_without_it():
    plan = experiment.make("main", {**experiment.read("main"), "algorithms": ["fedavg"]})
    assert {planned.run.algorithm for planned in plan.runs} == {"fedavg"}


def test_the_record_counts_clients_that_never_trained():
    many = {"clients": 20, "dataset": "synthetic:classes=4,side=8,samples=400", "min_samples": 2}
    tenth = toy("lgfedavg", {"epochs": 1, "participation": 0.1}, **many)
    record, _ = tenth.step()
    assert len(record["cohort"]) == 2
    assert record["notes"] == ["18 of 20 evaluated clients have never trained"]
    record, _ = toy("lgfedavg", {"epochs": 1}, **many).step()
    assert "notes" not in record


def test_one_client_is_local_bit_for_bit():
    lg, local = (
        played(toy("lgfedavg", ALL, clients=1)),
        played(toy("local", {"lr": 0.05}, clients=1)),
    )
    assert equal(personal(lg), local.states[0]["theta"])


def test_nothing_shared_is_local():
    lg, local = played(toy("lgfedavg", ALL, head_layers=0)), played(toy("local", {"lr": 0.05}))
    for id in range(4):
        assert equal(bare(personal(lg, id)), bare(local.states[id]["theta"]))


def test_everything_shared_is_fedavg():
    lg, fedavg = played(toy("lgfedavg", ALL, head_layers=2)), played(toy("fedavg", {"lr": 0.05}))
    assert equal(bare(lg.server["pi"]), bare(fedavg.server["theta"]))


def test_uploads_of_lgfedavg_and_fedper_are_disjoint_and_together_theta():
    replies = {}
    for name, part in (("lgfedavg", "pi"), ("fedper", "phi")):
        federation = toy(name)
        replies[name] = federation.algorithm.client_update(federation.client(0), federation.server)[
            0
        ][part].keys()
    assert not replies["lgfedavg"] & replies["fedper"]
    assert replies["lgfedavg"] | replies["fedper"] == toy("fedavg").server["theta"].keys()


def test_first_round_head_is_fedavgs_and_later_ones_are_not():
    lg, fedavg = played(toy("lgfedavg", ALL), 1), played(toy("fedavg", {"lr": 0.05}), 1)
    assert equal(lg.server["pi"], pi(fedavg.server["theta"]))
    lg.step()
    fedavg.step()
    assert not equal(lg.server["pi"], pi(fedavg.server["theta"]))


@pytest.mark.parametrize("frozen", [True, False])
def test_with_the_head_at_rate_zero_bodies_do_not_depend_on_other_clients(
    monkeypatch: pytest.MonkeyPatch, frozen: bool
):
    if frozen:
        module = sys.modules[registry.load("lgfedavg").__module__]
        monkeypatch.setattr(module, "local_sgd", partial(local_sgd, part="body"))
    split = toy("lgfedavg").partition
    other = Partition((*split.train[:3], split.train[3][:5]), split.test)
    first, second = (
        played(toy("lgfedavg", ALL, split=split)),
        played(toy("lgfedavg", ALL, split=other)),
    )
    if frozen:  # the head is the start's, up to the rounding of its mean
        for name, p in first.states[0]["phi"].items():
            torch.testing.assert_close(p, second.states[0]["phi"][name], rtol=1e-6, atol=1e-7)
    else:
        assert any(
            (p - second.states[0]["phi"][name]).abs().max() > 1e-4
            for name, p in first.states[0]["phi"].items()
        )
