"""Representations at the end of a run: whose, of what model, of which samples; and that nothing else changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pflbench
from pflbench.api import Params
from pflbench.data.npz import plain_arrays
from pflbench.errors import UserError
from pflbench.methods.hyperparameters import make_run
from pflbench.simulation import representations, runner
from pflbench.simulation.federation import Federation
from pflbench.testing import TOY, played, split_by_class, toy


def z_of(federation: Federation, id: int, theta: Params, number: int) -> torch.Tensor:
    """relu(W x + b) of a client's first test samples, written out: the body of the toy's network."""
    x = torch.from_numpy(federation.setup.data.x[federation.partition.test[id][:number]])
    pixels = x.flatten(1).to(torch.float32) / 127.5 - 1.0
    return (pixels @ theta["body.fc1.weight"].T + theta["body.fc1.bias"]).clamp(min=0)


EVALUATED: dict[str, Callable[[Federation, int], Params]] = {
    "fedavg": lambda federation, id: federation.server["theta"],  # pre: the new global model
    "lgfedavg": lambda federation, id: federation.state(id)["phi"],  # pre: the private body
    "fedgh": lambda federation, id: federation.state(id)["theta"],  # pre, under the global head
    "fedcosr": lambda federation, id: federation.state(id)["theta"],  # post, not what was merged
    # within {"theta": ..., "omega": ...}
    "fedproto": lambda federation, id: federation.state(id)["theta"],
    # within {"phi": ..., "weight": ..., "bias": ...}
    "pfedfda": lambda federation, id: federation.server["phi"],
}


@pytest.mark.parametrize("method", EVALUATED)
def test_they_are_of_the_model_that_is_evaluated_after_the_last_round(method):
    federation = toy(method, rounds=2, representations=3)
    federation.start()
    federation.step()
    assert federation.represented == {}
    federation.step()
    assert sorted(federation.represented) == [0, 1, 2, 3]
    for id, z in federation.represented.items():
        expected = z_of(federation, id, EVALUATED[method](federation, id), 3)
        assert z.dtype == np.float32
        assert z.shape == expected.shape == (3, 8)
        torch.testing.assert_close(torch.from_numpy(z), expected)


def test_they_are_of_all_test_samples_of_a_client_that_has_fewer():
    federation = played(
        toy("fedavg", split=split_by_class(TOY["dataset"], [[0], [1], [2]], [[0] * 5, [1, 2], []]))
    )
    assert federation.represented == {}  # not asked for
    split = federation.partition
    federation = played(toy("fedavg", split=split, representations=4))
    assert {id: len(z) for id, z in federation.represented.items()} == {0: 4, 1: 2, 2: 0}


def test_after_training_only_the_last_cohort_has_them():
    before, after = (
        played(toy(name, participation=0.5, representations=2)) for name in ("fedavg", "local")
    )
    before.round = 2
    assert sorted(before.represented) == [0, 1, 2, 3]
    assert sorted(after.represented) == list(before.select())
    assert len(after.represented) == 2


def run(out: Path, method: str = "fedcosr", **changes: Any) -> Path:
    return pflbench.run(method, out=out, **{**TOY, "representations": 5, **changes}).folder


def test_the_file_has_the_samples_and_the_run_is_else_the_same(tmp_path):
    folder, without = run(tmp_path), run(tmp_path, representations=0)
    arrays = plain_arrays(str(folder / "representations.npz"))
    assert {name: (a.shape[1:], a.dtype) for name, a in arrays.items()} == {
        "z": ((8,), np.float32),
        "y": ((), np.int64),
        "client": ((), np.int64),
        "sample": ((), np.int64),
        "x": ((1, 8, 8), np.uint8),
    }
    setup = runner.prepare(make_run("fedcosr", TOY, {}))
    first = [rows[:5] for rows in setup.partition.test]
    assert arrays["sample"].tolist() == np.concatenate(first).tolist()
    assert arrays["client"].tolist() == [id for id, rows in enumerate(first) for _ in rows]
    assert np.array_equal(arrays["y"], setup.data.y[arrays["sample"]])
    assert np.array_equal(arrays["x"], setup.data.x[arrays["sample"]])
    assert (folder / "rounds.jsonl").read_bytes() == (without / "rounds.jsonl").read_bytes()
    assert sorted({p.name for p in folder.iterdir()} - {p.name for p in without.iterdir()}) == [
        "representations.npz"
    ]


@pytest.mark.parametrize("stop", [1, 3])
def test_a_run_that_was_stopped_leaves_the_same_file(tmp_path, stop):
    whole = run(tmp_path / "whole") / "representations.npz"
    setup = runner.prepare(make_run("fedcosr", {**TOY, "representations": 5}, {}))
    file = tmp_path / "broken" / setup.run.id / "representations.npz"

    def interrupt(record: dict[str, Any], timing: dict[str, Any]) -> None:
        if record["round"] == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.execute(setup, tmp_path / "broken", watch=interrupt)
    # the last round, whose checkpoint says that nothing is left to be played
    assert file.exists() is (stop == 3)
    assert runner.execute(setup, tmp_path / "broken").status["status"] == "finished"
    assert file.read_bytes() == whole.read_bytes()


def test_a_fresh_run_forgets_them(tmp_path):
    file = run(tmp_path) / "representations.npz"
    setup = runner.prepare(make_run("fedcosr", {**TOY, "representations": 5}, {}))

    def look(done: int) -> None:
        assert not file.exists()

    runner.execute(setup, tmp_path, fresh=True, started=look)
    assert file.exists()


TABLE = '''
"""Table: the evaluated model of client 1 is a table of scores, without a network."""
from pflbench.api import Algorithm
class Table(Algorithm):
    title = "Table"
    family = "none"
    def client_update(self, client, message):
        return {}, {}
    def aggregate(self, server, replies):
        return server
    def personal_model(self, client, message):
        scores = {"scores": client.counts.float()}
        return scores if client.id in WITHOUT else {"network": message, **scores}
    def predict(self, model, x):
        return model["scores"].expand(len(x), -1)
'''


@pytest.mark.parametrize(("without", "there"), [((1,), [0, 2, 3]), ((0, 1, 2, 3), None)])
def test_a_client_whose_model_has_no_body_is_left_out(tmp_path, without, there):
    plugin = tmp_path / "table.py"
    plugin.write_text(TABLE.replace("WITHOUT", str(without)))
    file = run(tmp_path, str(plugin)) / "representations.npz"
    assert (
        np.unique(plain_arrays(str(file))["client"]).tolist() if file.exists() else None
    ) == there


def test_the_body_is_the_outermost_that_fits():
    task = toy("fedavg").algorithm.task
    ones, twos = (
        {name: torch.full_like(p, value) for name, p in task.initial.items()}
        for value in (1.0, 2.0)
    )
    small = {name: p[:1] for name, p in ones.items()}
    found = representations.body_of({"deep": {"theta": ones}, "small": small, "theta": twos}, task)
    assert found is not None
    assert {name: p.unique().tolist() for name, p in found.items()} == {
        "body.fc1.weight": [2],
        "body.fc1.bias": [2],
    }
    assert representations.body_of({"pi": {"head.fc2.bias": torch.zeros(4)}}, task) is None
    assert representations.body_of(torch.zeros(4), task) is None


def test_fewer_than_none_is_refused():
    with pytest.raises(UserError, match="representations = -1: must be at least 0"):
        make_run("fedavg", {"representations": -1}, {})
