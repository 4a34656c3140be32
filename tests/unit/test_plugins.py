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

    def write(path: str, text: str | None = None, title: str = "APFL") -> Path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(PLUGIN.format(name="Mine", title=title) if text is None else text)
        return Path(path)

    return write


def runs(file: str, **given: object) -> list[tuple[str, str]]:
    """The methods of a file's runs: plugins and names."""
    table = experiment.overridden(experiment.read(file), given)
    return [(run.plugin, run.run.algorithm) for run in experiment.make("mine", table).runs]


def test_a_path_in_a_file_is_relative_to_the_file_that_names_it(write: Write):
    write("paper/methods/apfl.py")
    write("paper/mine.toml", 'algorithms = ["local", "methods/apfl.py"]')
    write("other/more.toml", 'include = "../paper/mine"')
    assert runs("paper/mine.toml") == [("local", "local"), ("paper/methods/apfl.py", "apfl")]
    assert runs("other/more.toml")[1] == ("other/../paper/methods/apfl.py", "apfl")


def test_paths_of_a_file_in_this_folder_and_whole_paths_stay_as_they_are(write: Write):
    whole = write("methods/apfl.py").resolve()
    write("mine.py")
    write("mine.toml", f'algorithms = ["mine.py", "{whole}"]')
    assert runs("mine.toml") == [("mine.py", "mine"), (str(whole), "apfl")]
    write("one.toml", 'algorithms = "mine.py"')
    assert runs("one.toml") == [("mine.py", "mine")]


def test_a_file_that_is_not_there_is_named_with_where_it_was_looked_for(write: Write):
    write("apfl.py")
    write("paper/mine.toml", 'algorithms = ["apfl.py"]')
    with pytest.raises(UserError, match=r"no plugin file 'paper/apfl\.py'"):
        runs("paper/mine.toml")


def test_two_files_of_one_name_are_two_methods(write: Write):
    write("first/apfl.py")
    write("second/apfl.py")
    text = """
    algorithms = ["first/apfl.py", "second/apfl.py"]
    [methods.second_apfl]
    rounds = 7
    """
    write("mine.toml", text)
    one, other = experiment.make("mine", experiment.read("mine.toml")).runs
    assert [one.run.algorithm, other.run.algorithm] == ["first_apfl", "second_apfl"]
    assert (one.run.rounds, other.run.rounds) == (200, 7)
    assert one.run.version == other.run.version  # their code is the same, and yet:
    assert one.id.startswith("first_apfl-") and other.id.startswith("second_apfl-")


def test_classes_of_two_files_of_one_name_do_not_mix(write: Write):
    write("first/apfl.py", title="One")
    write("second/apfl.py", title="Two")
    one, two = (registry.load(f"{folder}/apfl.py") for folder in ("first", "second"))
    assert (one.title, two.title) == ("One", "Two")
    assert registry.file_of(one) == Path("first/apfl.py").resolve()
    assert registry.file_of(two) == Path("second/apfl.py").resolve()


