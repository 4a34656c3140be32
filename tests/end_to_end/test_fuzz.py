"""Inputs that a machine makes up: commands and files of every kind.

Whatever is given, the command ends with a known exit code and no traceback, says what is wrong in
lines of its own, and leaves no run that cannot be read or is not called damaged. The cases are the
same in every run.
"""

import contextlib
import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pflbench.cli import main
from pflbench.records.verification import damage

from . import commands

EXIT_CODES = {0, 1, 2, 130, 143}
SAID = ("pflbench: ", "stopped")
RUN = ["run", "fedavg", *commands.SMALL, "--rounds", "1", "--quiet"]
SWEEP_DRY = ["sweep", "--dry-run", "--no-probe"]


def fuzzed(cases: int) -> Any:
    """So many cases, the same every time."""
    return settings(
        max_examples=cases,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """The working folder of a case."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            yield Path(place)
        finally:
            os.chdir(before)


def answered(*words: str) -> int:
    """Give a command, and see that it is answered as it should be."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main.main(words)
    code = int(end.value.code or 0)
    lines = err.getvalue().splitlines()
    assert code in EXIT_CODES
    assert all(line.startswith(SAID) for line in lines), lines
    assert sum(line.startswith("pflbench: error: ") for line in lines) <= 1, lines
    assert code != 2 or lines, "a mistake is told"
    return code


def whole_or_damaged() -> None:
    """See that every run of the folder that has ended has its records, or is called damaged."""
    for status in Path("results").glob("*/*/status.json"):
        if not damage(status.parent):
            assert json.loads((status.parent / "run.json").read_text())


number_texts = st.one_of(
    st.integers(-3, 300).map(str),
    st.sampled_from(["nan", "inf", "-inf", "1e400", "9" * 30, "9" * 5000, "", " ", "0x10", "1_0"]),
    st.floats().map(str),
)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.sampled_from(
        [
            *("~nosuchuser/x", "..", "/", "a" * 300, "file:", "npz:", "npz:/", "file:/dev/null"),
            *(
                "path:9999999999",
                "dir:1e-300",
                "dir:1e300",
                "iid",
                "all",
                "none",
                "-",
                "*",
                "[",
                "=",
            ),
            *("lr=nan", "lr=1e308", "epochs=-1", "batch_size=0", "participation=2", "fedavg.lr=0"),
            *("synthetic:side=0", "synthetic:classes=999", "dataset=*", "seed=0", "fedavg", "mlp"),
        ]
    ),
)
RUN_OPTIONS = [
    *("--dataset", "--partition", "--clients", "--seed", "--participation", "--eval-every"),
    *("--evaluate-clients", "--model", "--head-layers", "--body-weights", "--partition-seed"),
    *("--samples-per-client", "--max-samples", "--data-fraction", "--scarce-clients"),
    *("--min-samples", "--test-fraction", "--validation", "--representations", "--set", "--config"),
    *("--plugin", "--device", "--checkpoint-every", "--state-memory", "--width"),
]
OTHER_OPTIONS = [
    *("--algorithms", "--datasets", "--partitions", "--seeds", "--only", "--exclude", "--scale"),
    *("--name", "--title", "--jobs", "--on", "--set", "--width", "--clients", "--device"),
]
REPORT_OPTIONS = [
    *("--experiment", "--proposed", "--caption", "--label", "--style", "--rows", "--marks"),
    *("--published", "--figure-size", "--template", "--std", "--decimals", "--margin", "--only"),
    *("--round", "--point", "--methods", "--scenarios", "--titles"),
]


def options(names: list[str]) -> st.SearchStrategy[list[str]]:
    pair = st.tuples(st.sampled_from(names), st.one_of(number_texts, texts))
    return st.lists(pair, max_size=3).map(lambda pairs: [word for pair in pairs for word in pair])


@fuzzed(60)
@given(options(RUN_OPTIONS))
def test_options_of_a_run(words: list[str]):
    with folder_of_its_own():
        answered(*RUN, *words)
        whole_or_damaged()


@fuzzed(40)
@given(st.sampled_from(["sweep", "tune"]), options(OTHER_OPTIONS))
def test_options_of_a_sweep(command: str, words: list[str]):
    with folder_of_its_own():
        answered(command, "--dry-run", "--no-probe", *words)
        assert not Path("results").exists()


COMMANDS = [
    *("run", "sweep", "status", "report", "verify", "archive", "unpack", "new", "experiments"),
    *("algorithms", "algorithms show", "data", "data list", "data show", "data export", "tune"),
]


