"""Data sets: reading each format from tiny files, preparing once, sharing, and one line for every mistake."""

import hashlib
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench.data import datasets, torchvision_files
from pflbench.errors import RunFailed, UserError
from tests.factories.data_files import counts, module, one_line, write_idx


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("PFLBENCH_DATA", raising=False)
    return tmp_path / "root"


def test_names_are_the_files_of_the_package():
    assert datasets.names() == [
        "ag_news",
        "breast_cancer",
        "cifar10",
        "cifar100",
        "digits",
        "emnist",
        "fashion_mnist",
        "npz",
        "synthetic",
        "uci_har",
    ]
    for name in datasets.names():
        assert module(name).__doc__ and module(name).TITLE


def test_digits_by_hand(root):
    from sklearn.datasets import load_digits

    digits = datasets.load("digits", root)
    assert (digits.name, digits.title, digits.classes) == ("digits", "Digits", 10)
    assert digits.x.shape == (1797, 1, 28, 28)
    assert digits.shape == (1, 28, 28)
    assert (digits.x.dtype.name, digits.y.dtype.name) == ("uint8", "int64")
    assert digits.y[:10].tolist() == list(range(10))
    assert isinstance(digits.x, np.memmap) and not digits.x.flags.writeable
    first = digits.x[0, 0]
    # the first row of the first image is 0 0 5 13 9 1 0 0; 255/16 times that is 79.7, 207.2, 143.4, 15.9
    assert first[2, 2::3][:8].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]
    assert (first[2:5, 8:11] == 80).all()
    assert (
        not first[:2].any()
        and not first[-2:].any()
        and not first[:, :2].any()
        and not first[:, -2:].any()
    )
    small = digits.x[:, 0, 2:-2:3, 2:-2:3].astype(int)
    assert np.array_equal((small * 16 + 127) // 255, load_digits().images.astype(int))
    assert digits.digest == "61ae24f35cfd300e"


def test_digest_by_hand(root):
    made = datasets.load("synthetic:samples=8,side=2", root)
    sha = hashlib.sha256(
        b"((8, 1, 2, 2), (8,))" + made.x.tobytes() + made.y.astype("<i8").tobytes()
    )
    assert made.digest == sha.hexdigest()[:16]


def test_synthetic_options(root):
    made = datasets.load("synthetic:classes=3,side=5,channels=2,samples=31,seed=4", root)
    assert made.x.shape == (31, 2, 5, 5)
    assert sorted(np.bincount(made.y)) == [10, 10, 11]
    default = datasets.load("synthetic", root)
    spelled = datasets.load("synthetic:seed=0,samples=600", root)
    assert default.x.shape == (600, 1, 16, 16) and default.classes == 4
    assert default.folder == spelled.folder and default.digest == spelled.digest
    assert datasets.load("synthetic:seed=1", root).digest != default.digest


def test_synthetic_classes_are_learnable(root):
    made = datasets.load("synthetic", root)
    x = made.x.reshape(600, -1).astype(float)
    means = np.stack([x[:300][made.y[:300] == c].mean(0) for c in range(4)])
    nearest = np.argmin(((x[300:, None] - means) ** 2).sum(-1), axis=1)
    assert (nearest == made.y[300:]).mean() > 0.95


@pytest.mark.parametrize(
    "options", ["sides=3", "side=x", "side=-1", "side=1.5", "side", "=3", "seed=1;side=2"]
)
def test_synthetic_names_the_allowed_options(root, options):
    with pytest.raises(
        UserError, match="classes=4, side=16, channels=1, samples=600, seed=0"
    ) as caught:
        datasets.load(f"synthetic:{options}", root)
    one_line(caught)


@pytest.mark.parametrize("options", ["side=0", "classes=0", "classes=700"])
def test_synthetic_impossible_options(root, options):
    with pytest.raises(UserError, match="at least") as caught:
        datasets.load(f"synthetic:{options}", root)
    one_line(caught)


@pytest.mark.parametrize(
    "shape, wanted",
    [
        ((6, 7, 8), (6, 1, 7, 8)),
        ((6, 7, 8, 3), (6, 3, 7, 8)),
        ((6, 3, 7, 8), (6, 3, 7, 8)),
        ((6, 2, 7, 3), (6, 3, 2, 7)),  # ambiguous: the last axis wins
    ],
)
def test_npz_layouts(root, tmp_path, shape, wanted):
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", x=x, y=np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8))
    made = datasets.load(f"npz:{tmp_path / 'mine.npz'}", root)
    assert made.title == "mine.npz"
    assert made.x.shape == wanted
    assert made.y.dtype == np.int64 and made.classes == 3
    moved = x if shape == wanted else x[:, None] if x.ndim == 3 else np.moveaxis(x, -1, 1)
    assert np.array_equal(made.x, moved)


@pytest.mark.parametrize(
    "labels, said",
    [
        (
            [1, 5, 9, 20],
            "no sample has the label 0, 2, 3, ...; every label of 0..20 counts as a class, so"
            " networks have 21 outputs and path:CLASSES divides 21 classes;"
            " number the 4 labels from 0 to avoid that",
        ),
        ([0, 2, 3], "no sample has the label 1; every label of 0..3 counts as a class"),
        ([1, 0, 2], None),
    ],
)
def test_labels_with_gaps_are_told_in_one_line_every_time(root, tmp_path, labels, said):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((24, 8, 8), np.uint8), y=np.resize(labels, 24))
    for _ in range(2):  # before and after it is prepared
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert datasets.load(f"npz:{path}", root).classes == max(labels) + 1
        assert [str(one.message).startswith(f"{path}: {said}") for one in told] == [True] * bool(
            said
        )


