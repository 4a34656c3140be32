"""Numbers, files and folders that nobody means: each is answered in one line, and leaves nothing."""

import builtins
import errno
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench.simulation.federation import Federation

from . import commands
from .commands import SMALL, TOY, Call, fine, one_line

RUN = ["run", "fedavg", *SMALL, "--rounds", "2", "--quiet"]
SWEEP = [
    "sweep",
    "--algorithms",
    "fedavg",
    "--datasets",
    commands.TOY[1],
    *TOY[2:],
    "--clients",
    "4",
]
NESTED = "[" * 100_000 + "]" * 100_000
PLUGIN = """
from dataclasses import dataclass
from pflbench.api import Algorithm, Hparams, hparam
class Mine(Algorithm):
    title = "Mine"
    family = "None"
"""


@pytest.mark.parametrize(
    "words, said",
    [
        ("--width 10000000000", "width = 10000000000: must be at most 65536"),
        ("--clients 100000000000", "100000000000 clients are more than the 160 samples"),
        ("--dataset npz:~nosuchuser/x", "cannot read ~nosuchuser/x: "),
        ("--partition file:~nosuchuser/x", "cannot read ~nosuchuser/x: "),
        ("--body-weights ~nosuchuser/x.npz", "cannot read ~nosuchuser/x.npz: "),
        ("--body-weights ~nosuchuser/x.pt", "cannot read ~nosuchuser/x.pt: "),
        ("--dataset synthetic:side=100000", "6000000000000 pixels: at most 100000000"),
        ("--dataset synthetic:samples=999999999999", "at most 100000000"),
        ("--dataset synthetic:samples=" + "9" * 5000, "bad option 'samples=999"),
        ("--state-memory inf", "'--state-memory': inf must be a number up to 1000000"),
        ("--state-memory nan", "'--state-memory': "),
        ("--set dropout=2", "hyperparameter dropout = 2.0: must be below 1"),
        ("--set dropout=1", "hyperparameter dropout = 1.0: must be below 1"),
    ],
)
def test_a_number_or_path_that_nobody_means(call: Call, words: str, said: str):
    one_line(*call(*RUN, *words.split(" ")), said)
    assert not Path("results").exists()


def encrypted(path: Path) -> None:
    """An archive whose entries say that they are encrypted."""
    np.savez(path, x=np.zeros((9, 8, 8), np.uint8), y=np.arange(9) % 3)
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        while place >= 0:
            content[place + flags] |= 1
            place = content.find(mark, place + 4)
    path.write_bytes(content)


