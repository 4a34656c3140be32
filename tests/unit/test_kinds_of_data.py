"""Images, features and tokens: how they are read, and what networks see of them."""

import pickle

import numpy as np
import pytest
import torch

from pflbench.data import datasets, prepared, standard
from pflbench.errors import UserError
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation import runner
from pflbench.simulation.description import described
from pflbench.testing import toy
from tests.factories.data_files import one_line
from tests.factories.kinds_of_data import CLIENTS, MODELS, SAMPLES, made_up, npz

NATURAL = {
    "partition": "natural",
    "clients": CLIENTS,
    "min_samples": 4,
    "rounds": 1,
    "model": "mlp",
    "width": 8,
}


def setup(dataset, **settings):
    return runner.prepare(make_run("fedavg", {"dataset": dataset, **NATURAL, **settings}, {}))


@pytest.mark.parametrize(
    "kind, dtype, shape",
    [("images", "uint8", (1, 16, 16)), ("features", "float32", (6,)), ("tokens", "int64", (8,))],
)
def test_the_type_of_x_says_what_samples_are(tmp_path, kind, dtype, shape):
    given = made_up(kind)
    if kind == "images":
        given["x"] = np.repeat(given["x"], 16, axis=1).reshape(SAMPLES, 16, 16)
    data = datasets.load(npz(tmp_path, kind, **given), tmp_path / "root")
    assert (data.kind, data.x.dtype.name, data.shape) == (kind, dtype, shape)
    assert isinstance(data.x, np.memmap)
    assert np.array_equal(data.x.reshape(SAMPLES, -1), given["x"].reshape(SAMPLES, -1))
    assert data.vocabulary == (int(given["x"].max()) + 1 if kind == "tokens" else None)


def test_doubles_become_floats_and_small_integers_tokens(tmp_path):
    x = made_up("features")["x"].astype(np.float64)
    data = datasets.load(npz(tmp_path, "features", x=x), tmp_path / "root")
    assert data.x.dtype == np.float32 and np.array_equal(data.x, x.astype(np.float32))
    x = made_up("tokens")["x"].astype(np.int16)
    data = datasets.load(npz(tmp_path, "tokens", x=x, vocabulary=50), tmp_path / "root")
    assert data.x.dtype == np.int64 and data.vocabulary == 50


@pytest.mark.parametrize("kind", ["U", "S", "O"])
def test_texts_as_labels_become_sorted_classes(tmp_path, kind):
    words = np.array(["walk", "sit", "lie"])[made_up("features")["y"]]
    if kind == "O":  # of pandas, in a loader
        (tmp_path / "own.py").write_text(
            "import numpy as np\n"
            f"def load(root):\n    return np.ones(({SAMPLES}, 2)), np.array({words.tolist()}, object)\n"
        )
        spec = str(tmp_path / "own.py")
    else:
        spec = npz(tmp_path, "features", y=words.astype(kind))
    data = datasets.load(spec, tmp_path / "root")
    assert data.class_names == ("lie", "sit", "walk") and data.classes == 3
    assert [data.class_names[label] for label in data.y] == words.tolist()


def test_names_of_classes_say_how_many_there_are(tmp_path, recwarn):
    spec = npz(tmp_path, "features", class_names=np.array(["a", "b", "c", "never"]))
    data = datasets.load(spec, tmp_path / "root")
    assert data.classes == 4 and data.class_names[3] == "never"
    assert not recwarn.list  # a class without samples is on purpose


def test_owners_are_sorted_numbers_as_numbers(tmp_path):
    numbers = np.array([10, 9, 2])[np.arange(SAMPLES) % 3]
    data = datasets.load(npz(tmp_path, "features", client=numbers), tmp_path / "root")
    assert data.client_names == ("2", "9", "10")
    assert data.client is not None and data.client[:3].tolist() == [2, 1, 0]


def test_owners_and_names_are_prepared_with_the_rest(tmp_path):
    data = datasets.load(npz(tmp_path, "features"), tmp_path / "root")
    again = pickle.loads(pickle.dumps(data))
    assert again.client_names == data.client_names == ("user0", "user1", "user2", "user3")
    assert isinstance(again.client, np.memmap) and np.array_equal(again.client, data.client)
    assert prepared.digest(again) == data.digest
    other = datasets.load(npz(tmp_path, "features", client=np.arange(SAMPLES)), tmp_path / "root")
    assert other.digest != data.digest
    np.save(data.folder / "client.npy", np.asarray(data.client)[::-1].copy())
    with pytest.raises(UserError, match=r"the prepared data in .* were changed"):
        datasets.load(npz(tmp_path, "features"), tmp_path / "root")


