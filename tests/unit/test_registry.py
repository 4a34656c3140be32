"""Names to plugins."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pflbench.errors import UserError
from pflbench.methods import files, registry

PLUGIN = '''"""Mine."""
from pflbench.api import Algorithm
class Mine(Algorithm):
    title, family = "Mine", "none"
'''


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Another package that offers the methods `theirs` and, in vain, `fedavg`."""
    (tmp_path / "their_package.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    points = {
        name: EntryPoint(name, "their_package:Mine", files.GROUP) for name in ("theirs", "fedavg")
    }
    monkeypatch.setattr(files, "installed", lambda: points)


def test_every_file_is_a_method_of_its_name():
    assert registry.names() == sorted(path.stem for path in files.shipped().values())
    assert {registry.name_of(registry.load(name)) for name in registry.names()} == set(
        registry.names()
    )


@pytest.mark.parametrize("name", ["lgfedavg", "LG-FedAvg", "lg_fedavg"])
def test_case_and_hyphens_do_not_matter(name):
    assert registry.load(name).title == "LG-FedAvg"


def test_installed_packages_offer_methods_but_cannot_replace_ours(installed):
    assert "theirs" in registry.names()
    assert registry.load("theirs").title == "Mine"
    assert registry.load("fedavg").title == "FedAvg"


def test_broken_entry_point_is_named(monkeypatch):
    points = {"theirs": EntryPoint("theirs", "no_such_package:Mine", files.GROUP)}
    monkeypatch.setattr(files, "installed", lambda: points)
    with pytest.raises(UserError, match="no_such_package"):
        registry.load("theirs")


def test_path_is_a_plugin(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    cls = registry.load(str(path))
    assert (cls.title, registry.name_of(cls)) == ("Mine", "mine")


def test_plugin_cannot_take_the_name_of_a_method_of_ours(tmp_path):
    path = tmp_path / "fedavg.py"
    path.write_text(PLUGIN)
    with pytest.raises(UserError, match="has the name of a method that ships with pflbench"):
        registry.load(str(path))
    ours = Path(sys.modules[registry.load("fedavg").__module__].__file__)
    assert registry.load(str(ours)).title == "FedAvg"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "must define one subclass"),
        (PLUGIN + "class Two(Mine):\n    title = 'Two'\n", "it defines 2"),
        ("def f(:\n", r"mine\.py, line 1: "),
        ("import nowhere_at_all", r"cannot be imported: ModuleNotFoundError.*line 1\)"),
    ],
)
def test_bad_plugin_is_told_in_one_line(tmp_path, text, says):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(UserError, match=says) as caught:
        registry.load(str(path))
    assert "\n" not in str(caught.value)
