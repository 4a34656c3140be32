"""Sets of methods by name, and the list of methods."""

import csv
import json
import re

import pytest

from pflbench.errors import UserError
from pflbench.methods import describe, registry, sets
from pflbench.papers import papers
from pflbench.sweep import experiment


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.name)
def test_the_methods_of_a_paper_are_a_set(paper):
    found = sets.members(f"{paper.name.lower()}-paper")
    assert {registry.load(name).title for name in found} == set(paper.methods)
    assert len(found) == len(paper.methods)


def test_all_is_all():
    assert sets.members("all") == registry.names()


def test_a_list_may_name_sets_and_methods():
    assert sets.methods(["fedavg", "all", "mine.py"]) == ["fedavg", *registry.names(), "mine.py"]


def test_a_set_of_a_method_that_is_not_there_leaves_it_out(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    with (tmp_path / "theirs" / "methods.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["method"], ["LG-FedAvg"], ["NeverHeard"], ["FedAvg"]])
    monkeypatch.setattr(sets, "PAPERS", tmp_path)
    assert sets.names() == ["all", "theirs-paper"]
    assert sets.members("theirs-paper") == ["fedavg", "lgfedavg"]


def test_unknown_set():
    with pytest.raises(
        UserError, match=r"unknown set of methods 'al'; did you mean 'all'\? known:"
    ):
        sets.members("al")


def test_experiments_that_compare_the_papers_methods_have_all_of_them_and_no_other():
    for name in ("main", "efficiency", "scalability", "scarcity", "adam", "quickstart", "cifar10"):
        runs = experiment.make(name, experiment.read(name), "smoke").runs
        assert {run.plugin for run in runs} == set(sets.members("fedcosr-paper"))


ADDRESS = re.compile(
    r"https://(arxiv\.org/abs/\d{4}\.\d{5}|doi\.org/\S+|\S*(thecvf\.com|ieee\.org)/\S+)"
)


CODE = re.compile(r"https://github\.com/[\w-]+/[\w-]+( \(.+\))?|none of the authors found")


@pytest.mark.parametrize("name", registry.names())
def test_every_method_says_what_it_does_and_where_its_paper_and_code_are(name):
    found = describe.details(registry.load(name))
    assert found["idea"].endswith(".")
    assert len(found["idea"]) <= 100
    if name != "local":
        assert ADDRESS.match(found["paper"])
        assert CODE.fullmatch(found["code"])


def test_a_family_is_named_once(capsys):
    from pflbench.cli import main

    with pytest.raises(SystemExit):
        main.main(["algorithms", "--set", "fedcosr-paper"])
    lines = capsys.readouterr().out.splitlines()
    families = [line.partition("  ")[0] for line in lines[1:] if not line.startswith(" ")]
    assert len(lines) == 23
    assert families == sorted({registry.load(one).family for one in sets.members("fedcosr-paper")})
    with pytest.raises(SystemExit):
        main.main(["algorithms", "--set", "fedcosr-paper", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert {"ditto", "local"} < {row["name"] for row in rows}
    assert all(row["title"] and row["idea"] for row in rows)
