"""Experiments from options: named, titled, with every option of a run, and a command that makes all
of them again.
"""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pflbench.cli import options
from pflbench.config import SETTINGS
from pflbench.methods import files
from pflbench.records import plan
from pflbench.records.plan import Plan

Call = Callable[..., tuple[int, str, str]]

TOY = ["--datasets", "synthetic:classes=4,side=8,samples=160", "--model", "mlp", "--width", "8"]
TINY = [*TOY, "--clients", "4", "--min-samples", "8", "--rounds", "1"]
ONE = {  # a value of every setting, as text and as it is in a run
    "clients": ("5", 5),
    "rounds": ("3", 3),
    "participation": ("0.5", 0.5),
    "eval_every": ("2", 2),
    "evaluate_clients": ("4", 4),
    "model": ("mlp", "mlp"),
    "width": ("16", 16),
    "head_layers": ("2", 2),
    "body_weights": ("none", None),
    "partition_seed": ("7", 7),
    "samples_per_client": ("20-30", [20, 30]),
    "max_samples": ("40", 40),
    "data_fraction": ("0.5", 0.5),
    "scarce_clients": ("2", 2),
    "min_samples": ("9", 9),
    "test_fraction": ("0.5", 0.5),
    "validation": ("0.1", 0.1),
    "dropout_rate": ("0.2", 0.2),
    "slow_clients": ("0.5", 0.5),
    "slow_work": ("0.25", 0.25),
    "new_clients": ("1", 1),
    "new_client_epochs": ("3", 3),
    "representations": ("3", 3),
}


def swept(call: Call, *words: str) -> Plan:
    """The one plan that a sweep leaves in its folder."""
    code, _, err = call("sweep", *words, "--out", "out", "--quiet", "--jobs", "1")
    assert (code, err) == (0, "")
    (found,) = plan.read(Path("out"))
    return found


def listed(call: Call, *words: str) -> dict[str, Any]:
    code, out, err = call(*words, "--dry-run", "--no-probe", "--json")
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_every_setting_of_a_run_is_an_option_of_sweeps_and_tuning():
    assert set(options.RUN) == set(SETTINGS)
    plural = {"dataset": "datasets", "partition": "partitions", "seed": "seeds"}
    assert {plural.get(name, name) for name in SETTINGS} <= set(options.EXPERIMENT)


SWITCHES = {"overlap": True, "standardize": False}


def test_what_is_given_to_a_sweep_is_in_its_runs(call: Call):
    assert {*ONE, *SWITCHES} == set(SETTINGS) - {"dataset", "partition", "seed"}
    words = [
        word for name, (text, _) in ONE.items() for word in (f"--{name.replace('_', '-')}", text)
    ]
    switched = [f"--{'' if value else 'no-'}{name}" for name, value in SWITCHES.items()]
    (run,) = listed(call, "sweep", "--algorithms", "fedavg", *words, *switched)["runs"]
    found = {name: run["config"][name] for name in ONE}
    assert found == {name: value for name, (_, value) in ONE.items()}
    assert {name: run["config"][name] for name in SWITCHES} == SWITCHES


def test_a_sweep_without_a_file_has_the_name_and_title_that_it_is_given(call: Call):
    found = swept(call, "--methods", "fedavg,local", *TINY, "--name", "mine", "--title", "A & B")
    assert (found.name, found.title) == ("mine", "A & B")


@pytest.mark.parametrize(
    "methods, title",
    [
        ("local", "Local on digits"),
        ("local,fedavg", "Local and FedAvg on digits"),
        ("local,fedavg,fedprox", "Local, FedAvg and FedProx on digits"),
        ("local,fedavg,fedprox,ditto", "4 methods on digits"),
    ],
)
def test_without_a_title_methods_and_data_are_named(call: Call, methods: str, title: str):
    code, out, _ = call("sweep", "--algorithms", methods, "--dry-run", "--no-probe")
    name, _, said = out.splitlines()[0].partition(": ")
    assert (code, said) == (0, title)
    assert name.startswith("grid-")


def test_a_file_may_be_given_another_name_and_title(call: Call):
    Path("mine.toml").write_text('title = "mine"\nalgorithms = ["local"]\n')
    changed = ["--rounds", "3", "--name", "short", "--title", "Three rounds", "--scale", "small"]
    code, out, _ = call("sweep", "mine.toml", *changed, "--dry-run", "--no-probe")
    assert (code, out.splitlines()[0]) == (0, "short-small: Three rounds")


