"""What is searched, what a search is told, and what it writes; the runs here are made up, so that no test trains."""

import json
import math
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench.api import hparam
from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.methods.hyperparameters import make_run
from pflbench.records.plan import Planned
from pflbench.sweep import experiment, search_space, tuning, tuning_results
from tests.factories.run_files import write_run
from tests.factories.runs import about_run, planned

TABLE = {"algorithms": ["fedavg", "fedprox"], "seeds": 2, "clients": 4, "rounds": 2, "model": "mlp"}
Score = Callable[[Mapping[str, Any]], float | None]


def near_a_tenth(hparams: Mapping[str, Any]) -> float:
    """An accuracy that is highest at lr = 0.1."""
    return 1 - abs(math.log10(hparams["lr"]) + 1) / 4


def lines(last: Mapping[str, list[float | None]], point: str) -> list[dict[str, Any]]:
    """The records of three rounds with these accuracies in the last one, and better ones before."""
    earlier = {f"{point}_validation": [0.98] * len(last[point])}
    played = {"cohort": [0], "bytes": {}}
    first = {"round": 0, "accuracy": earlier}
    return [
        first,
        {"round": 1, **played, "accuracy": earlier},
        {"round": 2, **played, "accuracy": last},
    ]


class MadeUp:
    """A sweep that writes the accuracies that `score` says (None: diverged) and does no run twice; which of the runs
    that can be done ends next is left to chance.
    """

    def __init__(self, folder: Path, score: Score = near_a_tenth, chance: int = 0) -> None:
        self.folder, self.score, self.chance = folder, score, random.Random(chance)
        self.done: list[str] = []

    def search(self, found: list[tuning.Study], trials: int, stop_after: float = math.inf) -> None:
        while left := self.left(tuning.frontier(self.folder, found, trials)):
            if len(self.done) == stop_after:
                return
            run = self.chance.choice(left)
            self.done.append(run.id)
            self.write(run, self.score(run.config["hparams"]))

    def left(self, runs: Mapping[str, Planned]) -> list[Planned]:
        return [run for id, run in runs.items() if not (self.folder / id / "status.json").exists()]

    def write(self, run: Planned, score: float | None) -> None:
        point = registry.load(run.plugin).evaluation_point
        last: dict[str, list[float | None]]
        last = {f"{point}_validation": [score, None, score, None], point: [0.99] * 4}
        status = "diverged" if score is None else "finished"
        about = about_run(run.config, run.run.clients)
        write_run(self.folder, run, status, about=about, lines=lines(last, point))


def searched(
    folder: Path, trials: int, score: Score = near_a_tenth, **how: Any
) -> list[tuning.Study]:
    """The studies of the table after so many trials."""
    found = tuning.studies("mine", how.pop("table", TABLE), **how)
    MadeUp(folder, score).search(found, trials)
    return found


def values(found: list[tuning.Study]) -> list[list[dict[str, Any]]]:
    return [[trial.values for trial in study.trials] for study in found]


@pytest.mark.parametrize(
    "method, names",
    [
        ("fedavg", ["lr"]),
        ("fedprox", ["lr", "mu"]),
        ("fedrep", ["lr"]),  # its own are loop counts
        ("fedcosr", ["lr", "alpha", "temperature", "gamma"]),  # not privacy, not the fixed tau
        (
            "fedrcl",
            ["lr", "clip", "w_scl", "beta", "lam", "temperature"],
        ),  # not the decay, which is off
        ("perfedavg", ["lr", "alpha"]),
    ],
)
def test_the_rule_takes_lr_and_the_methods_own_rates_and_weights_that_are_switched_on(
    method: str, names: list[str]
):
    assert search_space.by_rule(registry.load(method), "digits") == names


