"""Three rounds on tiny data against stored numbers, for every method."""

import json
from pathlib import Path
from typing import Any

import pytest

from pflbench.methods import files, registry, versions
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
    assert versions.read_revisions()["methods"].keys() <= set(registry.names())


@pytest.mark.parametrize("name", files.shipped())
def test_the_code_is_the_listed_one(name: str):
    """So that results of a method are outdated where its numbers changed, and only there."""
    entry = versions.read_revisions()["methods"].get(name, {})
    listed = entry.get("code") == versions.code_hash(files.shipped()[name])
    command = f"python -m pflbench.testing.golden {name}"
    assert listed, f"the code of {name} has changed: {command}, see its help for --new-revision"


class Project:
    """A project whose methods have this loss and this code; `record` is the command."""

    loss, code = 0.5, "aaaaaaaaaa"

    def record(self, *words: str) -> None:
        golden.main(["fedavg", *words])

    @property
    def listed(self) -> dict[str, Any]:
        return versions.read_revisions()

    @property
    def fedavg(self) -> tuple[int, str, float]:
        """Its revision, the listed code and the stored loss."""
        entry = self.listed["methods"]["fedavg"]
        numbers = json.loads(Path("tests/golden/fedavg.json").read_text())
        return entry["revision"], entry["code"], numbers["loss"][0]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project()
    (tmp_path / "tests" / "golden").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(versions, "REVISIONS", tmp_path / "revisions.json")
    monkeypatch.setattr(versions, "code_hash", lambda path: made.code)
    monkeypatch.setattr(golden, "numbers", lambda plugin: {"tests": [10], "loss": [made.loss]})
    versions.write_revisions({"harness": 1, "methods": {}})
    made.record("local")
    return made


def test_a_new_method_starts_at_revision_one(project: Project):
    assert project.fedavg == (1, "aaaaaaaaaa", 0.5)
    assert project.listed["harness"] == 1


def test_other_code_with_the_same_numbers_keeps_the_revision(project: Project, capsys):
    capsys.readouterr()
    project.code, project.loss = "bbbbbbbbbb", 0.5 + 1e-7
    project.record()
    assert project.fedavg == (1, "bbbbbbbbbb", 0.5)
    assert capsys.readouterr().out == "fedavg: the stored numbers; revision 1\n"


def test_other_code_with_other_numbers_is_a_new_revision(project: Project, capsys):
    capsys.readouterr()
    project.code, project.loss = "bbbbbbbbbb", 0.6
    project.record()
    assert project.fedavg == (2, "bbbbbbbbbb", 0.6)
    assert project.listed["harness"] == 1
    assert capsys.readouterr().out == "fedavg: other numbers, stored; revision 2\n"


def test_the_same_code_with_other_numbers_is_one_new_revision_of_the_harness(project, capsys):
    capsys.readouterr()
    project.loss = 0.6
    project.record("local")
    assert project.fedavg == (2, "aaaaaaaaaa", 0.6)
    assert capsys.readouterr().out.splitlines() == [
        "fedavg: other numbers, stored; revision 2",
        "local: other numbers, stored; revision 2",
        "the harness: revision 2",
    ]
    assert project.listed["harness"] == 2


def test_a_new_revision_can_be_asked_for(project: Project):
    project.record("--new-revision")
    assert project.fedavg == (2, "aaaaaaaaaa", 0.5)
    assert project.listed["harness"] == 1


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
