"""From records to tables, figures and the page, as a user types it."""

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from pflbench.records import plan
from tests.factories.run_files import write_sweep

from . import commands
from .commands import Call, fine

SMALL = [*commands.SMALL, "--quiet"]
TABLE = {
    "title": "Three methods",
    "algorithms": ["local", "fedavg", "fedcosr"],
    "seeds": 2,
    "clients": 4,
    "rounds": 24,
    "scenarios": [{"partition": ["dir:0.1", "path:2"]}],
}
LIST = ".report.json"  # what a report wrote
FAILED, MISSING = (
    (2, 5),
    11,
)  # FedCoSR with both seeds in the first setting, with the second in the other


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def runs(call: Call, tmp_path: Path) -> Path:
    """A folder with a sweep, in the folder where the command is given."""
    write_sweep(
        tmp_path / "runs", "mine", TABLE, {**dict.fromkeys(FAILED, "failed"), MISSING: "missing"}
    )
    return Path("runs")


def test_a_report_has_every_table_and_figure_in_all_forms_a_page_and_nothing_else(
    call: Call, runs: Path
):
    before = files(runs)
    report = json.loads(fine(call, "report", str(runs), "--json"))
    after = files(runs)
    assert {name: after[name] for name in before} == before
    written = {name.removeprefix("report/") for name in set(after) - set(before)} - {LIST}
    assert sorted(report["written"]) == sorted(str(runs / "report" / name) for name in written)
    names = {name.removesuffix(".csv") for name in written if name.endswith(".csv")}
    assert {"mine/accuracy", "mine/hyperparameters", "methods"} <= names
    pictures = {name.removesuffix(".pdf") for name in written if name.endswith(".pdf")}
    assert len([name for name in pictures if "curves" in name]) == 2  # a setting each
    expected = {
        f"{name}{ending}" for name in names for ending in (".tex", "-page.tex", ".csv", ".md")
    }
    assert not report["removed"] and written == expected | {
        f"{name}.{form}" for name in pictures for form in ("pdf", "png")
    } | {"index.html"}
    page = after["report/index.html"].decode()
    assert page.count('<img src="data:image/png;base64,') == len(pictures)
    assert "Three methods" in page and "out of \\u003cluck\\u003e" in page

    again = json.loads(fine(call, "report", str(runs), "--out", "again", "--json"))
    assert again["rows"] == report["rows"]
    assert files(Path("again")) == {name: after[f"report/{name}"] for name in {*written, LIST}}


def test_what_is_printed_says_which_runs_are_not_finished_and_what_was_written(
    call: Call, runs: Path
):
    out = fine(call, "report", str(runs), "--only", "tables")
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["method", "data", "partition", "seeds", "accuracy"]
    assert [line.split()[0] for line in lines if " FAILED" in line] == ["FedCoSR"] * 2
    assert [line for line in lines if "12 of 24" in line] == [
        line for line in lines if " FAILED" in line
    ]
    assert "in the last round" in " ".join(lines)
    assert "mine: 12 runs, of them 2 failed, 1 missing" in lines
    assert lines[-2].startswith("written to runs/report/mine: accuracy, ")
    assert lines[-1] == "written to runs/report: methods"


def test_the_proposed_method_has_the_last_row_in_bold(call: Call, runs: Path):
    fine(call, "report", str(runs), "--only", "tables", "--proposed", "local")
    table = (runs / "report/mine/accuracy.md").read_text()
    methods = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:6]]
    assert methods == ["FedAvg", "FedCoSR", "**Local**", "Majority class"]