@pytest.mark.parametrize(
    "allowed, hint, first, expected",
    [
        ((1e-4, 1.0), float, 0.01, ((1e-4, 1.0), "log")),
        ((0.1, 5.0), float, 0.8, ((0.1, 5.0), "uniform")),  # 50-fold
        ((0.05, 5.0), float, 1.0, ((0.05, 5.0), "log")),  # 100-fold
        ((0.0, 10.0), float, 1.0, ((0.0, 10.0), "uniform")),
        ((0.0, 10.0), float, 0.1, ((0.001, 10.0), "log")),  # a hundredth of the end: by sizes
        ((0.0, 10.0), float, 0.0, ((0.0, 10.0), "uniform")),
        ((-1.0, 1.0), float, 0.7, ((-1.0, 1.0), "uniform")),
        ((0.5, 1.0), float, 2.0, ((0.5, 2.0), "uniform")),  # holds the first trial's value
        ((0, 10), float, 1, ((0.0, 10.0), "uniform")),
        ((0, 50), int, 5, ((0, 50), "uniform")),
        ((1, 1024), int, 16, ((1, 1024), "log")),
        ((1, 1000), int | None, 7, ((1, 1000), "log")),
        (["sgd", "adam"], str, "sgd", (("sgd", "adam"), "choices")),
    ],
)
def test_what_a_range_becomes(
    allowed: Any, hint: Any, first: Any, expected: tuple[tuple[Any, ...], str]
):
    made = search_space._dimension(_field(allowed), hint, first)
    assert (made.allowed, made.kind) == expected
    assert [type(end) for end in made.allowed] == [type(end) for end in expected[0]]
    assert made.distribution()._contains(made.distribution().to_internal_repr(first))


def _field(allowed: Any) -> Any:
    made = hparam(None, allowed, "meaning")
    made.name = "x"
    return made


def test_a_value_has_three_digits_and_stays_in_its_range():
    rate = search_space.Dimension("x", 0.01, (0.0123456, 0.98765), "log")
    assert [rate.rounded(value) for value in (0.0345678, 0.0123457, 0.98764)] == [
        0.0346,
        0.0123456,
        0.98765,
    ]
    assert search_space.Dimension("x", 16, (1, 1024), "log").rounded(1003) == 1003
    assert (
        search_space.Dimension("x", 0.12345, (0.12345, 1.0), "choices").rounded(0.12345) == 0.12345
    )


def test_names_replace_the_rule_or_add_to_it_and_a_single_choice_is_none():
    def names(method: str, *asked: str) -> list[str]:
        run = make_run(method, {}, {})
        return [one.name for one in search_space.dimensions(registry.load(method), run, asked)]

    assert names("fedprox", "batch_size", "lr") == ["batch_size", "lr"]
    assert names("fedprox", "default", "epochs", "lr") == ["lr", "mu", "epochs"]
    assert names("fedavg", "lr", "mu") == ["lr"]
    assert names("perfedavg", "optimizer", "lr") == ["lr"]  # it can only be sgd


