"""A sweep as one file: reported from it, looked at, unpacked and gone on with."""

from pathlib import Path

import pytest

from tests.factories.run_files import write_sweep

from .commands import fine, numbers

TABLE = {
    "title": "Two methods",
    "algorithms": ["local", "fedavg"],
    "seeds": 2,
    "clients": 4,
    "rounds": 12,
    "scenarios": [{"partition": ["dir:0.1", "path:2"]}],
}
LIST = ".report.json"  # what a report wrote
SMALL = """
algorithms = ["local", "fedavg"]
dataset = "synthetic:classes=4,side=8,samples=160"
model = "mlp"
width = 8
clients = 4
min_samples = 8
rounds = 2
"""


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_report_from_the_archive_is_that_from_the_folder(call, tmp_path):
    write_sweep(tmp_path / "runs", "mine", TABLE, {7: "missing"})
    out = fine(call, "archive", "runs")
    size = Path("runs.tar.xz").stat().st_size / 1000
    assert out == (f"7 runs in runs.tar.xz, {size:,.0f} kB; not finished and left out: 1\n")
    told = fine(call, "report", "runs")
    written = files(Path("runs/report"))
    assert {Path("index.html"), Path("mine/accuracy.tex"), Path("mine/accuracy.csv")} <= {*written}
    Path("runs").rename("elsewhere")
    assert fine(call, "report", "runs.tar.xz") == told
    assert files(Path("runs/report")) == written
    assert [path.name for path in Path("runs").iterdir()] == ["report"]
    fine(call, "report", "runs.tar.xz", "--out", "there", "--only", "tables")
    there = {name: text for name, text in files(Path("there")).items() if name.name != LIST}
    assert Path("mine/accuracy.tex") in there
    assert there.items() <= written.items()
    assert fine(call, "status", "runs.tar.xz") == fine(call, "status", "elsewhere")


def test_a_sweep_goes_on_from_an_archive(call, tmp_path):
    Path("mine.toml").write_text(SMALL)
    sweep = ("sweep", "mine.toml", "--jobs", "1", "--quiet", "--out")
    fine(call, *sweep, "whole")
    fine(call, *sweep, "part", "--only", "local")
    fine(call, "archive", "part", "-o", "archive.tar.xz")
    assert fine(call, "unpack", "archive.tar.xz", "-o", "later") == "unpacked into later\n"
    local = next(Path("later").glob("local-*/rounds.jsonl"))
    before = local.stat().st_mtime_ns
    assert "2 finished" in fine(call, *sweep, "later")
    assert local.stat().st_mtime_ns == before
    assert len(numbers(Path("whole"))) == 2
    assert numbers(Path("later")) == numbers(Path("whole"))


@pytest.mark.parametrize(
    "words, said",
    [
        ("report text", "cannot unpack text: "),
        ("status text", "cannot unpack text: "),
        ("unpack text", "cannot unpack text: "),
        ("unpack none", "cannot unpack none: "),
        ("archive none", "no finished run in none"),
        ("report text --watch", "--watch: text is an archive"),
    ],
)
def test_mistakes_are_one_line(call, words, said):
    Path("text").write_text("hello")
    code, out, err = call(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"pflbench: error: {said}") and err.count("\n") == 1
