"""Data sets in Python files of a user's own."""

from pathlib import Path

import numpy as np
import pytest

from pflbench.data import datasets, loader_file
from pflbench.errors import UserError
from pflbench.methods.hyperparameters import make_run
from tests.factories.data_files import one_line
from tests.factories.kinds_of_data import loader, made_up

COUNTED = """
from pathlib import Path
import numpy as np

FILES = ["values.txt"]

def load(root):
    here = Path(__file__).parent
    with (here / "executed.txt").open("a") as log:
        log.write("once\\n")
    values = np.loadtxt(here / "values.txt")
    return values[:, None].repeat(3, 1), np.arange(len(values)) % 2
"""


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("kind", ["features", "series", "tokens", "images"])
def test_what_a_file_gives_is_prepared(tmp_path, kind):
    data = datasets.load(loader(tmp_path, kind), tmp_path / "root")
    given = made_up(kind)
    assert np.array_equal(data.x.reshape(given["x"].shape), given["x"])
    assert np.array_equal(data.y, given["y"])
    assert data.title == f"Own {kind}"
    assert data.client is not None
    assert [data.client_names[one] for one in data.client] == given["client"].tolist()
    assert isinstance(data.x, np.memmap)


def test_it_is_executed_once_until_it_or_a_file_it_reads_changes(tmp_path):
    spec, root = written(tmp_path / "mine.py", COUNTED), tmp_path / "root"
    np.savetxt(tmp_path / "values.txt", np.arange(20.0))

    def executions():
        return (tmp_path / "executed.txt").read_text().count("once")

    first = datasets.load(spec, root)
    assert datasets.load(spec, root).folder == first.folder and executions() == 1
    np.savetxt(tmp_path / "values.txt", np.arange(20.0) + 1)
    second = datasets.load(spec, root)
    assert second.x.min() == 1 and executions() == 2
    written(tmp_path / "mine.py", COUNTED.replace("repeat(3", "repeat(4"))
    assert datasets.load(spec, root).shape == (4,) and executions() == 3


def test_a_run_counts_the_content_and_not_the_path(tmp_path):
    (tmp_path / "other").mkdir()
    one = written(tmp_path / "mine.py", COUNTED)
    moved = written(tmp_path / "other" / "mine.py", COUNTED)
    changed = written(tmp_path / "other" / "new.py", COUNTED + "\n")
    for folder in (tmp_path, tmp_path / "other"):
        np.savetxt(folder / "values.txt", np.arange(20.0))
    runs = [make_run("fedavg", {"dataset": spec}, {}) for spec in (one, moved, changed)]
    first, second, third = (run.id for run in runs)
    assert first == second != third
    assert first.startswith("fedavg-mine-dir0.1-s0-")
    np.savetxt(tmp_path / "values.txt", np.arange(21.0))  # what it reads is part of it
    assert runs[0].id != first


WRONG = {
    "no function": ("x = 1", "must define load(root)"),
    "syntax": ("def load(root) return", "mine.py, line 1: "),
    "import": ("import nothing_like_it\ndef load(root): pass", "cannot be imported: ModuleNotF"),
    "failure": (
        "def load(root):\n    return 1 / 0",
        "load() failed: ZeroDivisionError: division by",
    ),
    "exit": ("def load(root):\n    raise SystemExit(3)", "load() failed: SystemExit: 3 (line 2)"),
    "missing file": (
        "def load(root):\n    open('nothing.csv')",
        "load() failed: FileNotFoundError",
    ),
    "none": ("def load(root): pass", "it returns NoneType"),
    "no labels": ("def load(root): return {'x': [[1.0]]}", "has no array y; its arrays: x"),
    "bad labels": ("def load(root): return [[1.0]], [0.5]", "y must be integers or texts"),
    "a triple": ("def load(root): return 1, 2, 3", "it returns tuple"),
    "bad files": ("FILES = 3\ndef load(root): pass", "FILES must be a list of paths"),
    "no such file": ("FILES = ['a.csv']\ndef load(root): pass", "cannot read "),
}


@pytest.mark.parametrize("text, said", WRONG.values(), ids=WRONG)
def test_every_mistake_is_one_line(tmp_path, text, said):
    spec = written(tmp_path / "mine.py", text)
    with pytest.raises(UserError) as caught:
        datasets.load(spec, tmp_path / "root")
    assert said in one_line(caught)
    assert ("a.csv" if "a.csv" in text else "mine.py") in one_line(caught)


def test_a_file_that_is_not_there_is_named_with_its_neighbour(tmp_path):
    written(tmp_path / "mine.py", COUNTED)
    with pytest.raises(UserError, match=r"no data set file '.*mien.py'; did you mean '.*mine.py'"):
        datasets.load(str(tmp_path / "mien.py"), tmp_path)


def test_a_run_of_a_file_that_is_not_there_has_no_id(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*mine.py: No such file") as caught:
        _ = make_run("fedavg", {"dataset": str(tmp_path / "mine.py")}, {}).id
    one_line(caught)
    (tmp_path / "mine.py").write_bytes(b"\0")
    with pytest.raises(UserError, match=r"mine.py") as caught:
        _ = make_run("fedavg", {"dataset": str(tmp_path / "mine.py")}, {}).id
    one_line(caught)


def test_it_is_told_apart_from_methods_and_networks(tmp_path):
    assert loader_file.is_loader(written(tmp_path / "mine.py", COUNTED))
    assert not loader_file.is_loader(written(tmp_path / "net.py", "def build(): pass"))
    assert not loader_file.is_loader(str(tmp_path / "none.py"))
    assert not loader_file.is_loader(written(tmp_path / "bad.py", "def load("))