@pytest.mark.parametrize(
    "how, message",
    [
        (
            {"asked": ["batchsize"]},
            "unknown hyperparameter in --tune 'batchsize'; did you mean 'batch_size'?",
        ),
        ({"asked": ["mu"]}, "--tune mu names nothing to tune for FedAvg, which has lr, batch_size"),
        (
            {"grid": {"batchsize": ["8"]}},
            "unknown hyperparameter in --grid 'batchsize'; did you mean 'batch_size'?",
        ),
        (
            {"grid": {"mu": ["1"]}},
            "--grid names nothing to tune for FedAvg, which has lr, batch_size",
        ),
        (
            {"grid": {"fedprox.mu": ["1"]}},
            "--grid names nothing to tune for FedAvg, which has lr, batch_size",
        ),
        (
            {"grid": {"lr": ["1"], "fedprx.mu": ["1"]}},
            "unknown method in --grid 'fedprx'; did you mean 'fedprox'? known: fedavg, fedprox",
        ),
        (
            {"grid": {"lr": ["1"], "fedavg.mu": ["1"]}},
            "unknown hyperparameter of fedavg 'mu'; known: augment, batch_size,",
        ),
        ({"grid": {"lr": ["0.1", "fast"]}}, "hyperparameter lr = 'fast': must be a number"),
        ({"grid": {"lr": ["-1"]}}, "hyperparameter lr = -1.0: must be at least 0"),
        ({"seeds": [7, 1]}, "--seed 1 is a seed of experiment mine"),
        ({"only": ["ditto"]}, "unknown method in --only 'ditto'; known: fedavg, fedprox"),
        ({"exclude": ["fed*"]}, "--only and --exclude leave no method in any scenario"),
        (
            {"table": {**TABLE, "variants": [{"hparams": {"lr": [0.1, 0.2]}}]}},
            "has several [[variants]]",
        ),
        (
            {"table": {"algorithms": ["perfedavg"]}, "asked": ["outer_steps"]},
            "--tune outer_steps: its default is none",
        ),
        (
            {
                "table": {
                    **TABLE,
                    "scenarios": [{"label": "a"}, {"label": "a", "data_fraction": 0.5}],
                }
            },
            "every scenario once",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(how: dict[str, Any], message: str):
    with pytest.raises(UserError) as told:
        tuning.studies("mine", how.pop("table", TABLE), **how)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_a_grid_is_the_default_and_all_its_points_once_and_needs_no_optuna(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "optuna", None)
    fedavg, fedprox = searched(tmp_path, 20, grid={"mu": ["0.5", "1"], "lr": ["0.01", "0.1"]})
    assert values([fedavg]) == [[{"lr": 0.01}, {"lr": 0.1}]]
    assert values([fedprox])[0] == [
        {"mu": 0.01, "lr": 0.01},
        *({"mu": mu, "lr": lr} for mu in (0.5, 1.0) for lr in (0.01, 0.1)),
    ]
    assert (fedavg.budget(20), fedprox.budget(20)) == (2, 5)
    assert (fedavg.best, fedprox.best) == (1, 2)  # the first of those with lr = 0.1
    again = MadeUp(tmp_path)
    again.search(
        tuning.studies("mine", TABLE, grid={"mu": ["0.5", "1"], "lr": ["0.01", "0.1"]}), 20
    )
    assert again.done == []


def test_best_values_at_an_end_of_a_grid_are_named(tmp_path: Path):
    grid = {"lr": ["0.003", "0.1", "0.3"], "fedprox.lr": ["0.02", "0.1"], "fedprox.mu": ["0.01"]}
    found = searched(tmp_path, 20, grid=grid)
    said = "At an end of the grid, where values beyond may be better: lr=0.1, the largest tried (FedProx)."
    assert tuning_results.at_an_end(found) == said  # FedAvg's 0.1 is inside, mu has one value
    tuning_results.write(tmp_path, TABLE, found)
    assert (tmp_path / "tuning.md").read_text().splitlines()[-1] == said
    low = searched(tmp_path / "low", 20, grid={"lr": ["0.2", "0.1"]}, only=["fedavg"])
    assert tuning_results.at_an_end(low) == ""  # the default, 0.01, is below
    high = searched(tmp_path / "high", 20, grid={"lr": ["0.001"]})
    assert "lr=0.01, the largest tried (FedAvg, FedProx)" in tuning_results.at_an_end(high)
    small = searched(tmp_path / "small", 20, lambda hparams: 1 - hparams["lr"], grid={"lr": ["1"]})
    assert "lr=0.01, the smallest tried (FedAvg, FedProx)" in tuning_results.at_an_end(small)


def test_only_numbers_have_ends(tmp_path: Path):
    def at_a_rate(hparams: Mapping[str, Any]) -> float:
        return hparams["ft_lr"] or 0.05  # whose default is none

    table = {**TABLE, "algorithms": ["fedavgft"]}
    grid = {"ft_lr": ["0.01", "0.1"], "ft_part": ["full", "head"]}
    found = searched(tmp_path, 20, at_a_rate, table=table, grid=grid)
    assert tuning_results.at_an_end(found) == (
        "At an end of the grid, where values beyond may be better: ft_lr=0.1, the largest tried (FedAvg-FT)."
    )


def test_a_search_has_no_ends_to_name(tmp_path: Path):
    assert tuning_results.at_an_end(searched(tmp_path, 9)) == ""


def test_a_grid_may_have_values_of_one_method(tmp_path: Path):
    grid = {"lr": ["0.01", "0.1"], "FedProx.mu": ["0.5"], "fedprox.lr": ["0.2"]}
    fedavg, fedprox = searched(tmp_path, 20, grid=grid)
    assert values([fedavg]) == [[{"lr": 0.01}, {"lr": 0.1}]]
    assert values([fedprox]) == [[{"lr": 0.01, "mu": 0.01}, {"lr": 0.2, "mu": 0.5}]]


@pytest.mark.parametrize(
    "how", [{"grid": {"weight_decay": ["0.001", "0.01"]}}, {"asked": ["weight_decay"]}], ids=str
)
def test_an_option_of_training_is_tuned_where_it_is_named(tmp_path: Path, how: dict[str, Any]):
    fedavg, _ = searched(tmp_path, 3, **how)
    first, *others = fedavg.trials
    assert first.values == {"weight_decay": 0.0}
    assert [run.id for run in first.runs] == [run.id for run in fedavg.first]  # off: not stored
    assert len(others) == 2
    for trial in others:
        assert 0 < trial.values["weight_decay"] <= 0.1
        assert all(run.config["hparams"].items() >= trial.values.items() for run in trial.runs)


def test_one_variant_of_several_can_be_tuned(tmp_path: Path):
    variants = [
        {"label": "a", "hparams": {"batch_size": 8}},
        {"label": "b", "hparams": {"batch_size": 32}},
    ]
    table = {**TABLE, "variants": variants}
    found = searched(tmp_path, 2, table=table, only=["variant=b"])
    made = experiment.make("tuned", tuning_results.tuned(table, found))
    assert {(run.variant, run.config["hparams"]["batch_size"]) for run in made.runs} == {
        ("tuned", 32)
    }


def test_without_optuna_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    with pytest.raises(
        UserError, match=r"^tuning needs Optuna; get it with: pip install 'pflbench\[tune\]'$"
    ):
        searched(tmp_path, 1)


def test_the_first_trial_is_the_experiments_own_values_held_out_on_another_seed(tmp_path: Path):
    table = {**TABLE, "methods": {"fedprox": {"hparams": {"mu": 0.12345}}}}
    fedavg, fedprox = searched(tmp_path, 3, table=table)
    given = {name: TABLE[name] for name in ("clients", "rounds", "model")}
    expected = make_run("fedavg", {**given, "seed": 1000, "validation": 0.2}, {})
    assert [run.id for run in fedavg.trials[0].runs] == [expected.id]
    assert fedavg.trials[0].values == {"lr": 0.01}
    assert fedprox.trials[0].values == {"lr": 0.01, "mu": 0.12345}
    assert fedprox.trials[0].runs[0].config["hparams"]["mu"] == 0.12345
    # the search learns from it as it was
    assert fedprox._search.trials[0].params == fedprox.trials[0].values


def test_every_method_has_as_many_trials_in_every_setting(tmp_path: Path):
    table = {**TABLE, "scenarios": [{"partition": ["dir:0.5", "iid"]}]}
    found = searched(tmp_path, 6, table=table)
    assert [
        (study.name, study.scenario, len(study.trials), len(study.scores)) for study in found
    ] == [
        (method, f"digits {partition}", 6, 6)
        for partition in ("dir:0.5", "iid")
        for method in ("fedavg", "fedprox")
    ]
    assert all(0.0001 <= trial.values["lr"] <= 1 for study in found for trial in study.trials)
    assert (
        len({trial.values["lr"] for study in found for trial in study.trials}) == 4 * 5 + 1
    )  # first ones are alike


@pytest.mark.parametrize("fewer", [1, 6, 9])
def test_more_trials_begin_with_those_of_fewer(tmp_path: Path, fewer: int):
    most = values(searched(tmp_path / "most", 12))
    assert values(searched(tmp_path / "few", fewer)) == [trials[:fewer] for trials in most]
    again = MadeUp(tmp_path / "few")
    found = tuning.studies("mine", TABLE)
    again.search(found, 12)
    assert values(found) == most
    assert len(again.done) == 2 * (12 - fewer)  # none is done twice


@pytest.mark.parametrize("after", [0, 1, 5, 8, 11])
def test_broken_off_anywhere_and_begun_again_it_is_the_same_search(tmp_path: Path, after: int):
    whole = searched(tmp_path / "whole", 12)
    broken = tmp_path / "broken"
    first, second = MadeUp(broken, chance=after), MadeUp(broken, chance=after + 1)
    first.search(tuning.studies("mine", TABLE), 12, stop_after=after)
    found = tuning.studies("mine", TABLE)
    second.search(found, 12)
    assert values(found) == values(whole)
    assert [study.scores for study in found] == [study.scores for study in whole]
    assert len(first.done) == after
    assert sorted(first.done + second.done) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )


def test_a_study_depends_on_no_other(tmp_path: Path):
    both = values(searched(tmp_path / "both", 9))
    assert values(searched(tmp_path / "one", 9, only=["fedprox"])) == both[1:]


def test_trials_after_the_first_eight_learn_from_scores(tmp_path: Path):
    high, low = (
        values(searched(tmp_path / name, 40, score, only=["fedavg"]))[0]
        for name, score in (
            ("high", near_a_tenth),
            ("low", lambda hparams: 1 - near_a_tenth(hparams)),
        )
    )
    assert high[:8] == low[:8]
    assert high[8:] != low[8:]
    middle = [sorted(trial["lr"] for trial in trials[8:])[16] for trials in (high, low)]
    # half of the trials lie around the best value; at random one in three would
    assert 0.03 < middle[0] < 0.3
    assert not 0.03 < middle[1] < 0.3


def test_a_score_is_the_mean_over_clients_of_the_last_round_at_the_methods_point(tmp_path: Path):
    for method, point in (
        ("fedavg", "pre"),
        ("fedcosr", registry.load("fedcosr").evaluation_point),
    ):
        run = planned(method, clients=3)
        other = {"pre": "post", "post": "pre"}[point]
        accuracy: dict[str, list[float | None]] = {
            point: [1.0] * 3,
            f"{point}_validation": [0.5, None, 0.25],
            f"{other}_validation": [0.9] * 3,
        }
        about = about_run(run.config, 3)
        write_run(tmp_path, run, about=about, lines=lines(accuracy, point))
        assert tuning.accuracy(tmp_path, run) == 0.375


def test_a_method_that_is_scored_after_training_is_tuned_there(tmp_path: Path):
    method = next(
        name for name in registry.names() if registry.load(name).evaluation_point == "post"
    )
    run = planned(method, clients=1)
    last: dict[str, list[float | None]]
    last = {"pre_validation": [0.1], "post_validation": [0.7], "post": [0.2]}
    write_run(tmp_path, run, about=about_run(run.config, 1), lines=lines(last, "post"))
    assert tuning.accuracy(tmp_path, run) == 0.7


def test_several_seeds_are_averaged(tmp_path: Path):
    seen: dict[int, float] = {}

    class BySeed(MadeUp):
        def write(self, run: Planned, score: float | None) -> None:
            seen[run.config["seed"]] = 0.25 if run.config["seed"] == 1000 else 0.75
            super().write(run, seen[run.config["seed"]])

    found = tuning.studies("mine", TABLE, seeds=[1000, 1001])
    BySeed(tmp_path).search(found, 2)
    assert [study.scores for study in found] == [[0.5, 0.5]] * 2
    assert seen == {1000: 0.25, 1001: 0.75}


def test_a_diverged_trial_counts_as_nothing_and_is_shown(tmp_path: Path):
    def only_small(hparams: Mapping[str, Any]) -> float | None:
        return None if hparams["lr"] > 0.005 else 0.1

    found = searched(tmp_path, 12, only_small, only=["fedavg"])
    large = [trial.number for trial in found[0].trials if trial.values["lr"] > 0.005]
    assert 0 in large  # the default, 0.01
    assert 0 < len(large) < 12
    assert [found[0].scores[number] for number in large] == [0.0] * len(large)
    (row,) = tuning_results.rows(found)
    assert (row["trials"], row["diverged"], row["default"], row["best"]) == (
        12,
        len(large),
        0.0,
        0.1,
    )
    assert row["values"]["lr"] <= 0.005


def test_of_equal_trials_the_first_is_kept_so_the_default_is(tmp_path: Path):
    found = searched(tmp_path, 9, lambda hparams: 0.5)
    assert [study.best for study in found] == [0, 0]


def test_a_failed_run_stops_its_own_search_and_there_is_no_tuned_file(tmp_path: Path):
    class Failing(MadeUp):
        def write(self, run: Planned, score: float | None) -> None:
            if run.plugin == "fedprox" and len([id for id in self.done if "fedprox" in id]) > 5:
                write_run(self.folder, run, "failed", about={}, lines=[])
            else:
                super().write(run, score)

    found = tuning.studies("mine", TABLE)
    Failing(tmp_path).search(found, 12)
    assert [len(study.scores) for study in found] == [12, 4]
    assert [len(study.unfinished) for study in found] == [
        0,
        3,
    ]  # of its second generation one was done before
    assert [path.name for path in tuning_results.write(tmp_path, TABLE, found)] == [
        "tuning.csv",
        "tuning.md",
        "trials.csv",
    ]
    assert not (tmp_path / "tuned.toml").exists()
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    assert len(lines) == 1 + 12 + 4


def test_what_the_file_holds_out_stays_and_a_partition_may_bring_its_own(tmp_path: Path):
    parts: dict[str, Any] = {
        f"{part}_{i}": np.arange(3) + 9 * i + 3 * k
        for i in (0, 1)
        for k, part in enumerate(("train", "test"))
    }
    np.savez(tmp_path / "two.npz", **parts)
    np.savez(
        tmp_path / "three.npz", **parts, validation_0=np.array([6]), validation_1=np.array([15])
    )
    blocks = [
        {"validation": 0.5},
        {"data_fraction": 0.5},
        *({"partition": f"file:{tmp_path}/{n}.npz"} for n in ("two", "three")),
    ]
    table = {"algorithms": ["fedavg"], "representations": 5, "scenarios": blocks}
    found = [study.first[0].config for study in tuning.studies("mine", table)]
    assert [run["validation"] for run in found] == [0.5, 0.2, 0.2, 0.0]
    assert {run["representations"] for run in found} == {0}


def test_the_tuned_experiment_runs_the_best_values_and_nothing_else_is_changed(tmp_path: Path):
    table = {
        **TABLE,
        "title": 'A "first" try',
        "algorithms": ["fedavg", "FedProx", "ditto"],
        "hparams": {"batch_size": 8},
        "scenarios": [
            {"partition": ["dir:0.5", "iid"], "methods": {"fedavg": {"hparams": {"epochs": 2}}}}
        ],
        "methods": {
            "FedProx": {"rounds": 1, "hparams": {"mu": 0.5}},
            "ditto": {"hparams": {"lam": 0.3}},
        },
    }
    found = searched(tmp_path, 9, table=table, only=["fedavg,fedprox"])
    assert tuning_results.write(tmp_path, table, found)[-1] == tmp_path / "tuned.toml"
    again = experiment.read(str(tmp_path / "tuned.toml"))
    made = experiment.make("tuned", again)
    assert made.title == 'A "first" try, tuned'
    assert {run.variant for run in made.runs} == {"tuned"}
    best = {(study.name, study.scenario): study.trials[study.best].values for study in found}
    assert len({json.dumps(one) for one in best.values()}) == 4
    before = [
        run for run in experiment.make("mine", table).runs if run.config["algorithm"] != "ditto"
    ]
    assert [run.config for run in made.runs] == [
        {
            **run.config,
            "hparams": {**run.config["hparams"], **best[run.config["algorithm"], run.scenario]},
        }
        for run in before
    ]
    assert len(before) == 2 * 2 * 2


def test_a_block_may_say_what_is_different_for_one_method_in_it():
    table = {
        "algorithms": ["fedavg", "LG-FedAvg"],
        "scenarios": [
            {
                "partition": "iid",
                "methods": {"lgfedavg": {"rounds": 3, "hparams": {"lr": 0.3, "epochs": 3}}},
            },
            {"partition": "path:2"},
        ],
        "variants": [
            {
                "rounds": 2,
                "hparams": {"lr": 0.2},
                "methods": {"lgfedavg": {"hparams": {"epochs": 4}}},
            }
        ],
        "methods": {
            "lgfedavg": {"rounds": 1, "hparams": {"lr": 0.1, "epochs": 1, "batch_size": 1}}
        },
    }
    runs = experiment.make("mine", table).runs
    names = ("lr", "epochs", "batch_size")
    found = [
        (run.scenario, run.config["rounds"], *(run.config["hparams"][name] for name in names))
        for run in runs
    ]
    assert found == [
        ("digits iid", 2, 0.2, 1, 16),
        ("digits iid", 3, 0.3, 4, 1),
        ("digits path:2", 2, 0.2, 1, 16),
        ("digits path:2", 1, 0.1, 4, 1),
    ]
    with pytest.raises(
        UserError, match=r"unknown method in \[methods\] of experiment mine 'fedproxx'"
    ):
        experiment.make("mine", {**table, "scenarios": [{"methods": {"fedproxx": {}}}]})


def test_given_options_hold_over_tuned_values(tmp_path: Path):
    found = searched(tmp_path, 5)
    table = tuning_results.tuned(TABLE, found)
    given = {"methods": {"fedprox": {"hparams": {"mu": "3"}}}}
    runs = experiment.make("tuned", experiment.overridden(table, given)).runs
    mu, lr = (
        {run.config["hparams"].get(name) for run in runs if run.plugin == "fedprox"}
        for name in ("mu", "lr")
    )
    assert mu == {3.0}
    assert lr == {found[1].trials[found[1].best].values["lr"]}


def test_every_trial_is_listed_with_its_accuracy(tmp_path: Path):
    def score(hparams: Mapping[str, Any]) -> float | None:
        return {0.03: 0.5, 0.09: None}.get(hparams["lr"], 0.25)

    found = searched(tmp_path, 3, score, grid={"lr": ["0.03", "0.09"]})
    tuning_results.write(tmp_path, TABLE, found)
    assert (tmp_path / "trials.csv").read_text().splitlines() == [
        "method,scenario,trial,accuracy,values",
        "FedAvg,digits dir:0.1,0,0.25,lr=0.01",
        "FedAvg,digits dir:0.1,1,0.5,lr=0.03",
        "FedAvg,digits dir:0.1,2,0.0,lr=0.09",
        "FedProx,digits dir:0.1,0,0.25,lr=0.01",
        "FedProx,digits dir:0.1,1,0.5,lr=0.03",
        "FedProx,digits dir:0.1,2,0.0,lr=0.09",
    ]


def test_the_tables_have_a_row_for_every_study(tmp_path: Path):
    def score(hparams: Mapping[str, Any]) -> float:
        return 0.25 if hparams["lr"] == 0.01 else 0.125

    found = searched(tmp_path, 2, score)
    tuning_results.write(tmp_path, TABLE, found)
    assert (tmp_path / "tuning.csv").read_text().splitlines() == [
        "method,scenario,trials,diverged,default,best,trial,values",
        "FedAvg,digits dir:0.1,2,0,0.25,0.25,0,lr=0.01",
        "FedProx,digits dir:0.1,2,0,0.25,0.25,0,lr=0.01 mu=0.01",
    ]
    page = (tmp_path / "tuning.md").read_text().splitlines()
    assert page[-1] == "| FedProx | digits dir:0.1 | 2 | 0 | 25.00 | 25.00 | 0 | lr=0.01 mu=0.01 |"
    assert "tuning seed 1000" in page[0]
