"""The validation part: evaluated like the test part, not trained on, the same after every stop."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pflbench
from pflbench.api import Client, Message, Model
from pflbench.data.partition import Partition
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation import runner
from pflbench.testing import TOY, played, split_by_class, toy
from tests.factories.federations import Constant, federation_of

HELD_OUT: dict[str, Any] = {**TOY, "validation": 0.3, "participation": 0.5, "rounds": 4}
"""Two of four clients per round: at `post` the others have the accuracy of their latest training."""

LAST_CLASS = torch.tensor([0.0, 0.0, 0.0, 1.0])


class Majority(Constant):
    """Says a client's most frequent training class; right after training, and as "last", class 3."""

    def personal_model(self, client: Client, message: Message) -> Model:
        return client.counts.float()

    def trained_model(self, client: Client, message: Message, reply: Message) -> Model:
        return LAST_CLASS

    def extra_models(self, client: Client, message: Message) -> dict[str, Model]:
        return {"last": LAST_CLASS}

    def predict(self, model: Model, x: Tensor) -> Tensor:
        scores: Tensor = model.expand(len(x), -1)
        return scores


def split_in_three(*clients: tuple[list[int], list[int], list[int]]) -> Partition:
    """A partition to order: of every client, the classes of its training, test and validation samples."""
    train, test, validation = ([*part] for part in zip(*clients, strict=True))
    both = split_by_class(TOY["dataset"], [*train, *validation], test)
    return Partition(both.train[: len(train)], both.test, both.train[len(train) :])


def test_accuracies_by_hand():
    split = split_in_three(
        ([0, 0, 1], [0, 1, 3, 3, 3], [0, 0, 1, 3]),
        ([2], [2, 3, 3], []),
        ([1, 1, 3, 3, 1], [], [1, 3, 3, 3, 3]),
    )
    before = {"pre": [1 / 5, 1 / 3, None], "pre_validation": [2 / 4, None, 1 / 5]}
    after = {"last": [3 / 5, 2 / 3, None], "last_validation": [1 / 4, None, 4 / 5]}
    federation = federation_of(Majority, split, participation=0.34)
    assert federation.start()[0]["accuracy"] == {**before, **after}
    trained: set[int] = set()

    def latest(part: str) -> list[float | None]:
        return [
            after[f"last{part}"][id] if id in trained else before[f"pre{part}"][id]
            for id in range(3)
        ]

    for _ in range(2):
        record, _ = federation.step()
        trained |= {*record["cohort"]}
        post = {"post": latest(""), "post_validation": latest("_validation")}
        assert record["accuracy"] == {**before, **after, **post}
    assert 1 <= len(trained) <= 2  # somebody has the untrained model's accuracy


@pytest.mark.parametrize("method", ["fedavg", "ditto", "fedcosr"])
def test_nothing_is_trained_on_it(tmp_path, method):
    federation = toy(method, **HELD_OUT)
    split = federation.partition
    assert all(map(len, split.validation))
    split.save(tmp_path / "all.npz")
    Partition(split.train, split.test).save(tmp_path / "reduced.npz")
    given = {**HELD_OUT, "validation": 0.0}
    same, reduced = (
        toy(method, **{**given, "partition": f"file:{tmp_path}/{name}.npz"})
        for name in ("all", "reduced")
    )
    for turn in range(4):
        one, two, three = (
            f.step()[0] if turn else f.start()[0] for f in (federation, same, reduced)
        )
        assert one == two
        names = [*three["accuracy"]]
        assert [*one["accuracy"]] == [name + part for name in names for part in ("", "_validation")]
        assert {**one, "accuracy": {name: one["accuracy"][name] for name in names}} == three
    assert [federation.client(id).n for id in range(4)] == [len(rows) for rows in split.train]


def run(out: Path, **how: Any) -> Path:
    """A run's folder."""
    return pflbench.run("fedcosr", out=out, **{**HELD_OUT, **how}).folder


def test_run_json_counts_it(tmp_path):
    split = runner.prepare(make_run("fedcosr", HELD_OUT, {})).partition
    about = json.loads((run(tmp_path) / "run.json").read_text())["partition"]
    assert about["n_validation"] == [len(rows) for rows in split.validation]
    assert [sum(row.values()) for row in about["validation_classes"]] == about["n_validation"]
    without = json.loads((run(tmp_path, validation=0.0) / "run.json").read_text())["partition"]
    assert not [name for name in without if "validation" in name]
    assert sum(without["n_train"]) == sum(about["n_train"]) + sum(about["n_validation"])


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_run_that_was_stopped_ends_as_the_one_that_was_not(tmp_path, stop):
    whole = run(tmp_path / "whole")
    setup = runner.prepare(make_run("fedcosr", HELD_OUT, {}))

    def interrupt(record: dict[str, Any], timing: dict[str, Any]) -> None:
        if record["round"] == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.execute(setup, tmp_path / "broken", watch=interrupt)
    assert runner.execute(setup, tmp_path / "broken").status["status"] == "finished"
    assert (tmp_path / "broken" / whole.name / "rounds.jsonl").read_bytes() == (
        whole / "rounds.jsonl"
    ).read_bytes()


def test_checkpoints_of_runs_without_it_have_no_word_of_it():
    federation = played(toy("fedavg", **{**HELD_OUT, "validation": 0.0}), 1)
    assert [*federation.snapshot()] == [
        *("round", "server", "clients", "has_all_models"),
        *("untrained", "post"),
    ]
