"""The experiments that ship: as many runs as the FedCoSR paper has, and every one of them from its file to a report."""

import csv
import functools
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench.cli import dry_run
from pflbench.methods import hyperparameters, registry, sets
from pflbench.papers.fedcosr.tables import paper_table
from pflbench.records import plan
from pflbench.records.plan import Plan, Planned
from pflbench.sweep import experiment, tuning

from .commands import Call, done

ROOT = Path(__file__).resolve().parents[2]

EVERY = len(registry.names())
ON_THE_LEADERBOARD = 1 + len(sets.members("pfllib-leaderboard"))  # and Local
# Methods x scenarios x variants x seeds: the cells of an experiment, and the runs that differ.
RUNS = {
    "main": (22 * 6 * 5, 22 * 6 * 5),  # three data sets, practical and pathological
    "efficiency": (22 * 6 * 5, 22 * 6 * 5),
    # 100 clients twice, beta twice, classes per client twice
    "scalability": (22 * 6 * 5, 22 * 6 * 5),
    "fairness": (5 * 1 * 5, 5 * 1 * 5),
    "scarcity": (22 * 2 * 5 * 5, 22 * 2 * 5 * 5),  # two partitions, five fractions
    "sensitivity": ((5 + 4) * 5, (5 + 4 - 1) * 5),  # b and alpha; b = 16 and alpha = 1 is one run
    "adam": (22 * 6 * 5, 22 * 6 * 5),
    # the whole and five without a part, in the scenarios of main
    "ablation": (6 * 6 * 5, 6 * 6 * 5),
    "weighting": ((5 + 1 + 5) * 5, (5 + 1 + 5) * 5),  # tau fixed, linear, by gamma
    "representations": (5 * 2, 5 * 2),
    "distributions": (6 + 6, 6 + 6),  # the partitions of main and scalability
    "quickstart": (22 * 2, 22 * 2),
    "digits": (EVERY * 2 * 3, EVERY * 2 * 3),
    "new-clients": (EVERY * 2 * 3, EVERY * 2 * 3),
    "cifar10": (22 * 3 * 3, 22 * 3 * 3),
    **dict.fromkeys(("emnist", "cifar100"), (22 * 2 * 3, 22 * 2 * 3)),
    "leaderboard": (ON_THE_LEADERBOARD * 3, ON_THE_LEADERBOARD * 3),
}
SEEDS = {  # others: 5
    **dict.fromkeys(("representations", "distributions", "quickstart"), 1),
    **dict.fromkeys(("digits", "new-clients", "cifar10", "emnist", "cifar100", "leaderboard"), 3),
}
MANY_METHODS = [
    *("main", "adam", "efficiency", "scalability", "scarcity", "quickstart", "digits"),
    "new-clients",
    *("cifar10", "emnist", "cifar100"),
]
# at the smoke scale; of the last three one of them
TWO_METHODS = [*MANY_METHODS, "distributions", "representations", "leaderboard"]
ONE_SCENARIO = ["ablation", "fairness", "sensitivity", "weighting"]
# between the least and the most scarce
LEFT_OUT = ("data_fraction=0.1", "data_fraction=0.15", "data_fraction=0.2")
CLASSES = {  # of CIFAR-10, EMNIST and CIFAR-100; of the others: 10
    **{name: {10, 47, 100} for name in ("main", "adam", "efficiency", "ablation", "distributions")},
    "scalability": {10, 100},
    "emnist": {47},
    "cifar100": {100},
}


@functools.cache
def planned(name: str, scale: str = "paper") -> Plan:
    return experiment.make(name, experiment.read(name), scale)


def scenarios(name: str) -> set[tuple[str, str, int]]:
    return {
        tuple(run.config[key] for key in ("dataset", "partition", "clients"))
        for run in planned(name).runs
    }


