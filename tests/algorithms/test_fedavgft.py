"""FedAvg-FT: the identities of FedAvg whose evaluated model is a fine-tuned copy."""

from dataclasses import replace

import pytest

from pflbench.data.partition import Partition
from pflbench.ops import phi, pi
from pflbench.testing import equal, personal, played, toy

TUNINGS = [
    {"ft_epochs": 0},
    {"ft_epochs": 3, "ft_lr": 0.5},
    {"ft_part": "head"},
    {"ft_part": "body", "optimizer": "adam"},
]


@pytest.mark.parametrize("tuning", TUNINGS, ids=str)
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_servers_are_fedavgs_in_every_round_whatever_is_tuned(tuning, participation: float):
    shared = {"lr": 0.05, "optimizer": tuning.get("optimizer", "sgd")}
    tuned = toy("fedavgft", {**shared, **tuning}, participation=participation)
    fedavg = toy("fedavg", shared, participation=participation)
    tuned.start()
    for _ in range(3):
        record, _ = tuned.step()
        other, _ = fedavg.step()
        assert equal(tuned.server["theta"], fedavg.server["theta"])
        assert tuned.states == fedavg.states
        assert record["accuracy"]["global"] == other["accuracy"]["pre"]
        post, others = record["accuracy"]["post"], other["accuracy"]["post"]
        assert [post[id] for id in tuned.states] == [others[id] for id in tuned.states]


def test_no_passes_evaluate_the_global_model():
    federation = played(toy("fedavgft", {"lr": 0.05, "ft_epochs": 0}), 2)
    assert all(equal(personal(federation, id), federation.server["theta"]) for id in range(4))


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_as_many_passes_as_training_are_the_local_training_of_the_next_round(rounds, optimizer):
    hparams = {"lr": 0.05, "epochs": 2, "optimizer": optimizer, "dropout": 0.3}
    tuned = played(toy("fedavgft", {**hparams, "ft_epochs": 2}), rounds)
    fedavg = played(toy("fedavg", hparams), rounds)
    for id in range(4):
        reply, _ = fedavg.algorithm.client_update(fedavg.client(id), fedavg.server)
        assert equal(personal(tuned, id), reply["theta"])


def test_one_client_is_local_one_round_ahead():
    hparams = {"lr": 0.05}
    tuned = played(toy("fedavgft", {**hparams, "ft_epochs": 1}, clients=1), 2)
    local = played(toy("local", hparams, clients=1), 3)
    assert equal(personal(tuned), local.states[0]["theta"])


@pytest.mark.parametrize("part, other", [("head", phi), ("body", pi)])
def test_only_a_part_may_be_tuned(part: str, other):
    federation = played(toy("fedavgft", {"lr": 0.05, "ft_part": part}), 1)
    own = pi if part == "head" else phi
    model = personal(federation, 1)
    assert equal(other(model), other(federation.server["theta"]))
    assert not equal(own(model), own(federation.server["theta"]))


def test_the_rate_of_tuning_is_that_of_training_or_its_own():
    asked, usual, other = (
        played(toy("fedavgft", {"lr": 0.05, "ft_lr": rate}), 1) for rate in (0.05, None, 0.2)
    )
    assert equal(personal(asked), personal(usual))
    assert not equal(personal(other), personal(usual))


def test_other_test_samples_leave_the_tuned_model_alone():
    split = toy("fedavgft").partition
    swapped = Partition(split.train, (*split.test[1:], split.test[0]))
    models = [personal(played(toy("fedavgft", split=one), 1)) for one in (split, swapped)]
    assert equal(*models)


def test_clients_that_never_took_part_and_clients_without_data():
    federation = played(toy("fedavgft", {"lr": 0.05}, clients=6, participation=0.2), 1)
    absent = next(id for id in range(6) if id not in federation.states)
    model = personal(federation, absent)
    assert not equal(model, federation.server["theta"])
    nothing = replace(federation.client(absent), y=federation.client(absent).y[:0])
    assert equal(
        federation.algorithm.personal_model(nothing, federation.server), federation.server["theta"]
    )