@pytest.mark.parametrize(
    "words, said",
    [
        (["main", "fairness", "--name", "x"], "--name and --title need a single experiment"),
        (["main", "fairness", "--title", "x"], "--name and --title need a single experiment"),
        (["main", "--name", "../x"], "--name ../x: must be letters, digits, '.', '_' and '-'"),
        (["main", "--name", ""], "--name : must be letters"),
        ([], "name an experiment, or --algorithms for a grid"),
    ],
)
def test_a_mistake_is_told_in_one_line(call: Call, words: list[str], said: str):
    code, out, err = call("sweep", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_the_command_of_a_plan_makes_the_whole_experiment_again(call: Call):
    what = ["--algorithms", "local,fedavg", *TINY, "--set", "lr=0.1", "--seeds", "2"]
    whole = [*what, "--no-overlap", "--title", "Two methods"]
    part = swept(call, *whole, "--only", "local", "--exclude", "seed=1", "--checkpoint-every", "5")
    assert [run.run.algorithm for run in part.runs] == ["local", "fedavg"] * 2
    assert shlex.split(part.command)[:2] == ["pflbench", "sweep"]
    for word in ("--only", "--exclude", "--out", "--quiet", "--jobs", "--checkpoint-every"):
        assert word not in part.command
    again = listed(call, *shlex.split(part.command)[1:])
    assert [run["id"] for run in again["runs"]] == [run.id for run in part.unique().values()]
    assert again["experiments"] == [part.name]
    code, out, _ = call(*shlex.split(part.command)[1:], "--dry-run", "--no-probe")
    assert (code, out.splitlines()[0]) == (0, f"{part.name}: Two methods")


def test_the_command_of_a_plan_says_its_file_and_no_other(call: Call):
    for name in ("one", "two"):
        Path(f"{name}.toml").write_text("algorithms = ['local']\nmodel = 'mlp'\nclients = 4\n")
    words = ["sweep", "one.toml", "two.toml", "--scale", "smoke", "--only", "seed=0", "--rounds=1"]
    assert call(*words, "--out", "out", "--retry-failed", "--quiet")[0] == 0
    assert [one.command for one in plan.read(Path("out"))] == [
        f"pflbench sweep {name}.toml --rounds 1 --scale smoke" for name in ("one", "two")
    ]


def test_runs_that_options_take_out_of_an_experiment_are_told(call: Call):
    Path("mine.toml").write_text("algorithms = ['local', 'fedavg']\nmodel = 'mlp'\nclients = 4\n")
    words = ["sweep", "mine.toml", "--rounds", "1", "--out", "out", "--quiet", "--jobs", "1"]
    assert call(*words)[2] == ""
    assert call(*words, "--only", "local")[2] == ""
    assert call(*words, "--algorithms", "local", "--name", "other")[2] == ""
    code, _, err = call(*words, "--algorithms", "local")
    note = "pflbench: note: 1 run is no longer part of experiment mine; --only runs a part"
    assert (code, err.count("\n"), err.startswith(note)) == (0, 1, True)


def test_tuning_needs_no_file(call: Call):
    what = ["--algorithms", "local", "--partitions", "iid", *TINY, "--name", "mine"]
    code, out, err = call("tune", *what, "--grid", "lr=0.1", "--out", "out", "--jobs", "1")
    assert (code, err) == (0, "")
    assert "written to out: tuning.csv, tuning.md, trials.csv, tuned.toml" in out
    (found,) = plan.read(Path("out"))
    assert (found.name, found.title) == ("mine-tuning", f"Local on {TOY[1]}: tuning")
    assert found.command.startswith("pflbench tune --algorithms local --datasets synthetic:")
    assert "--grid lr=0.1" in found.command and "--jobs" not in found.command
    assert {run.run.model for run in found.runs} == {"mlp"}
    (run,) = listed(call, "sweep", "out/tuned.toml")["runs"]
    assert (run["config"]["partition"], run["config"]["clients"]) == ("iid", 4)


def test_tuning_without_a_file_needs_methods(call: Call):
    code, out, err = call("tune", "--rounds", "3")
    assert (code, out) == (2, "")
    assert "name an experiment, or --algorithms for a grid" in err


def test_options_override_a_file_in_tuning_too(call: Call):
    Path("mine.toml").write_text("algorithms = ['local', 'fedavg']\nseeds = 3\nrounds = 9\n")
    words = ["tune", "mine.toml", "--exclude", "local", "--set", "epochs=2", "--rounds", "4"]
    code, out, err = call(*words, "--dry-run", "--no-probe", "--trials", "2")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == ["FedAvg"]


def test_two_files_of_one_name_have_a_row_each(call: Call):
    for folder in ("first", "second"):
        Path(folder).mkdir()
        Path(f"{folder}/mine.py").write_text(files.shipped()["fedavg"].read_text())
    words = ["--algorithms", "first/mine.py,second/mine.py", *TINY, "--partitions", "iid"]
    found = swept(call, *words, "--only", "second/mine.py")
    assert [path.name for path in Path("out").glob("*_mine-*")] == [found.runs[1].id]
    swept(call, *words)
    code, out, _ = call("report", "out", "--only", "tables", "--json")
    assert code == 0
    both = {"FedAvg (first_mine)", "FedAvg (second_mine)"}
    assert {row["method"] for row in json.loads(out)["rows"]} == both
    table = next(Path("out/report").rglob("accuracy.csv")).read_text()
    assert all(title in table for title in both)