def test_every_file_of_the_folder_is_in_the_table_and_has_a_title():
    files = {path.stem for path in (ROOT / "experiments").glob("*.toml")}
    assert files == {*RUNS, "scales"}
    assert set(experiment.names()) == set(RUNS)
    assert len({experiment.read(name)["title"] for name in RUNS}) == len(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_an_experiment_has_the_runs_of_the_paper(name: str):
    found = planned(name)
    assert (len(found.runs), len(found.unique())) == RUNS[name]
    assert {run.config["seed"] for run in found.runs} == set(range(SEEDS.get(name, 5)))


@pytest.mark.parametrize(
    "name, table", [("main", "main"), ("scalability", "scalability_heterogeneity")]
)
def test_methods_and_scenarios_are_those_of_the_published_table(name: str, table: str):
    rows = [row for row in paper_table("accuracy") if row["table"] == table]
    kinds = {"beta": "dir", "classes": "path"}
    published = set()
    for row in rows:
        kind, value = row["heterogeneity"].split("=")
        published.add((row["dataset"], f"{kinds[kind]}:{value}", int(row["clients"])))
    assert scenarios(name) == published
    methods = {registry.load(run.plugin).title for run in planned(name).runs}
    assert methods == {row["method"] for row in rows} - {"Averaged"}


def test_half_of_a_hundred_clients_take_part_and_all_of_twenty():
    shares = {
        (run.config["clients"], run.config["participation"]) for run in planned("scalability").runs
    }
    assert shares == {(100, 0.5), (20, 1.0)}


def test_distributions_are_those_of_main_and_scalability():
    assert scenarios("distributions") == scenarios("main") | scenarios("scalability")


def test_the_rates_of_the_digits_come_from_three_trials_of_every_method():
    """As the head of the file says: what it has for a method is one of the values tried."""
    text = (ROOT / "experiments" / "digits.toml").read_text()
    grid = {name: rates.split(",") for name, rates in re.findall(r"--grid (\S+?)=(\S+)", text)}
    table = {"algorithms": "all", "dataset": "digits", "scenarios": [{"partition": "dir:0.1"}]}
    tried = {study.name: study for study in tuning.studies("digits", table, grid=grid)}
    assert {study.budget(0) for study in tried.values()} == {3}
    for run in planned("digits").runs:
        values = {name: run.config["hparams"][name] for name in (tried[run.plugin].grid or [{}])[0]}
        assert values in (tried[run.plugin].grid or []), run.plugin


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "emnist"])
def test_rates_are_those_that_were_tuned(name: str):
    """All other hyperparameters have their defaults."""
    with (ROOT / "results" / f"{name}-tuning.csv").open() as file:
        best = {row["method"]: row["values"] for row in csv.DictReader(file)}
    if name == "cifar10":
        assert best["FedAS"] == "lr=0.09"  # where it diverges
        best["FedAS"] = "lr=0.03"
    for run in planned(name).runs:
        method = registry.load(run.plugin)
        pairs = [pair.split("=") for pair in best.get(method.title, "").split()]
        tuned = {rate: float(value) for rate, value in pairs}
        hparams = registry.hparams_type(method)
        expected = {**hyperparameters.defaults(hparams, run.config["dataset"]), **tuned}
        assert run.config["hparams"].items() <= expected.items(), method.title


def test_fedbn_has_a_network_with_batch_norm():
    for name in ("digits", "new-clients"):
        networks = {(run.plugin == "fedbn", run.config["model"]) for run in planned(name).runs}
        assert networks == {(True, "cnn_bn"), (False, "cnn")}


def test_the_leaderboard_has_the_methods_that_it_can_have():
    published = {
        *("FedAvg", "FedProx", "PerFedAvg", "pFedMe", "Ditto", "FedAMP", "FedALA", "FedPer"),
        *("FedRep", "FedProto", "FedBABU", "FedRoD", "APFL", "FedCP", "GPFL", "FedDBE"),
    }
    ours = {registry.load(name).title for name in registry.names()}
    found = {registry.load(run.plugin).title for run in planned("leaderboard").runs}
    assert found == {"Local"} | (published & ours)


def test_experiments_share_their_runs():
    main, ablation, weighting = (
        set(planned(name).unique()) for name in ("main", "ablation", "weighting")
    )
    assert main == set(planned("efficiency").unique())
    assert len(main & ablation) == 6 * 5  # FedCoSR as it is
    assert len(main & weighting) == 5  # gamma = 0.8
    # the same, and tau = 0 and tau = 1, in one of the six scenarios
    assert len(ablation & weighting) == 3 * 5