def no_arrays(path: Path) -> None:
    """An archive of texts."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "not an array")
        archive.writestr("y.npy", "not an array")


def huge(path: Path) -> None:
    """An archive whose first array says that it has 10^15 entries."""
    np.savez(path, x=np.zeros((9, 8, 8), np.uint8), y=np.arange(9) % 3)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    wrong = content["x.npy"].replace(b"(9, 8, 8), }           ", b"(1000000000000000, 8, 8), }")
    assert wrong != content["x.npy"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, old in content.items():
            archive.writestr(name, wrong if name == "x.npy" else old)


@pytest.mark.parametrize(
    "make, said",
    [
        (encrypted, "is encrypted"),
        (no_arrays, "x is not an array"),
        (huge, "mine.npz is not a readable .npz archive of plain arrays"),
    ],
)
@pytest.mark.parametrize("option", ["--dataset npz:", "--partition file:", "--body-weights "])
def test_an_archive_that_has_no_plain_arrays(
    call: Call, option: str, make: Callable[[Path], None], said: str
):
    make(Path("mine.npz"))
    one_line(*call(*RUN, *f"{option}mine.npz".split()), said)
    assert not Path("results").exists()


def test_toml_that_is_nested_too_deeply(call: Call):
    Path("deep.toml").write_text(f"clients = {NESTED}")
    one_line(*call(*RUN, "--config", "deep.toml"), "deep.toml is not TOML: it is nested too deeply")
    one_line(*call("sweep", "deep.toml"), "deep.toml is not TOML: it is nested too deeply")
    assert not Path("results").exists()


@pytest.mark.parametrize("content", ["[]", "3", '"text"', "null", NESTED, '{"config": 3}'])
@pytest.mark.parametrize("file", ["run.json", "status.json"])
def test_json_of_the_wrong_type(call: Call, content: str, file: str):
    fine(call, *SWEEP, "--seeds", "2", "--rounds", "2", "--quiet", "--jobs", "1")
    first = min(Path("results/runs").glob("fedavg-*-s0-*"))
    (first / file).write_text(content)
    for command in ("status", "report", "verify"):
        code, _, err = call(command, "results/runs")
        assert code in (0, 1)
        assert first.name in err or command != "verify"
        assert all(line.startswith("pflbench: ") for line in err.splitlines())
    one_line(*call(*RUN), first.name)
    fine(call, *RUN, "--fresh")


@pytest.mark.parametrize(
    "line, said",
    [
        ("hp: int", "hp must be annotated with a dataclass of Hparams"),
        ("hp: 'Nothing'", "hp must be annotated with a dataclass of Hparams"),
        ("hp: 3", "hp must be annotated with a dataclass of Hparams"),
        ("hp: Hparams()", "hp must be annotated with a dataclass of Hparams"),
    ],
)
@pytest.mark.parametrize("command", ["run", "algorithms show"])
def test_a_plugin_whose_hyperparameters_are_none(call: Call, command: str, line: str, said: str):
    Path("mine.py").write_text(f"{PLUGIN}    {line}\n")
    options = SMALL if command == "run" else []
    one_line(*call(*command.split(), "mine.py", *options), said)
    assert not Path("results").exists()


def test_a_disk_that_becomes_read_only(call: Call, monkeypatch: pytest.MonkeyPatch):
    play = Federation.step

    def step(self: Federation) -> object:
        if self.round == 1:
            read_only(monkeypatch)
        return play(self)

    monkeypatch.setattr(Federation, "step", step)
    one_line(*call(*RUN), "Read-only file system; choose another --out")


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, nothing in the folder `results` can be written, renamed, touched or deleted."""

    def refusing(module: object, name: str, writes: Callable[..., object]) -> None:
        function = getattr(module, name)

        def instead(path: object, *more: object, **named: object) -> object:
            if not isinstance(path, int) and "results" in str(path) and writes(*more, **named):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return function(path, *more, **named)

        monkeypatch.setattr(module, name, instead)

    for name in ("unlink", "utime", "replace", "rename", "mkdir", "rmdir"):
        refusing(os, name, lambda *_, **__: True)
    for module in (__import__("io"), builtins):
        refusing(module, "open", lambda mode="r", *_, **__: set("wax+") & set(mode))


@pytest.mark.parametrize(
    "address", ["nonsense", "", "http://nowhere", "127.0.0.1:99999", "127.0.0.1:1", "no.where:6379"]
)
def test_no_cluster_at_an_address(call: Call, address: str):
    one_line(*call(*SWEEP, "--on", "ray", "--address", address), "no Ray cluster at")
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (["--seeds", "1000000000"], "1000000000 runs"),
        (["--seeds", "9" * 5000], "--seeds"),
        (["--partitions", "iid,iid", "--seeds", "1000000"], "2000000 runs"),
    ],
)
@pytest.mark.parametrize("command", ["sweep", "tune"])
def test_more_runs_than_anybody_means(call: Call, words: list[str], said: str, command: str):
    one_line(*call(command, *SWEEP[1:], *words, "--dry-run"), said)
    assert not Path("results").exists()


def test_a_product_of_millions_of_runs(call: Call):
    lists = "\n".join(f"{name} = {list(range(100))}" for name in ("clients", "rounds", "width"))
    Path("many.toml").write_text(f"algorithms = ['fedavg']\n[[scenarios]]\n{lists}\n")
    one_line(*call("sweep", "many.toml"), "many has 1000000 runs")
    assert not Path("results").exists()


def test_a_grid_of_millions_of_trials(call: Call):
    values = ",".join(f"0.{number}" for number in range(1, 400))
    pairs = [f"{name}={values}" for name in ("lr", "dropout", "participation")]
    words = [word for pair in pairs for word in ("--grid", pair)]
    one_line(*call("tune", *SWEEP[1:], *words, "--dry-run"), str(399**3))


def test_a_sweep_that_is_refused_leaves_no_plan(call: Call):
    folder = Path("out")
    folder.mkdir()
    (folder / "leases").write_text("a file where a folder must be")
    one_line(*call(*SWEEP, "--out", "out"), "cannot write to")
    assert [path.name for path in folder.iterdir()] == ["leases"]


def test_a_new_method_on_a_full_disk(call: Call, monkeypatch: pytest.MonkeyPatch):
    opened = Path.open

    def full(self: Path, *more: Any, **named: Any) -> Any:
        file = opened(self, *more, **named)
        if self.name == "mine.py":
            file.close()
            return open("/dev/full", "w")
        return file

    monkeypatch.setattr(Path, "open", full)
    one_line(*call("new", "mine"), "cannot write mine.py: No space left on device")
    assert not list(Path().iterdir())
