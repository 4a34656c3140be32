"""Sweeps and reports from Python: any kind of method, callbacks, frames, and nothing left behind."""

import asyncio
import inspect
import json
import signal
import subprocess
import sys

import pandas as pd
import pytest
import torch

import pflbench
from pflbench.errors import UserError
from pflbench.testing import TOY
from pflbench.testing.problem import toy_setup
from tests.end_to_end.commands import fine, numbers
from tests.end_to_end.test_python import a_class

GRID = {**TOY, "rounds": 2, "seeds": 2, "jobs": 1}
PLUGIN = """
from pflbench.algorithms.fedavg import FedAvg


class Twin(FedAvg):
    title = "Twin"
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of a name, a path, a class and an object, and what its callbacks were told."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "twin.py").write_text(PLUGIN)
    rounds, runs = [], []
    result = pflbench.sweep(
        ["fedavg", folder / "twin.py", a_class(), toy_setup("fedprox", {"mu": 0.5}).algorithm()],
        hparams={"fedavg.lr": 0.02},
        out=folder / "out",
        watch=lambda *round: rounds.append(round),
        ended=runs.append,
        save_models=True,
        **GRID,
    )
    return result, rounds, runs


def test_methods_are_names_paths_classes_and_objects(swept):
    result, _, _ = swept
    assert result.runs["method"].tolist() == ["fedavg", "twin", "halved", "fedprox"] * 2
    assert result.runs["seed"].tolist() == [0] * 4 + [1] * 4
    assert {*result.runs["status"]} == {"finished"}
    assert result.run("fedavg", seed=0).config["hparams"]["lr"] == 0.02
    assert result.run("fedprox", seed=1).config["hparams"]["mu"] == 0.5


def test_a_run_of_a_sweep_is_that_of_run(swept, tmp_path):
    result, _, _ = swept
    there = result.run("halved", seed=1)
    here = pflbench.run(a_class(), out=tmp_path, **{**TOY, "rounds": 2, "seed": 1})
    assert here.folder.name == there.folder.name
    assert here.about["method"] == there.about["method"]  # with the source of the class
    records = [(run.folder / "rounds.jsonl").read_bytes() for run in (here, there)]
    assert records[0] == records[1]


def test_callbacks_are_told_every_round_and_every_run(swept):
    result, rounds, runs = swept
    told = {id: [json.loads(line) for line in text.splitlines()] for id, text in numbers_of(result)}
    for id, records in told.items():
        assert [record for run, record, _ in rounds if run == id] == records
        assert [timing["round"] for run, _, timing in rounds if run == id] == [0, 1, 2]
    assert {run.folder.name for run in runs} == {*told}
    assert all(run.status == "finished" for run in runs)


def numbers_of(result):
    return numbers(result.folder).items()


def test_frames_are_those_of_all_runs(swept):
    result, _, _ = swept
    one = result.run("halved", seed=1)
    for name in ("rounds", "clients", "logs"):
        whole, own = getattr(result, name), getattr(one, name)
        part = whole.query("method == 'halved' and seed == 1").reset_index(drop=True)
        own = own.reset_index() if own.index.name else own
        pd.testing.assert_frame_equal(part[own.columns], own, check_dtype=False)
    assert result.runs.loc[one.folder.name, "accuracy"] == one.accuracy
    assert (
        result.hyperparameters.query("method == 'fedprox' and name == 'mu'")["value"].eq(0.5).all()
    )
    assert list(result.notes.columns) == ["method", "scenario", "variant", "seed", "round", "note"]
    assert len(list(result)) == len(result) == 8


def test_models_of_a_class_are_at_hand(swept):
    run = swept[0].run("halved", seed=0)
    x, y = run.samples(0)
    assert (
        run.model(0).accuracy(x, y) == run.clients.query("round == 2 and client == 0")["pre"].item()
    )


def test_a_report_returns_the_tables_that_it_writes(swept, call, tmp_path):
    result, _, _ = swept
    made = pflbench.report(result.folder, out=tmp_path / "a", proposed="halved", only=["tables"])
    assert made.summary["method"].nunique() == 4
    rows = [made.summary.set_index("method"), made.table("accuracy").set_index("method")]
    assert rows[1].loc["Halved", "accuracy"] == pytest.approx(
        100 * rows[0].loc["Halved", "accuracy"]
    )
    words = ("--proposed", "halved", "--only", "tables", "--out", str(tmp_path / "b"))
    fine(call, "report", str(result.folder), *words)
    written = {path.relative_to(tmp_path / "a") for path in made.written}
    assert written == {p.relative_to(tmp_path / "b") for p in (tmp_path / "b").rglob("[!.]*.*")}
    for name in written:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_list_is_an_axis_and_a_finished_run_stays(tmp_path):
    grid = {**TOY, "rounds": 1, "out": tmp_path, "jobs": 1, "name": "grid"}
    several = {"partition": ["iid", "dir:0.5"], "hparams": {"lr": [0.01, 0.1]}}
    first = pflbench.sweep("fedavg", **{**grid, **several})
    assert len(first.runs) == 4 and first.runs["scenario"].nunique() == 2
    assert [*first.runs["variant"]] == ["lr=0.01", "lr=0.1"] * 2
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/run.json")}
    table = {"algorithms": ["fedavg"], "scenarios": [{"partition": several["partition"]}]}
    pflbench.sweep(experiment=table, variants={"hparams": several["hparams"]}, **grid)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/run.json")}


def test_a_run_that_fails_is_a_warning_and_a_row(tmp_path):
    class Failing(a_class()):
        def aggregate(self, server, replies):
            raise ValueError("ran out of luck")

    with pytest.warns(UserWarning, match="failed: failing, .*ran out of luck"):
        result = pflbench.sweep(["fedavg", Failing], out=tmp_path, **{**GRID, "seeds": [3]})
    assert result.runs["status"].tolist() == ["finished", "failed"]
    assert "ran out of luck" in result.runs["reason"].iloc[1]


def test_nothing_is_left_behind_also_under_a_running_event_loop(tmp_path):
    def settings():
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        torch_settings = torch.get_num_threads(), torch.random.get_rng_state().tolist()
        return handlers, torch_settings, sys.modules["__main__"]

    async def cell():
        result = pflbench.sweep("fedavg", out=tmp_path, **{**GRID, "seeds": 1})
        return pflbench.report(result.folder, only=["tables"])

    torch.set_num_threads(2)
    try:
        before = settings()
        assert len(asyncio.run(cell()).summary) == 1
        assert settings() == before
    finally:
        torch.set_num_threads(1)


def another():
    class Halved(a_class()):
        pass

    return Halved


def an_object(mu):
    return toy_setup("fedprox", {"mu": mu}).algorithm()


SCRIPT = """
import pflbench
from pflbench.algorithms.fedavg import FedAvg

