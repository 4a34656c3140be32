"""Partitions by the owners in the data: one client per owner, or clients of a few domains."""

import warnings

import numpy as np
import pytest

from pflbench.data import partition
from pflbench.errors import UserError
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation import runner
from pflbench.simulation.description import described
from tests.factories.data_files import one_line
from tests.factories.kinds_of_data import npz

OWNER = np.repeat([0, 1, 2, 3], [40, 5, 20, 30])
Y = np.arange(len(OWNER)) % 3


def make(spec, owner=OWNER, **options):
    return partition.make(spec, Y, 3, partition.Options(**options), owner)


def everything(made, client):
    return np.sort(np.concatenate([made.train[client], made.test[client]]))


def owners(made):
    """Of every client, whose samples it has."""
    return [np.unique(OWNER[everything(made, i)]).tolist() for i in range(len(made.train))]


def test_every_owner_is_a_client_with_all_its_samples():
    made = make("natural", clients=None, min_samples=5)
    for client in range(4):
        assert np.array_equal(everything(made, client), np.flatnonzero(client == OWNER))
    assert [len(test) for test in made.test] == [10, 1, 5, 8]  # a quarter each
    assert make("natural", clients=None, min_samples=5, seed=1).digest != made.digest


def test_owners_with_few_samples_are_left_out():
    with pytest.warns(UserWarning, match="1 of 4 clients have fewer than min_samples = 10"):
        made = make("natural", clients=None)
    assert owners(made) == [[0], [2], [3]]


def test_the_first_owners_are_taken_where_fewer_are_asked_for():
    assert owners(make("natural", clients=2, min_samples=1)) == [[0], [1]]


def test_domains_deal_clients_to_owners():
    made = make("domains:3", clients=7, min_samples=1)
    assert owners(made) == [[0], [1], [2], [0], [1], [2], [0]]
    rows = np.sort(np.concatenate([everything(made, client) for client in range(7)]))
    assert np.array_equal(rows, np.flatnonzero(OWNER < 3))  # each sample once
    sizes = [len(everything(made, client)) for client in range(7)]
    assert sizes == [14, 3, 10, 13, 2, 10, 13]
    assert make("domains:3", clients=7, min_samples=1).digest == made.digest
    assert make("domains:3", clients=7, min_samples=1, seed=1).digest != made.digest


@pytest.mark.parametrize("spec, clients", [("natural", 3), ("domains:2", 4)])
def test_scarcity_comes_on_top(spec, clients):
    owner = np.where(OWNER == 1, 0, OWNER)
    whole = make(spec, owner, clients=clients)
    scarce = make(spec, owner, clients=clients, data_fraction=0.5, scarce_clients=1)
    assert all(map(np.array_equal, whole.test, scarce.test))
    assert all(map(np.array_equal, whole.train[:-1], scarce.train[:-1]))
    assert len(scarce.train[-1]) == round(0.5 * len(whole.train[-1]))
    few = make(spec, owner, clients=clients, max_samples=12)
    assert max(len(everything(few, i)) for i in range(clients)) == 12
    drawn = make(spec, owner, clients=clients, samples_per_client=(8, 10), min_samples=8)
    assert {len(everything(drawn, i)) for i in range(clients)} <= {8, 9, 10}
    held = make(spec, owner, clients=clients, validation=0.2)
    assert all(map(len, held.validation))


@pytest.mark.parametrize(
    "spec, options, words",
    [
        ("natural", {"clients": 5, "min_samples": 1}, "5 clients are asked for, .* has 4"),
        ("natural", {"clients": 4}, "4 clients are asked for, .* has 3 with at least min_samples"),
        ("natural", {"clients": None, "min_samples": 50}, "no client has min_samples = 50"),
        ("natural:3", {}, "takes no argument"),
        ("natural", {"owner": None}, "an array `client`"),
        ("domains:2", {"owner": None}, "an array `client`"),
        ("domains", {}, r"needs a whole number of 1\.\.4"),
        ("domains:5", {}, r"needs a whole number of 1\.\.4.*given: '5'"),
        ("domains:3", {"clients": 2}, "needs at least 3 clients"),
        ("domains:2", {"clients": 4}, "a domain has 5 samples for 2 clients"),
        (
            "natural",
            {"clients": 2, "overlap": True, "samples_per_client": (10, 12)},
            "overlap cannot be used with natural",
        ),
    ],
)
def test_impossible_requests_say_why_in_one_line(spec, options, words):
    with pytest.raises(UserError, match=words) as caught:
        make(spec, **{"clients": 4, **options})
    one_line(caught)


def test_a_run_has_as_many_clients_as_there_are_owners(tmp_path):
    settings = {"dataset": npz(tmp_path, "features"), "partition": "natural", "model": "mlp"}
    assert make_run("fedavg", settings, {}).clients == 4
    assert make_run("fedavg", {**settings, "clients": 3}, {}).clients == 3
    assert (
        make_run("fedavg", settings, {}).id == make_run("fedavg", {**settings, "clients": 4}, {}).id
    )
    uneven = np.repeat(["a", "b", "c"], [50, 40, 6])
    spec = npz(tmp_path, "features", client=uneven)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        made = runner.prepare(make_run("fedavg", {**settings, "dataset": spec}, {}))
    assert described(made, 1)["partition"]["owners"] == ["a", "b"]
    with pytest.raises(UserError, match="an array `client`"):
        make_run("fedavg", {"dataset": "digits", "partition": "natural"}, {})