def test_npz_key_follows_the_content(root, tmp_path):
    path = tmp_path / "a.npz"
    x, y = np.zeros((4, 5, 5), dtype=np.uint8), np.arange(4)
    np.savez(path, x=x, y=y)
    first = datasets.load(f"npz:{path}", root)
    assert datasets.load(f"npz:{path}", root).folder == first.folder
    np.savez(path, x=x + 1, y=y)
    second = datasets.load(f"npz:{path}", root)
    assert second.folder != first.folder and second.digest != first.digest
    assert second.x.max() == 1 and first.x.max() == 0


X, Y = np.zeros((3, 5, 5), dtype=np.uint8), np.array([0, 1, 1])
BAD_ARCHIVES = {
    "no y": ({"x": X}, "has no array y; its arrays: x"),
    "no arrays": ({}, "has no array x and no array y; its arrays: none"),
    "complex numbers": ({"x": X.astype(complex), "y": Y}, "x is complex128; it must be uint8"),
    "one feature": ({"x": Y / 2, "y": Y}, r"x has the shape \(3,\); features are N x D"),
    "not a number": ({"x": X + np.nan, "y": Y}, "3 samples of x have numbers that are not finite"),
    "large floats": ({"x": X + 1e300, "y": Y}, "3 samples of x have numbers that are not finite"),
    "tokens of pictures": ({"x": X.astype(int), "y": Y}, r"tokens \(integers\) are N x L"),
    "negative token": ({"x": Y[:, None] - 1, "y": Y}, "x has the token -1"),
    "wild token": ({"x": Y[:, None] * 10**9, "y": Y}, "x has the token 1000000000"),
    "small vocabulary": (
        {"x": Y[:, None] * 5, "y": Y, "vocabulary": np.array(5)},
        "vocabulary must be a whole number of 6..",
    ),
    "few owners": ({"x": X, "y": Y, "client": Y[:2]}, r"client has the shape \(2,\)"),
    "float owners": ({"x": X, "y": Y, "client": Y / 2}, "client must be integers or texts"),
    "few names": (
        {"x": X, "y": Y, "class_names": np.array(["a"])},
        "y has the label 1 and class_names 1 names",
    ),
    "equal names": (
        {"x": X, "y": Y, "class_names": np.array(["a", "a"])},
        "class_names must be different texts",
    ),
    "names twice": (
        {"x": X, "y": np.array(["a", "b", "b"]), "class_names": np.array(["a", "b"])},
        "y has names already",
    ),
    "flat": ({"x": X.reshape(3, 25), "y": Y}, r"x has the shape \(3, 25\)"),
    "many channels": (
        {"x": np.zeros((3, 9, 5, 5), dtype=np.uint8), "y": Y},
        "without an axis of 1..4 channels",
    ),
    "no images": ({"x": X[:0], "y": Y[:0]}, "x is empty"),
    "float labels": ({"x": X, "y": Y / 2}, "y must be integers or texts, not float64"),
    "one-hot labels": ({"x": X, "y": np.eye(3, dtype=int)}, "y must have one axis"),
    "lengths": ({"x": X, "y": Y[:2]}, "x has 3 samples and y has 2 labels"),
    "negative label": ({"x": X, "y": Y - 1}, "has the label -1"),
    "wild label": ({"x": X, "y": Y * 10**9}, "has the label 1000000000 and only 3 samples"),
    "objects": ({"x": X, "y": np.array([{}, 1, 2], dtype=object)}, "plain arrays"),
}