@fuzzed(50)
@given(st.sampled_from(COMMANDS), st.lists(st.one_of(texts, number_texts), max_size=2))
def test_words_after_a_command(command: str, words: list[str]):
    with folder_of_its_own():
        answered(*command.split(), *words)
        whole_or_damaged()


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.sampled_from(["", "fedavg", "all", "finished", "file:x", "nan", "pre", "\0", "../x"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["lr", "label", "hparams", "x", "round"]), inner, max_size=2
        ),
    ),
    max_leaves=5,
)
SETTINGS = [*("algorithm", "clients", "partition", "seed", "participation", "test_fraction")]
SETTINGS += [*("samples_per_client", "overlap", "hparams", "width", "head_layers", "validation")]
KEYS = [*SETTINGS[1:], "title", "include", "algorithms", "seeds", "scenarios", "variants"]
KEYS += ["methods", "proposed", "published", "report"]


def without_none(value: Any) -> Any:
    """The same as TOML can say it."""
    if isinstance(value, dict):
        return {key: without_none(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_none(part) for part in value]
    return "none" if value is None else value


def toml(keys: list[str]) -> st.SearchStrategy[bytes]:
    table = st.dictionaries(st.sampled_from(keys), json_values.map(without_none), max_size=3)
    return st.one_of(table.map(tomli_w.dumps).map(str.encode), st.binary(max_size=30))


@fuzzed(40)
@given(toml(SETTINGS))
def test_a_configuration_file(content: bytes):
    with folder_of_its_own():
        Path("config.toml").write_bytes(content)
        answered(*RUN, "--config", "config.toml")
        whole_or_damaged()


@fuzzed(60)
@given(toml(KEYS))
def test_an_experiment_file(content: bytes):
    with folder_of_its_own():
        Path("mine.toml").write_bytes(content)
        answered(*SWEEP_DRY, "mine.toml")


kinds = st.sampled_from(["u1", "i8", "f4", "f8", "b1", "U3", "c8", "u8"])
shapes = st.lists(st.integers(0, 9), max_size=4)
arrays = st.builds(lambda kind, shape: np.zeros(shape, kind), kinds, shapes)
NAMES = ["x", "y", "train_0", "test_0", "train_1", "validation_0", "body.fc1.weight", "head.x"]


@fuzzed(60)
@given(
    st.sampled_from(["--dataset npz:", "--partition file:", "--body-weights "]),
    st.dictionaries(st.sampled_from(NAMES), arrays, max_size=4),
    st.integers(0, 2000),
    st.integers(0, 255),
)
def test_an_archive_of_arrays(option: str, content: dict[str, Any], place: int, byte: int):
    with folder_of_its_own():
        np.savez("mine.npz", allow_pickle=False, **content)
        whole = bytearray(Path("mine.npz").read_bytes())
        if place < len(whole):  # one byte of it is another
            whole[place] = byte
        Path("mine.npz").write_bytes(whole)
        answered(*RUN, *f"{option}mine.npz".split())
        whole_or_damaged()


@fuzzed(15)
@given(st.one_of(json_values, st.just({"fc1.weight": torch.zeros(2)})), st.integers(0, 2000))
def test_a_torch_file_of_body_weights(content: Any, length: int):
    with folder_of_its_own():
        torch.save(content, "mine.pt")
        Path("mine.pt").write_bytes(Path("mine.pt").read_bytes()[:length])
        answered(*RUN, "--body-weights", "mine.pt")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of one run, and its archive."""
    folder = tmp_path_factory.mktemp("fuzz")
    out = folder / "results" / "runs"
    grid = ["--algorithms", "fedavg", "--datasets", commands.TOY[1], *commands.TOY[2:]]
    words = [*grid, "--clients", "4", "--rounds", "1", "--name", "mine", "--quiet", "--jobs", "1"]
    commands.done("sweep", *words, "--out", str(out))
    commands.done("archive", str(out), "--out", str(folder / "runs.tar.xz"))
    return folder


@fuzzed(20)
@given(st.integers(0, 4000), st.binary(max_size=4), st.sampled_from(["status", "unpack", "verify"]))
def test_an_archive_of_records(results: Path, place: int, other: bytes, command: str):
    with folder_of_its_own():
        content = (results / "runs.tar.xz").read_bytes()
        place %= len(content)
        Path("runs.tar.xz").write_bytes(content[:place] + other + content[place + len(other) :])
        answered(command, "runs.tar.xz")


cells = st.sampled_from(
    ["FedAvg", "fedavg", "50", "nan", "", "-1e999", "=1+1", "synthetic", "\0", '"', "a\nb"]
)


@fuzzed(20)
@given(st.lists(st.lists(cells, max_size=6), max_size=3), st.booleans())
def test_a_file_of_published_numbers(results: Path, rows: list[list[str]], header: bool):
    with folder_of_its_own():
        shutil.copytree(results / "results", "results")
        with open("mine.csv", "w", newline="") as file:
            first = [["method", "scenario", "accuracy", "std", "source"]] if header else []
            csv.writer(file).writerows(first + rows)
        answered("report", "results/runs", "--published", "mine.csv", "--only", "tables")


@fuzzed(20)
@given(options(REPORT_OPTIONS))
def test_options_of_a_report(results: Path, words: list[str]):
    with folder_of_its_own():
        shutil.copytree(results / "results", "results")
        answered("report", "results/runs", "--only", "tables", *words)
