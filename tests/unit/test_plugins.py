"""Methods of one's own in experiments: paths, names, and how a user may name them."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.sweep import experiment, plugins, tuning, tuning_results

PLUGIN = '''"""Mine."""
from pflbench.api import Algorithm
class {name}(Algorithm):
    title, family = "{title}", "none"
'''

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a method, or any text, to a path in an empty folder, which commands are given in."""
    monkeypatch.chdir(tmp_path)

    def write(path: str, text: str | None = None, title: str = "Mixed") -> Path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(PLUGIN.format(name="Mine", title=title) if text is None else text)
        return Path(path)

    return write


def runs(file: str, **given: object) -> list[tuple[str, str]]:
    """The methods of a file's runs: plugins and names."""
    table = experiment.overridden(experiment.read(file), given)
    return [(run.plugin, run.run.algorithm) for run in experiment.make("mine", table).runs]


def test_a_path_in_a_file_is_relative_to_the_file_that_names_it(write: Write):
    write("paper/methods/mixed.py")
    write("paper/mine.toml", 'algorithms = ["local", "methods/mixed.py"]')
    write("other/more.toml", 'include = "../paper/mine"')
    assert runs("paper/mine.toml") == [("local", "local"), ("paper/methods/mixed.py", "mixed")]
    assert runs("other/more.toml")[1] == ("other/../paper/methods/mixed.py", "mixed")


def test_paths_of_a_file_in_this_folder_and_whole_paths_stay_as_they_are(write: Write):
    whole = write("methods/mixed.py").resolve()
    write("mine.py")
    write("mine.toml", f'algorithms = ["mine.py", "{whole}"]')
    assert runs("mine.toml") == [("mine.py", "mine"), (str(whole), "mixed")]
    write("one.toml", 'algorithms = "mine.py"')
    assert runs("one.toml") == [("mine.py", "mine")]


def test_a_file_that_is_not_there_is_named_with_where_it_was_looked_for(write: Write):
    write("mixed.py")
    write("paper/mine.toml", 'algorithms = ["mixed.py"]')
    with pytest.raises(UserError, match=r"no plugin file 'paper/mixed\.py'"):
        runs("paper/mine.toml")


def test_two_files_of_one_name_are_two_methods(write: Write):
    write("first/mixed.py")
    write("second/mixed.py")
    text = """
    algorithms = ["first/mixed.py", "second/mixed.py"]
    [methods.second_mixed]
    rounds = 7
    """
    write("mine.toml", text)
    one, other = experiment.make("mine", experiment.read("mine.toml")).runs
    assert [one.run.algorithm, other.run.algorithm] == ["first_mixed", "second_mixed"]
    assert (one.run.rounds, other.run.rounds) == (200, 7)
    assert one.run.version == other.run.version  # their code is the same, and yet:
    assert one.id.startswith("first_mixed-") and other.id.startswith("second_mixed-")


def test_classes_of_two_files_of_one_name_do_not_mix(write: Write):
    write("first/mixed.py", title="One")
    write("second/mixed.py", title="Two")
    one, two = (registry.load(f"{folder}/mixed.py") for folder in ("first", "second"))
    assert (one.title, two.title) == ("One", "Two")
    assert registry.file_of(one) == Path("first/mixed.py").resolve()
    assert registry.file_of(two) == Path("second/mixed.py").resolve()


@pytest.mark.parametrize(
    "paths, names",
    [
        (["a/mixed.py"], ["mixed"]),
        (["a/mixed.py", "b/mine.py"], ["mixed", "mine"]),
        (["a/mixed.py", "a/../a/mixed.py"], ["mixed", "mixed"]),
        (["a/mixed.py", "b/Mixed.py"], ["a_mixed", "b_Mixed"]),
        (["a/x/mixed.py", "b/x/mixed.py"], ["a_x_mixed", "b_x_mixed"]),
        (["a/mixed.py", "b/mixed.py", "c/a_mixed.py"], None),
        (["try 1/mixed.py", "try 2/mixed.py"], ["try_1_mixed", "try_2_mixed"]),
    ],
)
def test_folders_tell_files_of_one_name_apart(paths: list[str], names: list[str] | None):
    found = plugins.file_names(paths)
    if names is None:
        assert len({*found.values()}) == len(paths)
    else:
        assert [found[path] for path in paths] == names


def test_a_method_by_name_is_called_as_ever():
    assert plugins.file_names(["fedavg", "LG-FedAvg", 3]) == {}
    made = experiment.make("mine", {"algorithms": ["LG-FedAvg"]})
    assert [run.run.algorithm for run in made.runs] == ["lgfedavg"]


TWO = """
algorithms = ["methods/mixed.py", "methods/babu.py"]
[methods.mixed]
rounds = 3
[[scenarios]]
clients = 5
[scenarios.methods.mixed]
rounds = 4
[[variants]]
label = "only"
[variants.methods.babu]
rounds = 5
"""


def test_what_is_said_of_a_method_that_is_left_out_is_left_out_too(write: Write):
    write("methods/mixed.py")
    write("methods/babu.py")
    write("mine.toml", TWO)
    table = experiment.overridden(experiment.read("mine.toml"), {"algorithms": ["fedavg"]})
    assert [run.run.rounds for run in experiment.make("mine", table).runs] == [200]
    write("fewer.toml", 'include = "mine"\nalgorithms = ["methods/babu.py"]')
    (run,) = experiment.make("fewer", experiment.read("fewer.toml")).runs
    assert (run.run.algorithm, run.run.rounds, run.run.clients) == ("babu", 5, 5)


