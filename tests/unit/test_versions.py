"""The version of a method: what changes it, and that nothing is executed to find it."""

import json
from pathlib import Path

import pytest

from pflbench.methods import files, registry, versions
from pflbench.methods.hyperparameters import make_run

PLUGIN = '''"""Mine (a paper)."""

import math
from helper import half  # next to this file
from pflbench.api import Algorithm


class Mine(Algorithm):
    """A method."""

    title = "Mine"

    def client_update(self, client, message):
        return message, {"rate": half(0.5)}
'''
HELPER = "from deeper import ONE\n\n\ndef half(x):\n    return x / 2 * ONE\n"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "deeper.py").write_text("ONE = 1\n")
    (tmp_path / "stranger.py").write_text("TWO = 2\n")
    return tmp_path / "mine.py"


def edited(plugin: Path, old: str, new: str, file: str = "mine.py") -> str:
    """The plugin's version after an edit of one of the files in its folder."""
    path = plugin.parent / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return versions.version_of(plugin)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # next to this file", "  # another comment"),
        ('"""Mine (a paper)."""', '"""Mine (another paper).\n\nWith a second paragraph.\n"""'),
        ('    """A method."""\n', ""),
        ("import math\n", "import math\n\n\n"),
        ('"rate"', "'rate'"),
        ("half(0.5)", "half( 0.5, )"),
    ],
)
def test_comments_docstrings_and_layout_change_nothing(plugin, old, new):
    before = versions.version_of(plugin)
    assert edited(plugin, old, new) == before


@pytest.mark.parametrize(
    ("old", "new"), [("0.5", "0.6"), ("half(0.5)", "half(0.5) + 0"), ('"rate"', '"other"')]
)
def test_code_changes_it(plugin, old, new):
    before = versions.version_of(plugin)
    assert edited(plugin, old, new) != before


@pytest.mark.parametrize(
    ("file", "old", "new"), [("helper", "x / 2", "x / 3"), ("deeper", "1", "2")]
)
def test_code_of_files_that_it_imports_changes_it(plugin, file, old, new):
    before = versions.version_of(plugin)
    assert edited(plugin, old, new, f"{file}.py") != before


def test_a_comment_in_a_file_that_it_imports_changes_nothing(plugin):
    before = versions.version_of(plugin)
    assert edited(plugin, "def half", "# of it\ndef half", "helper.py") == before


def test_files_that_it_does_not_import_change_nothing(plugin):
    before = versions.version_of(plugin)
    assert edited(plugin, "2", "3", "stranger.py") == before


@pytest.mark.parametrize(
    "line",
    [
        "import helper",
        "import helper as h",
        "from helper import half",
        "from .helper import half",
        "from . import helper",
        "def f():\n    import helper",
    ],
)
def test_all_ways_to_import_a_file_count(plugin, line):
    plugin.write_text(line)
    before = versions.version_of(plugin)
    assert edited(plugin, "x / 2", "x / 3", "helper.py") != before


def test_a_package_next_to_it_counts(plugin):
    (plugin.parent / "parts").mkdir()
    (plugin.parent / "parts" / "__init__.py").touch()
    (plugin.parent / "parts" / "one.py").write_text("A = 1")
    plugin.write_text("from parts.one import A")
    before = versions.version_of(plugin)
    assert edited(plugin, "1", "2", "parts/one.py") != before


def test_the_harness_next_to_a_plugin_is_not_its_code(plugin):
    """As in a checkout, whose top folder has both; the harness has a revision of its own."""
    (plugin.parent / "pflbench").mkdir()
    (plugin.parent / "pflbench" / "__init__.py").touch()
    (plugin.parent / "pflbench" / "api.py").write_text("A = 1")
    before = versions.version_of(plugin)
    assert edited(plugin, "1", "2", "pflbench/api.py") == before


def test_a_method_of_ours_that_it_imports_counts(plugin, tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "basis.py").write_text("A = 1")
    monkeypatch.setattr("pflbench.algorithms.__path__", [str(shipped)])
    plugin.write_text("from pflbench.algorithms.basis import A")
    before = versions.version_of(plugin)
    assert edited(plugin, "1", "2", "shipped/basis.py") != before


def test_it_depends_on_the_content_and_not_on_the_place(plugin, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("mine", "helper", "deeper"):
        (elsewhere / f"{name}.py").write_text((tmp_path / f"{name}.py").read_text())
    assert versions.version_of(elsewhere / "mine.py") == versions.version_of(plugin)


def test_nothing_is_executed(tmp_path):
    marker = tmp_path / "executed"
    (tmp_path / "mine.py").write_text(f"open({str(marker)!r}, 'w')")
    assert versions.current(str(tmp_path / "mine.py"))
    assert not marker.exists()


@pytest.mark.parametrize("text", [None, "def f(:", "x = '\0'"])
def test_what_cannot_be_read_has_no_known_version(tmp_path, text):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    assert versions.current(str(tmp_path / "mine.py")) == ""
    assert versions.current("no-such-method") == ""


@pytest.fixture
def revisions(tmp_path, monkeypatch):
    """Writes a list of revisions in place of ours."""

    def write(harness: int = 1, **methods: tuple[int, str]) -> None:
        listed = {name: {"revision": n, "code": code} for name, (n, code) in methods.items()}
        path = tmp_path / "revisions.json"
        path.write_text(json.dumps({"harness": harness, "methods": listed}))
        monkeypatch.setattr(versions, "REVISIONS", path)

    return write


def test_a_shipped_method_has_its_revision_while_its_code_is_the_listed_one(revisions):
    path = files.shipped()["fedavg"]
    revisions(fedavg=(3, versions.code_hash(path)))
    assert versions.current("fedavg") == versions.current("FedAvg") == "r3"
    assert versions.current(str(path)) == "r3"
    revisions(fedavg=(3, "0000000000"))
    assert len(versions.current("fedavg")) == 10


def test_a_plugin_of_a_shipped_methods_name_has_no_revision(revisions, tmp_path):
    path = tmp_path / "fedavg.py"
    path.write_text(files.shipped()["fedavg"].read_text())
    revisions(fedavg=(3, versions.code_hash(path)))
    assert len(versions.version_of(path)) == 10


def test_a_new_revision_of_the_harness_outdates_plugins_and_no_shipped_method(revisions, plugin):
    code = versions.code_hash(files.shipped()["fedavg"])
    revisions(1, fedavg=(3, code))
    before = versions.version_of(plugin)
    revisions(2, fedavg=(3, code))
    assert versions.version_of(plugin) != before
    assert versions.current("fedavg") == "r3"


def test_a_run_has_the_version_of_its_method_at_the_end_of_its_id():
    run = make_run("fedavg", {}, {})
    assert run.version == versions.current("fedavg")
    assert run.id.endswith(f"-{run.version}")
    assert versions.version_of(registry.file_of(registry.load("fedavg"))) == run.version