def test_features_are_standardized_by_the_samples_that_are_trained_on(tmp_path):
    made = setup(npz(tmp_path, "features"), new_clients=1)
    rows = np.concatenate(made.partition.train[:-1])
    mean, std = made.data.x[rows].mean(0, dtype=float), made.data.x[rows].std(0, dtype=float)
    assert made.standard is not None
    assert np.allclose(made.standard.mean, mean) and np.allclose(made.standard.std, std)
    inputs = made.algorithm().task.inputs(torch.from_numpy(made.data.x[rows]))
    assert (
        inputs.mean(0).abs().max() < 1e-5 and (inputs.std(0, correction=0) - 1).abs().max() < 1e-5
    )
    about = described(made, 1)["data"]
    assert about["standardized"] == {
        "mean": list(made.standard.mean),
        "std": list(made.standard.std),
    }
    # What test samples and new clients have does not matter.
    x = np.array(made.data.x)
    x[np.setdiff1d(np.arange(SAMPLES), rows)] *= 100
    assert setup(npz(tmp_path, "features", x=x), new_clients=1).standard == made.standard
    assert setup(npz(tmp_path, "features", x=x)).standard != made.standard


def test_features_may_be_left_as_they_are(tmp_path):
    made = setup(npz(tmp_path, "features"), standardize=False)
    x = torch.from_numpy(np.array(made.data.x))
    assert torch.equal(made.algorithm().task.inputs(x), x)
    assert described(made, 1)["data"]["standardized"] is None


def test_a_series_is_standardized_channel_by_channel():
    x = np.zeros((4, 2, 3), dtype=np.float32)
    x[:, 0] = [[1, 2, 3]] * 4
    x[:, 1] = 1e6 + 0.1  # constant: left, but for its mean
    found = standard.standard(x, [np.array([0, 1]), np.array([3])])
    assert found.mean == pytest.approx((2.0, float(np.float32(1e6 + 0.1))))
    assert found.std == pytest.approx(((2 / 3) ** 0.5, 1.0))


def test_images_are_scaled_and_tokens_are_not(tmp_path):
    images = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    task = toy("fedavg").algorithm.task
    assert torch.equal(task.inputs(images), images.float() / 127.5 - 1)
    made = setup(npz(tmp_path, "tokens"), model="text")
    x = torch.from_numpy(np.array(made.data.x))
    assert torch.equal(made.algorithm().task.inputs(x), x) and x.dtype is torch.int64
    about = described(made, 1)["data"]
    assert (about["kind"], about["vocabulary"]) == ("tokens", made.data.vocabulary)


def test_the_vocabulary_reaches_the_network(tmp_path):
    made = setup(npz(tmp_path, "tokens", vocabulary=99), model="text")
    assert made.algorithm().task.initial["body.embedding.weight"].shape == (99, 8)


@pytest.mark.parametrize(
    "kind, model, said",
    [
        ("features", "cnn", r"not samples of the shape \(6,\); use --model mlp"),
        ("features", "text", "needs tokens, but .*; use --model mlp"),
        ("series", "cnn", r"not samples of the shape \(2, 16\); use --model cnn1d or mlp"),
        ("series", "text", "use --model cnn1d"),
        ("tokens", "cnn", "model 'cnn' cannot read tokens; use --model text"),
        ("tokens", "mlp", "model 'mlp' cannot read tokens; use --model text"),
        ("images", "text", "use --model cnn"),
        ("images", "cnn1d", "use --model cnn"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_with_one_that_does(tmp_path, kind, model, said):
    with pytest.raises(UserError, match=said) as caught:
        setup(npz(tmp_path, kind), model=model)
    one_line(caught)


def test_the_embedded_features(tmp_path):
    data = datasets.load("breast_cancer", tmp_path)
    assert (data.x.shape, data.kind, data.classes) == ((569, 30), "features", 2)
    assert data.class_names == ("malignant", "benign")
    assert np.bincount(data.y).tolist() == [212, 357]
    assert data.digest == "1f390b860df0f7e1"


@pytest.mark.parametrize("kind", ["features", "series", "tokens"])
def test_a_network_learns_from_it(tmp_path, kind):
    federation = toy(
        "fedavg",
        {"lr": 0.5, "epochs": 5},
        dataset=npz(tmp_path, kind),
        model=MODELS[kind],
        partition="natural",
        rounds=4,
    )
    for _ in range(4):
        record, _ = federation.step()
    assert np.mean(record["accuracy"]["pre"]) > 0.7
