"""Three rounds on tiny data against stored numbers, for every method."""

import json
from pathlib import Path

import pytest

from pflbench.methods import registry
from pflbench.testing import golden, toy

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("name", registry.names())
def test_three_rounds_give_the_stored_numbers(name: str):
    command = f"python -m pflbench.testing.golden {name}"
    path = FOLDER / f"{name}.json"
    assert path.is_file(), f"no golden numbers of {name}; record them with: {command}"
    found = list(
        golden.deviations(json.loads(path.read_text(encoding="utf-8")), golden.numbers(name))
    )
    told = "\n  ".join([f"{len(found)} numbers of {name} have changed:", *found[:8]])
    assert not found, (
        f"{told}\nif that is meant: {command}, and say so under Numbers in CHANGELOG.md"
    )


def test_there_are_no_numbers_of_methods_that_are_gone():
    assert {path.stem for path in FOLDER.glob("*.json")} <= set(registry.names())


def test_a_slightly_other_method_is_seen(monkeypatch: pytest.MonkeyPatch):
    stored = golden.numbers("fedavg")
    assert list(golden.deviations(stored, golden.numbers("fedavg"))) == []
    whole = registry.load("fedavg").aggregate

    def off_by_a_thousandth(self, server, replies):
        theta = whole(self, server, replies)["theta"]
        return {"theta": {name: p * 1.001 for name, p in theta.items()}}

    monkeypatch.setattr(registry.load("fedavg"), "aggregate", off_by_a_thousandth)
    paths = [text.partition(":")[0] for text in golden.deviations(stored, golden.numbers("fedavg"))]
    assert "server.theta.norm" in paths
    assert "server.theta.moved" in paths


def test_a_learning_rate_that_is_off_by_one_percent_is_seen(monkeypatch: pytest.MonkeyPatch):
    stored = golden.numbers("fedper")
    monkeypatch.setattr(
        "pflbench.testing.golden.toy",
        lambda plugin, hparams, **settings: toy(plugin, {**hparams, "lr": 0.0101}, **settings),
    )
    paths = {text.partition(":")[0] for text in golden.deviations(stored, golden.numbers("fedper"))}
    assert {"server.phi.moved", "clients.0.pi.moved", "loss.3"} <= paths