@pytest.mark.parametrize("arrays, words", BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_npz_malformed(root, tmp_path, arrays, words):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(UserError, match=words) as caught:
        datasets.load(f"npz:{path}", root)
    assert str(path) in one_line(caught)


def test_npz_that_is_no_archive(root, tmp_path):
    np.savez(tmp_path / "whole.npz", x=X, y=Y)
    cut = (tmp_path / "whole.npz").read_bytes()[:-40]
    np.save(tmp_path / "single.npy", X)
    single = (tmp_path / "single.npy").read_bytes()
    for content, words in [
        (b"", "bad.npz"),
        (b"hello\n", "bad.npz"),
        (cut, "not a zip"),
        (single, "single array"),
    ]:
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(UserError, match=words) as caught:
            datasets.load(f"npz:{tmp_path / 'bad.npz'}", root)
        assert "bad.npz" in one_line(caught)
    for missing in (tmp_path / "none.npz", tmp_path):
        with pytest.raises(UserError, match=f"cannot read {missing}: ") as caught:
            datasets.load(f"npz:{missing}", root)
        one_line(caught)


def test_fashion_mnist_from_raw_files(root, monkeypatch):
    counts(monkeypatch, "fashion_mnist", 5, 10)
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28))
    raw = root / "FashionMNIST" / "raw"
    write_idx(raw / "train-images-idx3-ubyte.gz", images[:3])
    write_idx(raw / "train-labels-idx1-ubyte.gz", np.array([9, 0, 1]))
    write_idx(raw / "t10k-images-idx3-ubyte", images[3:])
    write_idx(raw / "t10k-labels-idx1-ubyte", np.array([4, 5]))
    made = datasets.load("fashion_mnist", root)
    assert made.title == "Fashion-MNIST" and made.classes == 10
    assert np.array_equal(made.x, images[:, None])
    assert made.y.tolist() == [9, 0, 1, 4, 5]
    said: list[str] = []
    assert datasets.download("fashion_mnist", root, said.append).digest == made.digest
    assert said == []


def test_a_published_data_set_has_its_numbers(root):
    raw = root / "FashionMNIST" / "raw"
    for part in ("train", "t10k"):
        write_idx(raw / f"{part}-images-idx3-ubyte", np.zeros((2, 28, 28)))
        write_idx(raw / f"{part}-labels-idx1-ubyte", np.array([1, 2]))
    with pytest.raises(
        UserError, match=r"has 4 images, 4 labels and 3 classes where .* 70000 images and 10"
    ) as caught:
        datasets.load("fashion_mnist", root)
    one_line(caught)
    assert not (root / "prepared").exists()


