"""The committed results: their tables are made from their archives, pages show those tables, and a
number can be measured again.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pflbench import config
from pflbench.records import archive

from .commands import Call

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
ARCHIVES = sorted(RESULTS.glob("*.tar.xz"))
TABLES = RESULTS / "tables"
FOLDERS = sorted(TABLES.iterdir())
SHOWN = re.compile(r"^<!-- table: (\S+?)(, some rows)? -->\n\n?((?:\|[^\n]*\n)+)", re.MULTILINE)
POST = "-post"  # of a folder of tables with all methods right after local training
MEGABYTES, FILES = 10, 200


def shown() -> Iterator[tuple[str, str, bool, list[str]]]:
    """The tables on pages: page, file, whether only some of its rows are shown, lines."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for file, some, lines in SHOWN.findall(page.read_text()):
            yield str(page.relative_to(ROOT)), file, bool(some), lines.splitlines()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_tables_are_remade_bit_for_bit_from_their_archive(call: Call, tmp_path: Path, folder: Path):
    name = folder.name.removesuffix(POST)
    file, made = RESULTS / f"{name}.tar.xz", tmp_path / "made"
    point = ["--point", "post"] if folder.name.endswith(POST) else []
    code, _, err = call("report", str(file), "--only", "tables", "--out", str(made), *point)
    assert code == 0, err
    committed = sorted(folder.iterdir())
    assert committed
    differing = [
        path.name
        for path in committed
        if path.read_bytes() != (made / name / path.name).read_bytes()
    ]
    assert differing == []


def test_every_archive_has_tables():
    named = {folder.name.removesuffix(POST) for folder in FOLDERS}
    assert {file.name.removesuffix(".tar.xz") for file in ARCHIVES} == named


def test_no_table_is_without_the_hyperparameters_of_its_runs():
    """Those of `-post` tables are with the other tables of the same runs."""
    with_them = {path.parent.name for path in TABLES.glob("*/hyperparameters.md")}
    assert with_them == {folder.name.removesuffix(POST) for folder in FOLDERS}


def test_pages_show_tables():
    assert {page for page, *_ in shown()} >= {"docs/results.md"}


@pytest.mark.parametrize(
    "page, file, some, lines", [*shown()], ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_table_on_a_page_is_the_committed_one(page: str, file: str, some: bool, lines: list[str]):
    committed = [line for line in (TABLES / file).read_text().splitlines() if line.startswith("|")]
    if some:
        committed = [line for line in committed if line in lines]
    assert lines == committed


def test_results_stay_small_and_know_no_machine():
    files = [
        path for path in [*ARCHIVES, *TABLES.rglob("*"), RESULTS / "README.md"] if path.is_file()
    ]
    assert len(files) <= FILES
    assert sum(path.stat().st_size for path in files) < MEGABYTES * 1e6
    absolute = re.compile(r"(^|[\s\"=])/\w+/")
    for file in ARCHIVES:
        with archive.opened(file) as folder:
            texts = [*folder.rglob("*.json"), *folder.rglob("*.jsonl")]
            assert not [path for path in texts if absolute.search(path.read_text())]


def test_a_number_of_the_digits_is_measured_again(call: Call, tmp_path: Path):
    """On another kind of processor the last bits differ, and with them a few test samples."""
    archive.unpack(RESULTS / "digits.tar.xz", tmp_path / "stored")
    (stored,) = (tmp_path / "stored").glob("fedavg-digits-dir0.1-s0-*")
    about = json.loads((stored / "run.json").read_text())
    run = config.read_run(about["config"])
    hparams = [word for pair in run.hparams.items() for word in ("--set", "{}={}".format(*pair))]
    settings = ["--rounds", str(run.rounds), "--eval-every", str(run.eval_every)]
    code, _, err = call("run", "fedavg", *settings, *hparams, "--out", "again", "--quiet")
    assert code == 0, err
    again = tmp_path / "again" / stored.name
    assert json.loads((again / "run.json").read_text())["partition"] == about["partition"]
    assert accuracy(again) == pytest.approx(accuracy(stored), abs=0.02)


def accuracy(folder: Path) -> float:
    """Mean over clients in the last round."""
    last = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])
    values: list[float] = last["accuracy"]["pre"]
    return sum(values) / len(values)