class Mine(FedAvg):
    title = "Mine"

toy = dict(dataset="synthetic:samples=160", clients=4, model="mlp", width=8, rounds=1)
made = pflbench.sweep([Mine, "local"], out="out", jobs=2, **toy)
alone = pflbench.run(Mine, out="alone", workers=2, **toy)
print(*made.runs["status"], alone.status)
"""


def test_a_script_needs_no_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("finished finished finished\n", "")


@pytest.mark.parametrize(
    "given, said",
    [
        ({"methods": None}, "name methods, or an experiment"),
        ({"methods": [a_class(), another()]}, "two methods are called 'halved'"),
        ({"methods": [an_object(0.1), an_object(1.0)]}, "two methods are called 'fedprox'"),
        ({"methods": ["fedavg"], "name": "a/b"}, "name 'a/b': must be letters"),
        ({"methods": ["fedavg"], "round": 3}, "unknown key of experiment grid 'round'"),
        ({"methods": ["fedavg"], "only": ["local"]}, "unknown method in --only 'local'"),
        ({"methods": ["fedavg"], "track": ["paper"]}, "unknown tracker 'paper'"),
        ({"methods": ["fedavg"], "on": "moon"}, "--on moon: must be local or ray"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_folder(given, said, tmp_path):
    with pytest.raises(UserError, match=said) as caught:
        pflbench.sweep(out=tmp_path / "out", **{**GRID, **given})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_which_run_and_which_table_are_told_in_one_line(swept):
    result, _, _ = swept
    with pytest.raises(UserError, match="2 runs have method='halved': name one of them"):
        result.run("halved")
    with pytest.raises(UserError, match="round best10: must be last or last10"):
        pflbench.report(result.folder, round="best10")


def test_the_packages_of_these_names_are_still_packages():
    from pflbench.interface import sweep
    from pflbench.sweep import experiment

    assert pflbench.sweep.experiment is experiment
    assert inspect.signature(pflbench.sweep) == inspect.signature(sweep)