def test_damaged_raw_files(root):
    raw = root / "FashionMNIST" / "raw"
    for part in ("train", "t10k"):
        write_idx(raw / f"{part}-images-idx3-ubyte", np.zeros((2, 28, 28)))
        write_idx(raw / f"{part}-labels-idx1-ubyte", np.array([1, 2]))
    images = raw / "train-images-idx3-ubyte"
    for content in (images.read_bytes()[:-9], b"\0\0", b""):
        images.write_bytes(content)
        with pytest.raises(UserError, match=r"FashionMNIST in .* is damaged; delete it") as caught:
            datasets.load("fashion_mnist", root)
        one_line(caught)
    images.unlink()
    with pytest.raises(UserError, match="fashion_mnist' is not in"):
        datasets.load("fashion_mnist", root)
    (raw / f"{images.name}.gz").write_bytes(b"not gzip")
    with pytest.raises(UserError, match="cannot unpack") as caught:
        datasets.load("fashion_mnist", root)
    one_line(caught)
    assert not list(raw.glob("*.part"))


def test_emnist_is_made_upright(root, monkeypatch):
    counts(monkeypatch, "emnist", 3, 47)
    stroke = np.zeros((3, 28, 28), dtype=np.uint8)
    stroke[:, :, 5] = 200  # stored transposed: a column of the file is a row of the picture
    raw = root / "EMNIST" / "raw"
    write_idx(raw / "emnist-balanced-train-images-idx3-ubyte.gz", stroke[:2])
    write_idx(raw / "emnist-balanced-train-labels-idx1-ubyte.gz", np.array([46, 0]))
    write_idx(raw / "emnist-balanced-test-images-idx3-ubyte.gz", stroke[2:])
    write_idx(raw / "emnist-balanced-test-labels-idx1-ubyte.gz", np.array([3]))
    made = datasets.load("emnist", root)
    assert made.x.shape == (3, 1, 28, 28)
    assert (made.x[:, 0, 5, :] == 200).all()
    assert made.x.sum() == 3 * 28 * 200
    assert made.y.tolist() == [46, 0, 3]


@pytest.mark.parametrize(
    "name, kind, label", [("cifar10", "CIFAR10", "labels"), ("cifar100", "CIFAR100", "fine_labels")]
)
def test_cifar_from_its_pickles(root, monkeypatch, name, kind, label):
    kind = getattr(torchvision_files.torchvision().datasets, kind)
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    folder = root / kind.base_folder
    folder.mkdir(parents=True)

    def write(file, content):
        (folder / file).write_bytes(pickle.dumps(content))
        return hashlib.md5((folder / file).read_bytes()).hexdigest()

    train = write("first", {"data": images[:2].reshape(2, -1), label: [9, 2]})
    test = write("second", {"data": images[2:].reshape(1, -1), label: [1]})
    meta = write(kind.meta["filename"], {kind.meta["key"]: list("abcdefghij")})
    monkeypatch.setattr(kind, "train_list", [["first", train]])
    monkeypatch.setattr(kind, "test_list", [["second", test]])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": meta})
    counts(monkeypatch, name, 3, 10)
    made = datasets.load(name, root)
    assert np.array_equal(made.x, images)
    assert made.y.tolist() == [9, 2, 1]


def test_cifar_with_a_wrong_checksum_is_not_unpickled(root, monkeypatch):
    kind = torchvision_files.torchvision().datasets.CIFAR10
    folder = root / kind.base_folder
    folder.mkdir(parents=True)
    for file, _ in [*kind.train_list, *kind.test_list]:
        (folder / file).write_bytes(b"cos\nabort\n(tR.")
    with pytest.raises(UserError, match="data set 'cifar10' is not in"):
        datasets.load("cifar10", root)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "emnist", "fashion_mnist"])
def test_missing_data_names_the_command(root, monkeypatch, name):
    with pytest.raises(UserError) as caught:
        datasets.load(name, root)
    assert one_line(caught) == (
        f"data set '{name}' is not in {root}; get it with: pflbench data get {name} --data-root {root}"
    )
    assert not root.exists()
    monkeypatch.setenv("PFLBENCH_DATA", str(root))
    with pytest.raises(UserError) as caught:
        datasets.load(name)
    assert (
        one_line(caught)
        == f"data set '{name}' is not in {root}; get it with: pflbench data get {name}"
    )


