"""A plan is kept with its folder and read back as it was; every run is in it once, the first seed first."""

import json

import pytest

from pflbench.records import plan, run_folder
from pflbench.records.plan import Plan, Planned
from pflbench.sweep import experiment
from tests.factories import runs


def planned(id: str, seed: int, scenario: str = "", variant: str = "") -> Planned:
    return runs.planned(id=id, seed=seed, scenario=scenario, variant=variant)


def test_a_plan_survives_being_stored(tmp_path):
    table = {
        "title": "Umlaut \u00e4",
        "algorithms": ["fedavg"],
        "seeds": 2,
        "scenarios": [{"partition": ["iid", "path:2"]}],
    }
    made = experiment.make("mine", table, "small", "pflbench sweep 'a file.toml'")
    made.write(tmp_path / "not" / "there")
    (read,) = plan.read(tmp_path / "not" / "there")
    assert read == made
    assert [path.name for path in (tmp_path / "not" / "there" / "plans").iterdir()] == [
        "mine-small.json"
    ]


def test_a_stored_configuration_is_the_run_that_it_was(tmp_path):
    made = experiment.make(
        "mine", {"algorithms": ["fedcosr"], "samples_per_client": "80-100", "rounds": 3}
    )
    made.write(tmp_path)
    (run,) = plan.read(tmp_path)[0].runs
    assert run.run.id == run.id == made.runs[0].id


def test_a_plan_replaces_one_of_its_name_and_leaves_the_others(tmp_path):
    for name, title in (("b", "old"), ("a", "other"), ("b", "new")):
        Plan(name, title, "paper", "", (planned("x", 0),)).write(tmp_path)
    assert [(one.name, one.title) for one in plan.read(tmp_path)] == [("a", "other"), ("b", "new")]


def test_every_run_is_there_once_and_the_first_seed_comes_first():
    runs = [
        planned("a0", 0),
        planned("a1", 1),
        planned("b0", 0),
        planned("b1", 1),
        planned("a0", 0),
    ]
    assert list(Plan("p", "", "paper", "", tuple(runs)).unique()) == ["a0", "b0", "a1", "b1"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "fedavg, seed 3"),
        ({"scenario": "digits iid"}, "fedavg, digits iid, seed 3"),
        ({"scenario": "digits iid", "variant": "lr=0.1"}, "fedavg, digits iid, lr=0.1, seed 3"),
    ],
)
def test_a_run_is_named_by_method_scenario_variant_and_seed(words, name):
    assert planned("x", 3, **words).name == name


def test_a_folder_without_plans_has_none(tmp_path):
    assert plan.read(tmp_path) == []
    assert plan.read(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    "content", [{}, {"runs": 3}, {"name": "x", "runs": []}, {"name": "x", "runs": [{"id": "y"}]}]
)
def test_a_plan_of_another_version_is_named_in_one_line_and_left_out(tmp_path, content):
    Plan("good", "", "paper", "", ()).write(tmp_path)
    (tmp_path / "plans" / "old.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match=r"old\.json is not a plan of this version") as caught:
        assert [found.name for found in plan.read(tmp_path)] == ["good"]
    assert "\n" not in str(caught[0].message)


@pytest.mark.parametrize("content", ['{"name": "x", "ru', "[1, 2]", "[" * 100_000, ""])
def test_a_plan_that_cannot_be_read_is_named_in_one_line_and_left_out(tmp_path, content):
    Plan("good", "", "paper", "", ()).write(tmp_path)
    (tmp_path / "plans" / "half.json").write_text(content)
    with pytest.warns(UserWarning, match=r"cannot read .*half\.json.*; it is left out$"):
        assert [found.name for found in plan.read(tmp_path)] == ["good"]


def test_a_folder_in_the_place_of_a_plan_is_left_out(tmp_path):
    (tmp_path / "plans" / "folder.json").mkdir(parents=True)
    with pytest.warns(UserWarning, match=r"cannot read .*folder\.json"):
        assert plan.read(tmp_path) == []


def test_a_folder_that_takes_no_plan_is_told_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        run_folder.Unwritable,
        match=r"cannot write to .*file: Not a directory; choose another --out",
    ):
        Plan("p", "", "paper", "", ()).write(tmp_path / "file")