def test_options_of_the_command_are_those_of_a_file(call: Call, runs: Path):
    words = ["--methods", "fedcosr, local", "--scenario", "digits path:*", "--decimals", "1"]
    words += ["--rename", "fedcosr=Ours", "--rename", "digits path:2=Hard", "--rows", "mean"]
    words += ["--marks", "none", "--caption", "My own.", "--label", "tab:own", "--std", "clients"]
    fine(call, "report", str(runs), "--only", "tables", *words)
    lines = (runs / "report/mine/accuracy.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    assert [row[0] for row in cells] == ["Method", "---", "Ours", "Local", "**Mean**"]
    assert cells[0][1:] == ["Hard"]
    assert re.fullmatch(r"[0-9]+\.[0-9] \u00b1 [0-9]+\.[0-9]", cells[3][1])
    assert lines[-1].startswith("My own.")
    assert r"\label{tab:own}" in (runs / "report/mine/accuracy.tex").read_text()


def test_the_file_as_it_is_now_may_be_used_instead_of_what_the_sweep_kept(call: Call, runs: Path):
    table = {**TABLE, "report": {"caption": "Later thought."}, "published": "theirs.csv"}
    folder = runs.parent / "files"
    folder.mkdir()
    (folder / "mine.toml").write_text(tomli_w.dumps(table))
    numbers = "method,scenario,accuracy,std,source\nLocal,digits path:2,80.5,,They\n"
    (folder / "theirs.csv").write_text(numbers)
    fine(call, "report", str(runs), "--only", "tables", "--options", str(folder / "mine.toml"))
    assert "Later thought." in (runs / "report/mine/accuracy.md").read_text()
    assert "80.50" in (runs / "report/mine/published.md").read_text()
    fine(call, "report", str(runs), "--only", "tables", "--published", str(folder / "theirs.csv"))
    assert "80.50" in (runs / "report/mine/published.md").read_text()
    assert "Later thought." not in (runs / "report/mine/accuracy.md").read_text()


@pytest.mark.parametrize(
    "options, mean",
    [
        ([], lambda table: table[-1].mean()),
        (["--round", "last10"], lambda table: table[-10:].mean()),
        (["--round", "best"], lambda table: table.mean(1).max()),
        (["--point", "post"], lambda table: np.minimum(table[-1] + 0.02, 1).mean()),
    ],
)
def test_rows_have_the_numbers_of_the_records(
    call: Call, runs: Path, options: list[str], mean: Callable[[Any], float]
):
    rows = json.loads(fine(call, "report", str(runs), "--only", "tables", "--json", *options))[
        "rows"
    ]
    (row,) = [row for row in rows if (row["method"], row["partition"]) == ("FedAvg", "path:2")]
    assert row["seeds"] == [0, 1]
    (mine,) = plan.read(runs)
    each = []
    for run in mine.runs:
        if (run.config["algorithm"], run.config["partition"]) == ("fedavg", "path:2"):
            lines = [
                json.loads(line)
                for line in (runs / run.id / "rounds.jsonl").read_text().splitlines()
            ]
            each.append(mean(np.array([line["accuracy"]["pre"] for line in lines])))
    assert row["accuracy"] == pytest.approx(np.mean(each))
    assert row["seeds_std"] == pytest.approx(abs(each[0] - each[1]) / np.sqrt(2))
    assert row["megabytes"] == pytest.approx(0.8 + 4e-6)
    assert row["seconds"] == pytest.approx(1.25)


def test_clients_are_weighted_by_their_test_samples(call: Call, runs: Path):
    rows = json.loads(fine(call, "report", str(runs), "--only", "tables", "--json", "--weighted"))[
        "rows"
    ]
    (mine,) = plan.read(runs)
    each = []
    for run in mine.runs:
        if (run.config["algorithm"], run.config["partition"]) == ("fedavg", "dir:0.1"):
            last = json.loads((runs / run.id / "rounds.jsonl").read_text().splitlines()[-1])[
                "accuracy"
            ]["pre"]
            sizes = json.loads((runs / run.id / "run.json").read_text())["partition"]["n_test"]
            each.append(np.average(last, weights=sizes))
    (row,) = [row for row in rows if (row["method"], row["partition"]) == ("FedAvg", "dir:0.1")]
    assert row["accuracy"] == pytest.approx(np.mean(each), abs=1e-12)


def test_only_one_experiment_and_only_one_kind_of_files(call: Call, runs: Path):
    write_sweep(runs, "other", {**TABLE, "algorithms": ["fedper"], "seeds": 1})
    fine(call, "report", str(runs), "--experiment", "other", "--only", "tables")
    written = files(runs / "report")
    assert {Path(name).parts[0] for name in written if "/" in name} == {"other"}
    assert {Path(name).suffix for name in written if name != LIST} == {".tex", ".csv", ".md"}
    assert (
        "| FedPer |" in written["methods.md"].decode()
        and "| FedCoSR |" not in written["methods.md"].decode()
    )

    report = json.loads(
        fine(
            call,
            "report",
            str(runs),
            "--experiment",
            "other",
            "--only",
            "page",
            "--out",
            "x",
            "--json",
        )
    )
    assert report["written"] == ["x/index.html"] and {*files(Path("x"))} == {"index.html", LIST}
    assert not (Path("x") / "other").exists()
    assert {row["method"] for row in report["rows"]} == {"FedPer"}
    page = (Path("x") / "index.html").read_text()
    assert "experiment-other" in page and "experiment-mine" not in page


def test_files_of_an_earlier_report_go_with_what_they_were_of(call: Call, runs: Path):
    one_scenario = {"scenarios": [{"partition": ["dir:0.1"]}]}
    write_sweep(runs, "other", {**TABLE, **one_scenario, "algorithms": ["fedper", "fedrep"]})
    fine(call, "report", str(runs), "--only", "tables", "--only", "page")
    first = files(runs / "report")
    (runs / "report/other/notes.md").write_text("mine")
    (runs / "report/other/variability.md").write_text("changed by hand")
    # says nothing of the other
    fine(call, "report", str(runs), "--experiment", "mine", "--only", "tables")
    assert {*files(runs / "report")} == {*first, "other/notes.md"}

    (runs / "plans/other.json").unlink()
    shutil.rmtree(next(runs.glob("fedrep-*dir0.1-s0-*")))  # the others are single runs now
    report = json.loads(fine(call, "report", str(runs), "--only", "tables", "--json"))
    gone = {name for name in first if name.startswith("other/")} - {"other/variability.md"}
    assert {*report["removed"]} == {str(runs / "report" / name) for name in gone} and len(gone) > 10
    left = files(runs / "report")
    assert {name for name in left if name.startswith("other/")} == {
        "other/notes.md",
        "other/variability.md",
    }
    assert left["index.html"] == first["index.html"]  # no page was asked for
    assert not json.loads(fine(call, "report", str(runs), "--only", "tables", "--json"))["removed"]


def test_a_run_that_two_experiments_share_is_one_row(call: Call, runs: Path, tmp_path: Path):
    write_sweep(tmp_path / "aside", "other", {**TABLE, "algorithms": ["fedavg"]})
    shutil.copy(tmp_path / "aside/plans/other.json", runs / "plans")
    rows = json.loads(fine(call, "report", str(runs), "--only", "tables", "--json"))["rows"]
    assert [row["seeds"] for row in rows if row["method"] == "FedAvg"] == [
        [0, 1],
        [0, 1],
    ]  # a row for each setting


def test_a_sweep_without_a_finished_run_is_reported_too(call: Call, tmp_path: Path):
    write_sweep(tmp_path / "runs", "mine", TABLE, dict.fromkeys(range(12), "missing"))
    out = fine(call, "report", "runs")
    assert out.splitlines() == [
        "mine: 12 runs, of them 12 missing",
        "written to runs/report: index.html",
    ]
    assert "12 missing" in Path("runs/report/index.html").read_text()


@pytest.mark.parametrize(
    "options, said",
    [
        ("--point best", "--point best: must be pre or post"),
        ("--round 7", "--round 7: must be last or last10 or best or validation"),
        (
            "--std runs",
            "std = 'runs' in the options of the report: must be one of 'seeds', 'clients'",
        ),
        ("--rename fedavg", "--rename fedavg: must be NAME=TITLE"),
        ("--methods fedavgg", "unknown method of this folder 'fedavgg'"),
        ("--scenario x", "unknown scenario of this folder 'x'"),
        ("--style plane", "unknown style of tables 'plane'; did you mean 'plain'"),
        ("--published x", "unknown published numbers 'x'"),
        ("--published x.csv", "cannot read x.csv: No such file or directory"),
        ("--rows all", "rows = 'all' in the options of the report: must be one of"),
        ("--template a4", "template = 'a4' in [report.figures] of the options of the report"),
        ("--only latex", "--only latex: must be tables or figures or page"),
        (
            "--experiment min",
            "unknown experiment of this folder 'min'; did you mean 'mine'? known: mine",
        ),
        ("--proposed fedavgg", "unknown method of this folder 'fedavgg'; did you mean 'fedavg'?"),
        ("--decimals 9", "--decimals"),
        ("--margin -1", "--margin"),
        ("--watch --json", "--watch"),
        ("--out runs/plans/mine.json", "cannot write to runs/plans/mine.json"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    call: Call, runs: Path, options: str, said: str
):
    before = files(Path())
    code, out, err = call("report", str(runs), "--only", "tables", *options.split())
    assert (code, out) == (2, "")
    assert err.startswith("pflbench: error: ") and said in err and err.count("\n") == 1
    assert files(Path()) == before


def test_watching_writes_again_when_records_change_and_ends_with_the_last_run(
    call: Call, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_sweep(tmp_path / "aside", "mine", TABLE)
    (mine,) = plan.read(runs)
    missing = mine.runs[MISSING].id
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        assert len(looks) < 9, "it waits for ever"
        if len(looks) == 3:
            shutil.copytree(tmp_path / "aside" / missing, runs / missing)

    monkeypatch.setattr(time, "sleep", sleep)
    out = fine(call, "report", str(runs), "--only", "tables", "--watch")
    said = [line for line in out.splitlines() if "have ended" in line]
    assert [line.partition(" runs")[0] for line in said] == ["11 of 12", "12 of 12"]
    assert len(looks) == 3
    assert "mine: 12 runs, of them 2 failed" in out.splitlines()


def test_watching_can_be_stopped(call: Call, runs: Path, monkeypatch: pytest.MonkeyPatch):
    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    out = fine(call, "report", str(runs), "--only", "tables", "--watch")
    assert (
        "stopped; the files written so far are kept" in out
        and (runs / "report/mine/accuracy.tex").exists()
    )


def test_single_runs_can_all_be_evaluated_at_one_point(call: Call):
    out = fine(call, "run", "fedavg", *SMALL, "--rounds", "2", "--set", "lr=0.3")
    folder = Path(out.splitlines()[-1].rpartition("; ")[2])
    accuracy = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])["accuracy"]
    assert accuracy["pre"] != accuracy["post"]
    for options, point in (((), "pre"), (("--point", "post"), "post"), (("--point", "pre"), "pre")):
        (row,) = json.loads(
            fine(call, "report", "results/runs", "--only", "tables", *options, "--json")
        )["rows"]
        assert row["point"] == point
        assert row["accuracy"] == pytest.approx(np.mean(accuracy[point]))


def test_no_single_run_is_left_out(call: Call):
    for seed in "012":
        fine(call, "run", "fedper", *SMALL, "--rounds", "3", "--seed", seed)
    fine(call, "run", "local", *SMALL, "--rounds", "3")
    assert call("run", "fedper", *SMALL, "--rounds", "3", "--set", "lr=1e38")[0] == 1
    fine(call, "run", "fedavg", *SMALL, "--rounds", "3", "--partition", "iid")
    for path in Path("results/runs").glob("fedavg-*/*"):
        if path.name != "run.json":
            path.unlink()  # as a run that was killed at its start
    report = json.loads(fine(call, "report", "results/runs", "--only", "tables", "--json"))
    rows = {(row["method"], row["status"]): row for row in report["rows"]}
    assert set(rows) == {
        ("FedPer", "finished"),
        ("FedPer", "diverged"),
        ("Local", "finished"),
        ("FedAvg", "started"),
    }
    assert (
        rows["FedPer", "finished"]["seeds"] == [0, 1, 2]
        and rows["FedPer", "diverged"]["configuration"] == "lr=1e+38"
    )
    each = [
        json.loads(fine(call, "run", "fedper", *SMALL, "--rounds", "3", "--seed", s, "--json"))
        for s in "012"
    ]
    for name in ("accuracy", "std", "megabytes"):
        assert rows["FedPer", "finished"][name] == pytest.approx(
            np.mean([run[name] for run in each])
        )
    assert rows["FedPer", "finished"]["seeds_std"] == pytest.approx(
        np.std([run["accuracy"] for run in each], ddof=1)
    )
    assert rows["Local", "finished"]["megabytes"] == 0
    assert rows["FedAvg", "started"]["accuracy"] is None
    out = fine(call, "report", "results/runs", "--only", "tables")
    assert "DIVERGED" in out and "STARTED" in out