def test_download_gets_verifies_and_prepares(root, monkeypatch):
    fashion = module("fashion_mnist")
    calls = []

    def fetch(folder):
        calls.append(folder)
        for part in ("train", "t10k"):
            write_idx(
                folder / "FashionMNIST" / "raw" / f"{part}-images-idx3-ubyte.gz",
                np.zeros((2, 28, 28)),
            )
            write_idx(
                folder / "FashionMNIST" / "raw" / f"{part}-labels-idx1-ubyte.gz", np.array([1, 2])
            )

    monkeypatch.setattr(fashion, "download", fetch)
    with pytest.raises(UserError, match="70000"):
        datasets.download("fashion_mnist", root, lambda line: None)
    counts(monkeypatch, "fashion_mnist", 4, 3)
    said: list[str] = []
    made = datasets.download("fashion_mnist", root, said.append)
    assert calls == [root] and len(made.y) == 4
    assert datasets.download("fashion_mnist", root, said.append).digest == made.digest
    assert calls == [root]


def test_download_without_a_network_is_one_line(root, monkeypatch):
    def fail(folder):
        raise RuntimeError("Error downloading x:\nTried http://example, got:\n<urlopen error>")

    monkeypatch.setattr(module("cifar10"), "download", fail)
    with pytest.raises(
        RunFailed, match=r"could not get data set 'cifar10' into .*: Error downloading"
    ) as caught:
        datasets.download("cifar10", root, lambda line: None)
    one_line(caught)


def test_torchvision_is_asked_to_download_both_parts(root, monkeypatch):
    asked = []
    monkeypatch.setattr(
        torchvision_files.torchvision().datasets, "EMNIST", lambda **options: asked.append(options)
    )
    module("emnist").download(root)
    assert asked == [
        {"root": str(root), "train": t, "download": True, "split": "balanced"}
        for t in (True, False)
    ]


def test_unknown_and_superfluous(root):
    with pytest.raises(UserError, match="unknown data set 'cifar'; did you mean 'cifar10'"):
        datasets.load("cifar", root)
    with pytest.raises(UserError, match=r"unknown data set '\.\./x'"):
        datasets.load("../x", root)
    with pytest.raises(UserError, match="'digits' takes no argument"):
        datasets.load("digits:3", root)
    with pytest.raises(UserError, match="npz:PATH"):
        datasets.load("npz", root)