def test_the_page_has_the_right_numbers(tmp_path: Path):
    page = (ROOT / "docs/experiments.md").read_text()
    table = re.findall(r"^\| `([\w-]+)` \| .* \| (\d+) \|$", page, re.MULTILINE)
    assert {name: int(number) for name, number in table} == {
        name: unique for name, (_, unique) in RUNS.items()
    }
    (tmp_path / "example.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert len(planned(str(tmp_path / "example.toml")).unique()) == 3 * 5 * 3 * 3
    assert "= 135 runs" in page


def test_the_page_has_the_right_scales():
    page = (ROOT / "docs/experiments.md").read_text()
    for name, tier in experiment.scales().items():
        (line,) = re.findall(rf"^\| `{name}`.*$", page, re.MULTILINE)
        assert [int(number) for number in re.findall(r"at most (\d+)", line)] == [
            tier[key] for key in ("rounds", "seeds", "max_samples") if key in tier
        ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All experiments at the smoke scale in one folder, so that what they share is done once: two methods of those
    with many, and of those of one method its variants in one scenario of main.
    """
    out = tmp_path_factory.mktemp("sweep")
    how = ["--scale", "smoke", "--out", str(out), "--jobs", "2", "--quiet"]
    done(
        "sweep",
        *TWO_METHODS,
        *how,
        "--only",
        "local,fedcosr",
        *(f"--exclude={fraction}" for fraction in LEFT_OUT),
    )
    one = ["--only", "partition=dir:0.1", "--exclude", "dataset=*classes=47*,*classes=100*"]
    done("sweep", *ONE_SCENARIO, *how, *one)
    return out


def stored(folder: Path, name: str) -> list[tuple[Planned, dict[str, Any]]]:
    """The runs of an experiment that are in the folder, with their run.json."""
    (found,) = [one for one in plan.read(folder) if one.name == f"{name}-smoke"]
    return [
        (run, json.loads((folder / run.id / "run.json").read_text()))
        for run in found.runs
        if (folder / run.id).is_dir()
    ]


@pytest.mark.parametrize("name", RUNS)
def test_an_experiment_runs_at_the_smoke_scale(folder: Path, name: str):
    found, whole = stored(folder, name), planned(name, "smoke").runs
    assert {run.scenario for run, _ in found} == {
        run.scenario for run in whole if not run.scenario.endswith(LEFT_OUT)
    }
    assert {run.variant for run, _ in found} == {run.variant for run in whole}
    methods = {run.config["algorithm"] for run, _ in found}
    assert len(methods) == (2 if name in MANY_METHODS else 5 if name == "fairness" else 1)
    assert {about["data"]["classes"] for _, about in found} == CLASSES.get(name, {10})
    for run, about in found:
        events = [
            json.loads(line)["event"]
            for line in (folder / run.id / "attempts.jsonl").read_text().splitlines()
        ]
        assert events == ["started", "finished"], run.name  # also where several experiments have it
        assert json.loads((folder / run.id / "status.json").read_text())["status"] == "finished"
        assert (about["scale"], about["config"]["rounds"]) == (
            "smoke",
            1 if name == "distributions" else 2,
        )
        embedded = name in ("quickstart", "digits", "new-clients")
        assert about["data"]["title"] == ("Digits" if embedded else "Synthetic")
        assert max(about["partition"]["n_test"]) == 24 // 4


def test_scarce_clients_have_their_fraction_of_eighteen_samples(folder: Path):
    for _, about in stored(folder, "fairness"):
        assert about["partition"]["n_train"] == [18] * 15 + [2] * 5
    for run, about in stored(folder, "scarcity"):
        left = {0.05: 1, 0.25: 4}[run.config["data_fraction"]]  # 0.9 and 4.5, rounded
        assert about["partition"]["n_train"] == [left] * 20
        assert about["partition"]["n_test"] == [6] * 20


def test_representations_of_all_test_samples_are_stored(folder: Path):
    found = stored(folder, "representations")
    assert len(found) == 2
    for run, about in found:
        with np.load(folder / run.id / "representations.npz") as arrays:
            clients = np.bincount(arrays["client"]).tolist()
        assert clients == about["partition"]["n_test"]  # 6 of each, where up to 50 are asked for


def test_all_runs_are_in_the_report(folder: Path):
    report = json.loads(done("report", str(folder), "--only", "tables", "--json"))
    assert len(report["rows"]) == len(list(folder.glob("*/run.json")))
    assert {(row["status"], *row["seeds"]) for row in report["rows"]} == {("finished", 0)}
    assert {f"{name}-smoke" for name in RUNS} <= {
        Path(path).parent.name for path in report["written"]
    }
    assert all(Path(path).stat().st_size for path in report["written"])


def test_a_dry_run_knows_what_is_done(folder: Path):
    told = done("sweep", "fairness", "--scale", "smoke", "--out", str(folder), "--dry-run")
    assert "5 runs at scale smoke, 5 of them have ended" in told
    assert "estimate" not in told


def test_a_dry_run_without_the_data_counts_and_says_how_to_get_them(call: Call, tmp_path: Path):
    words = ["sweep", "fairness", "--dry-run", "--data-root", str(tmp_path / "none")]
    code, out, err = call(*words)
    assert (code, err) == (0, "")
    *_, count, why = out.splitlines()
    assert count == "25 runs at scale paper, 0 of them have ended"
    get = f"pflbench data get cifar10 --data-root {tmp_path}/none"
    assert (
        why
        == f"no estimate of the time: data set 'cifar10' is not in {tmp_path}/none; get it with: {get}"
    )
    listed = json.loads(call(*words, "--json")[1])
    assert listed["experiments"] == ["fairness"]
    assert [run["seconds"] for run in listed["runs"]] == [None] * 25
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_with_the_data_estimates(call: Call, tmp_path: Path):
    words = [
        "sweep",
        "quickstart",
        "--scale",
        "smoke",
        "--dry-run",
        "--only",
        "local",
        "--jobs",
        "1",
    ]
    code, out, err = call(*words)
    assert (code, err) == (0, "")
    *_, count, time = out.splitlines()
    assert count == "2 runs at scale smoke, 0 of them have ended"
    assert re.match(r"about (\d+ min )?\d+ s with 1 job,", time)
    runs = json.loads(call(*words, "--json")[1])["runs"]
    assert [(run["state"], run["seconds"] > 0) for run in runs] == [("missing", True)] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_that_takes_long_says_why(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dry_run, "PATIENCE", 0.0)
    words = ["--only", "local,fedavg", "--jobs", "1"]
    code, out, err = call("sweep", "quickstart", "--scale", "smoke", "--dry-run", *words)
    about = "1 of 3 rounds have been played to estimate the time"
    assert (code, err) == (0, f"pflbench: note: {about}; --no-probe lists the runs at once\n")
    assert "4 runs at scale smoke" in out


def test_a_file_of_ones_own_is_found_by_path_and_includes_what_ships(call: Call, tmp_path: Path):
    (tmp_path / "mine.toml").write_text(
        'include = "fairness"\nseeds = [3, 7]\nscarce_clients = 4\n'
    )
    code, out, _ = call("sweep", "mine.toml", "--dry-run", "--no-probe", "--json")
    listed = json.loads(out)
    assert (code, listed["experiments"]) == (0, ["mine"])
    configs = [run["config"] for run in listed["runs"]]
    assert {config["seed"] for config in configs} == {3, 7}
    assert {
        (config["dataset"], config["data_fraction"], config["scarce_clients"]) for config in configs
    } == {("cifar10", 0.1, 4)}
    assert len(configs) == 5 * 2


def test_the_experiments_of_an_installed_wheel_are_found_by_name(tmp_path: Path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "mine.toml").write_text('include = "weighting"\nseeds = 1\n')
    code = (
        "from pflbench.cli import main\n"
        "from pflbench.sweep import experiment\n"
        "print(experiment.folder())\n"
        "main.main(['sweep', 'distributions', 'mine.toml', '--dry-run', '--no-probe'])"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines()[0] == str(tmp_path / "site/pflbench/experiments")
    assert "12 runs at scale paper" in told.stdout
    assert "11 runs at scale paper" in told.stdout