def test_what_is_said_of_a_method_follows_it_to_its_new_name(write: Write):
    write("first/mixed.py")
    write("second/mixed.py")
    text = 'algorithms = ["first/mixed.py", "second/mixed.py"]\n[methods.first_mixed]\nrounds = 3'
    write("mine.toml", text)
    table = experiment.overridden(
        experiment.read("mine.toml"), {"algorithms": ["./first/mixed.py"]}
    )
    (run,) = experiment.make("mine", table).runs
    assert (run.run.algorithm, run.run.rounds) == ("mixed", 3)


def test_a_slip_in_the_name_of_a_method_is_still_told(write: Write):
    write("methods/mixed.py")
    write("mine.toml", 'algorithms = ["methods/mixed.py"]\n[methods.mixde]\nrounds = 3')
    with pytest.raises(UserError, match=r"unknown method in \[methods\] .* did you mean 'mixed'"):
        runs("mine.toml")
    with pytest.raises(
        UserError, match=r"unknown method in \[methods\] of experiment mine 'mixde'"
    ):
        runs("mine.toml", algorithms=["fedavg"])


@pytest.mark.parametrize(
    "written, names",
    [
        ("first/mixed.py", ["first_mixed"]),
        ("./first/mixed.py", ["first_mixed"]),
        ("paper/second/mixed.py", ["second_mixed"]),
        ("paper/../paper/second/mixed.py", ["second_mixed"]),
        ("mixed.py", ["first_mixed", "second_mixed"]),
        ("mixed", ["first_mixed", "second_mixed"]),
        ("Second-Mixed", ["second_mixed"]),
        ("Mixed v1", ["first_mixed"]),
        ("Mixed*", ["first_mixed", "second_mixed"]),
        ("second*,Local", ["local", "second_mixed"]),
        ("LG-FedAvg", ["lgfedavg"]),
        ("babu.py", []),
    ],
)
def test_only_takes_a_method_as_the_user_wrote_it(write: Write, written: str, names: list[str]):
    write("paper/first/mixed.py", title="Mixed v1")
    write("paper/second/mixed.py", title="Mixed v2")
    four = 'algorithms = ["local", "lgfedavg", "first/mixed.py", "second/mixed.py"]'
    write("paper/mine.toml", four)
    every = experiment.make("mine", experiment.read("paper/mine.toml")).runs
    assert [run.run.algorithm for run in experiment.chosen(every, [written], [])] == names
    rest = [run.run.algorithm for run in every if run.run.algorithm not in names]
    assert [run.run.algorithm for run in experiment.chosen(every, [], [written])] == rest


def test_a_method_in_only_that_there_is_none_of_is_told(write: Write):
    write("mixed.py")
    every = experiment.make("mine", {"algorithms": ["local", "mixed.py"]}).runs
    experiment.check_only(every, ["Local,mi*", "rounds=3", "mixed.py"])
    with pytest.raises(UserError, match="method in --only 'mixde'; did you mean 'mixed'"):
        experiment.check_only(every, ["local,mixde"])


def test_a_tuned_file_has_paths_that_are_relative_to_it(write: Write):
    write("methods/mixed.py")
    table = {"algorithms": ["methods/mixed.py", "local"]}
    found = tuning.studies("mine", table, grid={"lr": ["0.1"]})
    for study in found:
        study.trials.append(study._trial(0, {"lr": 0.1}))
        study.scores.append(1.0)
    Path("results/tuning").mkdir(parents=True)
    tuning_results.write(Path("results/tuning"), table, found)
    written = tomllib.loads(Path("results/tuning/tuned.toml").read_text())
    assert written["algorithms"] == ["../../methods/mixed.py", "local"]
    read = experiment.read("results/tuning/tuned.toml")
    assert [run.run.hparams["lr"] for run in experiment.make("tuned", read).runs] == [0.1, 0.1]


@pytest.mark.parametrize(
    "typed, said",
    [
        ("fedlaa", "unknown method 'fedlaa'; did you mean 'fedlala.py'? known: "),
        ("fedlala", "unknown method 'fedlala'; did you mean 'fedlala.py'? known: "),
        ("FEDLALA", "unknown method 'FEDLALA'; did you mean 'fedlala.py'? known: "),
        ("fedavgg", "unknown method 'fedavgg'; did you mean 'fedavg'? known: "),
        ("fedlaal.py", "no plugin file 'fedlaal.py'; did you mean 'fedlala.py'?"),
        ("more/min.py", "no plugin file 'more/min.py'; did you mean 'more/mine.py'?"),
        ("more/mine", "unknown method 'more/mine'; did you mean 'more/mine.py'? known: "),
        ("fedavg.py", "no plugin file 'fedavg.py'; did you mean 'fedavg'?"),
        ("xyz", "unknown method 'xyz'; known: "),
        ("nowhere/xyz.py", "no plugin file 'nowhere/xyz.py'"),
    ],
)
def test_a_near_file_is_suggested_before_a_far_method(write: Write, typed: str, said: str):
    write("fedlala.py")  # fedala is a method
    write("more/mine.py")
    with pytest.raises(UserError) as told:
        registry.load(typed)
    assert str(told.value).startswith(said)