def test_data_root(monkeypatch, tmp_path):
    monkeypatch.delenv("PFLBENCH_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.data_root(None) == tmp_path / ".cache" / "pflbench"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert datasets.data_root(None) == tmp_path / "x" / "pflbench"
    monkeypatch.setenv("PFLBENCH_DATA", str(tmp_path / "d"))
    assert datasets.data_root(None) == tmp_path / "d"
    assert datasets.data_root(Path("~/given")) == tmp_path / "given"
    monkeypatch.chdir(tmp_path)
    assert datasets.data_root(Path("given")) == tmp_path / "given"


def test_root_that_cannot_be_used(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for root, words in [
        (file, "is a file"),
        (file / "below", "cannot write"),
        (Path("/proc/none"), "cannot write"),
    ]:
        for spec in ("synthetic", "digits"):
            with pytest.raises(UserError, match=f"{words}.*--data-root") as caught:
                datasets.load(spec, root)
            assert str(root) in one_line(caught)
        with pytest.raises(UserError, match="--data-root") as caught:
            datasets.download("cifar10", root, lambda line: None)
        assert str(root) in one_line(caught)


def test_prepared_once(root, monkeypatch):
    first = datasets.load("synthetic", root)
    monkeypatch.setattr(module("synthetic"), "read", lambda *_: pytest.fail("read again"))
    again = datasets.load("synthetic", root)
    assert np.array_equal(first.x, again.x) and first.digest == again.digest
    assert sorted(p.name for p in first.folder.iterdir()) == ["meta.json", "x.npy", "y.npy"]
    assert [p.name for p in (root / "prepared").iterdir()] == [first.folder.name]


def cut(path):
    path.write_bytes(path.read_bytes()[:-10])


def other_shape(folder):
    np.save(folder / "x.npy", np.load(folder / "x.npy").reshape(600, 1, 8, 32))


DAMAGES = {
    "x cut": lambda folder: cut(folder / "x.npy"),
    "x longer": lambda folder: (folder / "x.npy").write_bytes(
        (folder / "x.npy").read_bytes() + b"more"
    ),
    "y cut": lambda folder: cut(folder / "y.npy"),
    "x gone": lambda folder: (folder / "x.npy").unlink(),
    "meta cut": lambda folder: cut(folder / "meta.json"),
    "meta gone": lambda folder: (folder / "meta.json").unlink(),
    "meta is a list": lambda folder: (folder / "meta.json").write_text("[]"),
    "other shape": other_shape,
    "other bytes": lambda folder: (folder / "x.npy").write_bytes(
        bytes((folder / "x.npy").stat().st_size)
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_prepared_folder_is_rebuilt(root, damage):
    made = datasets.load("synthetic", root)
    x, y = np.array(made.x), np.array(made.y)
    folder, digest = made.folder, made.digest
    del made
    damage(folder)
    again = datasets.load("synthetic", root)
    assert again.digest == digest
    assert (folder / "x.npy").stat().st_size == 128 + x.size  # numpy's header and the bytes
    assert np.array_equal(again.x, x) and np.array_equal(again.y, y)
    assert [p.name for p in (root / "prepared").iterdir()] == [folder.name]
    assert json.loads((folder / "meta.json").read_text())["digest"] == digest


def test_pickles_small_and_reopens(root):
    made = datasets.load("synthetic", root)
    content = pickle.dumps(made)
    assert len(content) < 1000
    back = pickle.loads(content)
    assert isinstance(back.x, np.memmap)
    assert (back.name, back.title, back.digest, back.classes) == (
        made.name,
        made.title,
        made.digest,
        made.classes,
    )
    assert np.array_equal(back.x, made.x) and np.array_equal(back.y, made.y)
    (made.folder / "meta.json").unlink()
    with pytest.raises(RunFailed, match="no longer in"):
        pickle.loads(content)


WORKER = """
import sys
import warnings
from pathlib import Path
from pflbench.data import datasets
datasets.names()
print("ready", flush=True)
sys.stdin.readline()
made = datasets.load(sys.argv[1], Path(sys.argv[2]))
print(made.digest, int(made.x.sum(dtype="int64")), len(made.y))
"""


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_that_prepare_at_once(root, tmp_path, damaged):
    x = np.random.default_rng(0).integers(0, 256, (4000, 32, 32), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(4000) % 10)
    spec = f"npz:{tmp_path / 'a.npz'}"
    if damaged:
        cut(datasets.load(spec, root).folder / "x.npy")
    command = [sys.executable, "-c", WORKER, spec, str(root)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers: list[Any] = [subprocess.Popen(command, **pipes) for _ in range(4)]
    assert all(worker.stdout.readline() == "ready\n" for worker in workers)
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    results = [worker.communicate(timeout=60)[0].split() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4
    made = datasets.load(spec, root)
    assert results == [[made.digest, str(x.sum(dtype=np.int64)), "4000"]] * 4
    assert len(list((root / "prepared").iterdir())) == 1


def test_torchvision_is_imported_when_needed_and_works():
    code = """
import sys
import warnings
from pflbench.data import datasets
assert "torchvision" not in sys.modules
datasets.names()
assert "torchvision" not in sys.modules
from pflbench.data.torchvision_files import torchvision
import torch
net = torchvision().models.resnet18(num_classes=10)
assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
import torchvision.datasets, torchvision.transforms
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
