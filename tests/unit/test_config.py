"""What a run is: types, defaults, names."""

from dataclasses import asdict, dataclass, fields, make_dataclass, replace

import numpy as np
import pytest

from pflbench import config
from pflbench.api import OPTIONS, Hparams, hparam
from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.methods.hyperparameters import complete, make_run


def run(**settings):
    return make_run("fedavg", settings, {})


def test_defaults_complete_the_hyperparameters():
    made = make_run("FedCoSR", {"rounds": 3}, {"alpha": "0.5"})
    assert made.algorithm == "fedcosr"
    assert made.hparams["alpha"] == 0.5
    assert made.hparams["lr"] == 0.003
    every = {f.name for f in fields(registry.hparams_type(registry.load("fedcosr")))}
    assert set(made.hparams) == every - set(OPTIONS)


def test_id_hashes_what_changes_numbers():
    same = {run().id, run(clients=20).id, run(clients="20").id}
    other = {
        run(clients=21).id,
        run(seed=1).id,
        make_run("fedavg", {}, {"lr": 0.1}).id,
        run(data_fraction=0.5).id,
    }
    assert len(same) == 1
    assert len(other | same) == 5


def test_the_version_is_the_end_of_the_id_and_not_in_its_hash():
    first, second = replace(run(), version="r1"), replace(run(), version="0123456789")
    assert first.id.removesuffix("-r1") == second.id.removesuffix("-0123456789")
    assert replace(run(), version="").id == first.id.removesuffix("-r1")


def test_the_version_is_no_setting():
    with pytest.raises(UserError, match="unknown option 'version'"):
        run(version="r7")


def test_every_option_is_part_of_the_id():
    ids = {run().id, run(max_samples=30).id, run(max_samples=31).id, run(representations=5).id}
    ids |= {
        run(validation=0.1).id,
        run(validation=0.2).id,
        run(evaluate_clients=5).id,
        run(evaluate_clients=6).id,
    }
    assert len(ids) == 8
    assert (
        run(max_samples="none", representations="0", validation="0", evaluate_clients="none").id
        == run().id
    )


def test_a_new_option_leaves_the_ids_of_older_runs_as_they_are():
    later = make_dataclass("Later", [("novel", int, 0)], bases=(config.Run,), frozen=True)
    older = asdict(run(clients=5))
    assert later(**older).id == run(clients=5).id
    assert later(**older, novel=1).id != run(clients=5).id


def test_an_option_of_training_is_stored_and_in_the_id_where_it_is_on():
    off, on = (make_run("fedavg", {}, {"local_momentum": m}) for m in (0.0, 0.9))
    assert off == run()
    assert run().id == "fedavg-digits-dir0.1-s0-579dfefc13-r1"  # as before there were options
    assert on.hparams == {**run().hparams, "local_momentum": 0.9}
    assert on.id != off.id


def test_an_option_that_a_method_has_on_by_default_is_always_stored():
    default, without = (make_run("pfedhn", {}, given) for given in ({}, {"clip": 0}))
    assert (default.hparams["clip"], without.hparams["clip"]) == (50.0, 0.0)
    assert default.id == "pfedhn-digits-dir0.1-s0-44b1d53546-r1"


@pytest.mark.parametrize("parts", [("train", "test"), ("train", "test", "validation")])
def test_a_file_says_how_many_clients_there_are(tmp_path, parts):
    arrays = {f"{part}_{i}": np.array([i]) for part in parts for i in range(3)}
    np.savez(tmp_path / "split.npz", **arrays)
    assert run(partition=f"file:{tmp_path / 'split.npz'}").clients == 3


def test_id_of_a_file_is_its_content_not_its_path(tmp_path):
    paths = [tmp_path / name for name in ("a.npz", "b.npz", "c.npz")]
    for path, content in zip(paths, (b"one", b"one", b"two"), strict=True):
        path.write_bytes(content)
    hashes = [run(dataset=f"npz:{path}").id.split("-")[-2] for path in paths]
    assert hashes[0] == hashes[1] != hashes[2]


def test_run_survives_being_stored():
    made = run(samples_per_client="80-100", overlap="true", scarce_clients=5, data_fraction=0.1)
    assert made.samples_per_client == (80, 100)
    assert config.read_run(config.as_json(made)) == made


def test_toml_with_scarcity(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'algorithm = "fedcosr"\nrounds = 7\nscarce_clients = 5\ndata_fraction = 0.1\n[hparams]\nalpha = 2\n'
    )
    settings, hparams = config.from_toml(file)
    made = make_run(settings.pop("algorithm"), settings, hparams)
    assert (made.rounds, made.data_fraction, made.scarce_clients, made.hparams["alpha"]) == (
        7,
        0.1,
        5,
        2.0,
    )


@pytest.mark.parametrize(
    ("settings", "hparams", "says"),
    [
        ({"rounds": 0}, {}, "rounds = 0: must be at least 1"),
        ({"rounds": "many"}, {}, "rounds = 'many': must be a whole number"),
        ({"evaluate_clients": 0}, {}, "evaluate_clients = 0: must be at least 1"),
        ({"rounds": 2.5}, {}, "must be a whole number"),
        ({"max_samples": "few"}, {}, "max_samples = 'few': must be a whole number"),
        ({"participation": 0}, {}, "participation"),
        ({"participation": 1.5}, {}, "participation"),
        ({"clientz": 3}, {}, "did you mean 'clients'"),
        ({"samples_per_client": "80"}, {}, "two numbers"),
        ({}, {"lrr": 1}, "unknown hyperparameter of FedAvg 'lrr'; did you mean 'lr'"),
        ({}, {"lr": "fast"}, "lr = 'fast': must be a number"),
        ({}, {"batch_size": "1.5"}, "must be a whole number"),
        ({}, {"optimizer": "lion"}, "must be one of sgd, adam"),
        ({}, {"batch_size": 0}, "batch_size = 0: must be at least 1"),
        ({}, {"epochs": -1}, "epochs = -1: must be at least 0"),
        ({}, {"lr": -0.1}, "lr = -0.1: must be at least 0"),
        ({}, {"lr": "nan"}, "lr = nan: must be finite"),
    ],
)
def test_mistakes_are_named(settings, hparams, says):
    with pytest.raises(UserError, match=says) as caught:
        make_run("fedavg", settings, hparams)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("share", "own", "clients", "size"),
    [
        (1.0, 1.0, 20, 20),
        (0.1, 1.0, 20, 2),
        (0.3, 1.0, 10, 3),
        (0.01, 1.0, 20, 1),
        (0.5, 0.1, 100, 10),
    ],
)
def test_cohort_size(share, own, clients, size):
    made = replace(run(clients=clients, participation=share), hparams={"participation": own})
    assert made.cohort_size == size


@dataclass(frozen=True)
class PerDataset(Hparams):
    alpha: float = hparam(
        0.01, (0.0, 1.0), "depends", per_dataset={"cifar10": 0.2, "cifar100": 0.3}
    )


@pytest.mark.parametrize(
    ("dataset", "alpha"),
    [
        ("cifar10", 0.2),
        ("cifar100", 0.3),
        ("digits", 0.01),
        ("npz:some/cifar100-sample.npz", 0.3),
        ("npz:cifar10-x.npz", 0.2),
    ],
)
def test_default_may_depend_on_the_data_set(dataset, alpha):
    assert complete(PerDataset, {}, dataset, "x").alpha == alpha
    assert complete(PerDataset, {"alpha": 0.7}, dataset, "x").alpha == 0.7
