"""UCI HAR and AG News, read from files that the tests make."""

import hashlib
import io
import zipfile

import numpy as np
import pytest

from pflbench.data import datasets, downloads
from pflbench.errors import RunFailed, UserError
from tests.factories.data_files import counts, module, one_line

SIGNALS = [f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]
# label (from 1) and subject of every window
WINDOWS = {"train": [(1, 3), (6, 3), (2, 1)], "test": [(5, 2), (4, 10), (3, 10)]}
TRAIN = '"3","Wall St. Bears","Short-sellers, the Bears\\\\of Wall\\\\Street"\n"4","A","the the"\n'
TEST = '"1","Talks the ""end""","new words"\n"2","Game","of"\n'


def row(numbers):
    """Numbers as the files of UCI HAR have them."""
    return "".join(f"{number: 16.7e}" for number in numbers) + "\n"


def har_files():
    """Contents by path in the folder; signal s of window w is s + w / 100 at all times."""
    found = {"activity_labels.txt": "1 WALKING\n"}
    first = 0
    for part, windows in WINDOWS.items():
        found[f"{part}/y_{part}.txt"] = "".join(f"{label}\n" for label, _ in windows)
        found[f"{part}/subject_{part}.txt"] = "".join(f"{subject}\n" for _, subject in windows)
        for s, name in enumerate(SIGNALS):
            rows = [row([s + (first + w) / 100] * 128) for w in range(len(windows))]
            found[f"{part}/Inertial Signals/{name}_{part}.txt"] = "".join(rows)
        first += len(windows)
    return found


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def inner_archive(files=None):
    return zipped(
        {f"UCI HAR Dataset/{name}": text for name, text in (files or har_files()).items()}
    )


@pytest.fixture
def har(monkeypatch):
    """UCI HAR with six windows: the archive, as it is published, and its sum."""
    archive = zipped({"UCI HAR Dataset.zip": inner_archive(), "UCI HAR Dataset.names": "names"})
    counts(monkeypatch, "uci_har", 6, 6)
    monkeypatch.setattr(module("uci_har"), "CLIENTS", 4)
    for name, content in (("SHA256", archive), ("INNER_SHA256", inner_archive())):
        monkeypatch.setattr(module("uci_har"), name, hashlib.sha256(content).hexdigest())
    return archive


@pytest.fixture
def news(monkeypatch):
    """AG News with four texts, by file name."""
    counts(monkeypatch, "ag_news", 4, 4)
    files = {"train.csv": TRAIN.encode(), "test.csv": TEST.encode()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setattr(module("ag_news"), "SHA256", sums)
    return files


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def assert_is_har(data):
    assert data.x.shape == (6, 9, 128) and data.kind == "features"
    assert np.allclose(data.x[4, 7], 7.04) and np.allclose(data.x[:, 0, 0], np.arange(6) / 100)
    assert data.y.tolist() == [0, 5, 1, 4, 3, 2]
    assert data.class_names[5] == "laying"
    assert data.client_names == ("1", "2", "3", "10")
    assert data.client.tolist() == [2, 2, 0, 1, 3, 3]


def test_uci_har_from_its_archive(tmp_path, har):
    assert datasets.describe("uci_har", tmp_path) == ("UCI HAR", "no")
    with pytest.raises(UserError, match="pflbench data get uci_har"):
        datasets.load("uci_har", tmp_path)
    put(tmp_path / module("uci_har").FILE, har)
    assert_is_har(datasets.load("uci_har", tmp_path))
    assert datasets.describe("uci_har", tmp_path) == ("UCI HAR", "yes")


@pytest.mark.parametrize("form", ["archive", "inner archive", "folder", "folder above"])
def test_uci_har_imported(tmp_path, har, form):
    source = tmp_path / "source"
    if form == "archive":
        put(source, har)
    elif form == "inner archive":
        put(source, inner_archive())
    else:
        zipfile.ZipFile(io.BytesIO(inner_archive())).extractall(source)
    files = source / "UCI HAR Dataset" if form == "folder" else source
    made, new = datasets.import_files("uci_har", files, tmp_path / "root")
    assert new
    assert_is_har(made)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"test/y_test.txt": "5\n4\n"}, "6 windows, 5 labels and 6 subjects"),
        ({"test/y_test.txt": "5\n4\n7\n"}, "a label is not one of 1..6"),
        ({"train/y_train.txt": "one\ntwo\nsix\n"}, "could not convert"),
        (
            {"test/Inertial Signals/body_acc_x_test.txt": row([1, 2]) * 3},
            "body_acc_x_test.txt has the shape (3, 2), not N x 128",
        ),
        ({"test/Inertial Signals/body_acc_x_test.txt": None}, "body_acc_x_test.txt"),
        ({"train/subject_train.txt": "1\n1\n1\n"}, "has 3 users where UCI HAR has 4"),
    ],
)
def test_uci_har_that_is_not_what_is_published(tmp_path, har, change, said):
    files = {name: text for name, text in {**har_files(), **change}.items() if text is not None}
    zipfile.ZipFile(io.BytesIO(inner_archive(files))).extractall(tmp_path)
    with pytest.raises(UserError) as caught:
        datasets.import_files("uci_har", tmp_path, tmp_path / "root")
    assert said in one_line(caught)