@pytest.mark.parametrize(
    "paths, names",
    [
        (["a/apfl.py"], ["apfl"]),
        (["a/apfl.py", "b/mine.py"], ["apfl", "mine"]),
        (["a/apfl.py", "a/../a/apfl.py"], ["apfl", "apfl"]),
        (["a/apfl.py", "b/APFL.py"], ["a_apfl", "b_APFL"]),
        (["a/x/apfl.py", "b/x/apfl.py"], ["a_x_apfl", "b_x_apfl"]),
        (["a/apfl.py", "b/apfl.py", "c/a_apfl.py"], None),
        (["try 1/apfl.py", "try 2/apfl.py"], ["try_1_apfl", "try_2_apfl"]),
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
algorithms = ["methods/apfl.py", "methods/babu.py"]
[methods.apfl]
rounds = 3
[[scenarios]]
clients = 5
[scenarios.methods.apfl]
rounds = 4
[[variants]]
label = "only"
[variants.methods.babu]
rounds = 5
"""


def test_what_is_said_of_a_method_that_is_left_out_is_left_out_too(write: Write):
    write("methods/apfl.py")
    write("methods/babu.py")
    write("mine.toml", TWO)
    table = experiment.overridden(experiment.read("mine.toml"), {"algorithms": ["fedavg"]})
    assert [run.run.rounds for run in experiment.make("mine", table).runs] == [200]
    write("fewer.toml", 'include = "mine"\nalgorithms = ["methods/babu.py"]')
    (run,) = experiment.make("fewer", experiment.read("fewer.toml")).runs
    assert (run.run.algorithm, run.run.rounds, run.run.clients) == ("babu", 5, 5)


def test_what_is_said_of_a_method_follows_it_to_its_new_name(write: Write):
    write("first/apfl.py")
    write("second/apfl.py")
    text = 'algorithms = ["first/apfl.py", "second/apfl.py"]\n[methods.first_apfl]\nrounds = 3'
    write("mine.toml", text)
    table = experiment.overridden(experiment.read("mine.toml"), {"algorithms": ["./first/apfl.py"]})
    (run,) = experiment.make("mine", table).runs
    assert (run.run.algorithm, run.run.rounds) == ("apfl", 3)


def test_a_slip_in_the_name_of_a_method_is_still_told(write: Write):
    write("methods/apfl.py")
    write("mine.toml", 'algorithms = ["methods/apfl.py"]\n[methods.aplf]\nrounds = 3')
    with pytest.raises(UserError, match=r"unknown method in \[methods\] .* did you mean 'apfl'"):
        runs("mine.toml")
    with pytest.raises(UserError, match=r"unknown method in \[methods\] of experiment mine 'aplf'"):
        runs("mine.toml", algorithms=["fedavg"])


@pytest.mark.parametrize(
    "written, names",
    [
        ("first/apfl.py", ["first_apfl"]),
        ("./first/apfl.py", ["first_apfl"]),
        ("paper/second/apfl.py", ["second_apfl"]),
        ("paper/../paper/second/apfl.py", ["second_apfl"]),
        ("apfl.py", ["first_apfl", "second_apfl"]),
        ("apfl", ["first_apfl", "second_apfl"]),
        ("Second-APFL", ["second_apfl"]),
        ("APFL v1", ["first_apfl"]),
        ("APFL*", ["first_apfl", "second_apfl"]),
        ("second*,Local", ["local", "second_apfl"]),
        ("LG-FedAvg", ["lgfedavg"]),
        ("babu.py", []),
    ],
)
def test_only_takes_a_method_as_the_user_wrote_it(write: Write, written: str, names: list[str]):
    write("paper/first/apfl.py", title="APFL v1")
    write("paper/second/apfl.py", title="APFL v2")
    four = 'algorithms = ["local", "lgfedavg", "first/apfl.py", "second/apfl.py"]'
    write("paper/mine.toml", four)
    every = experiment.make("mine", experiment.read("paper/mine.toml")).runs
    assert [run.run.algorithm for run in experiment.chosen(every, [written], [])] == names
    rest = [run.run.algorithm for run in every if run.run.algorithm not in names]
    assert [run.run.algorithm for run in experiment.chosen(every, [], [written])] == rest


def test_a_method_in_only_that_there_is_none_of_is_told(write: Write):
    write("apfl.py")
    every = experiment.make("mine", {"algorithms": ["local", "apfl.py"]}).runs
    experiment.check_only(every, ["Local,ap*", "rounds=3", "apfl.py"])
    with pytest.raises(UserError, match="method in --only 'aplf'; did you mean 'apfl'"):
        experiment.check_only(every, ["local,aplf"])


def test_a_tuned_file_has_paths_that_are_relative_to_it(write: Write):
    write("methods/apfl.py")
    table = {"algorithms": ["methods/apfl.py", "local"]}
    found = tuning.studies("mine", table, grid={"lr": ["0.1"]})
    for study in found:
        study.trials.append(study._trial(0, {"lr": 0.1}))
        study.scores.append(1.0)
    Path("results/tuning").mkdir(parents=True)
    tuning_results.write(Path("results/tuning"), table, found)
    written = tomllib.loads(Path("results/tuning/tuned.toml").read_text())
    assert written["algorithms"] == ["../../methods/apfl.py", "local"]
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