@pytest.mark.parametrize("name", ["uci_har", "ag_news"])
def test_what_is_imported_has_the_published_sums(tmp_path, har, news, name):
    put(tmp_path / "har.zip", har + b" ")
    for file, content in news.items():
        put(tmp_path / "news" / file, content + b" ")
    files = tmp_path / {"uci_har": "har.zip", "ag_news": "news"}[name]
    with pytest.raises(UserError, match="is not the published file of") as caught:
        datasets.import_files(name, files, tmp_path / "root")
    one_line(caught)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"cannot read|is not"):
        datasets.import_files(name, tmp_path / "empty", tmp_path / "root")


def test_ag_news_has_the_vocabulary_of_its_training_part(tmp_path, news):
    for name, content in news.items():
        put(tmp_path / "ag_news" / name, content)
    data = datasets.load("ag_news", tmp_path)
    tokens = module("ag_news").vocabulary([["the"] * 3, ["wall", "bears", "wall", "bears", "a"]])
    assert tokens == {"the": 2, "bears": 3, "wall": 4, "a": 5}
    assert data.x.shape == (4, 64) and data.kind == "tokens"
    assert data.y.tolist() == [2, 3, 0, 1]
    assert data.class_names == ("World", "Sports", "Business", "Sci/Tech")
    the, unknown = 2, 1
    words = sorted({"wall", "st", "bears", "short", "sellers", "the", "of", "street", "a"})
    assert data.vocabulary == len(words) + 2
    assert data.x[1, :4].tolist() == [data.x[1, 0], the, the, 0]
    # talks the end new words: of them the training part has only one
    assert data.x[2, :6].tolist() == [unknown, the, unknown, unknown, unknown, 0]
    # the; bears, wall: twice; a, of, sellers, short, st, street: once
    assert data.x[0, :3].tolist() == [4, 9, 3]  # wall st bears


def test_ag_news_imported_from_a_folder(tmp_path, news, monkeypatch):
    for name, content in news.items():
        put(tmp_path / "here" / name, content)
    made, new = datasets.import_files("ag_news", tmp_path / "here", tmp_path / "root")
    assert new and len(made.y) == 4
    bad = b'"5","title","text"\n'
    put(tmp_path / "bad" / "train.csv", bad)
    monkeypatch.setattr(module("ag_news"), "SHA256", {"train.csv": hashlib.sha256(bad).hexdigest()})
    with pytest.raises(UserError, match=r"row 1 is not a topic of 1..4") as caught:
        datasets.import_files("ag_news", tmp_path / "bad", tmp_path / "other")
    one_line(caught)


@pytest.mark.parametrize("name", ["uci_har", "ag_news"])
def test_download_compares_sums(tmp_path, har, news, monkeypatch, name):
    """The files come from a folder, as they would from the publishers."""
    source = tmp_path / "source"
    put(source / "har.zip", har)
    for file, content in news.items():
        put(source / file, content)
    address = {"uci_har": f"file://{source}/har.zip", "ag_news": f"file://{source}/"}
    monkeypatch.setattr(module(name), "URL", address[name])
    said: list[str] = []
    made = datasets.download(name, tmp_path / "root", said.append)
    assert f"digest {made.digest}" in said[1]
    for file in source.iterdir():
        file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(RunFailed, match="has the SHA-256 sum") as caught:
        datasets.download(name, tmp_path / "other", said.append)
    one_line(caught)
    assert not [path for path in (tmp_path / "other").rglob("*") if path.is_file()]


def test_a_file_with_another_sum_counts_as_missing(tmp_path, har, monkeypatch):
    put(tmp_path / module("uci_har").FILE, har + b" ")
    with pytest.raises(UserError, match="pflbench data get uci_har"):
        datasets.load("uci_har", tmp_path)


def test_a_file_that_is_there_is_not_fetched_again(tmp_path):
    put(tmp_path / "a", b"here")
    downloads.fetch("file:///nowhere/at/all", tmp_path / "a", hashlib.sha256(b"here").hexdigest())
