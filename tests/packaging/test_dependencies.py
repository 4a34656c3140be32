"""Every package that is imported is declared in pyproject.toml, and the other way around."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pflbench", "algorithms", "datasets", "benchmarks")
DISTRIBUTIONS = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "tomli_w": "tomli-w",
    "importlinter": "import-linter",
    "mlflow": "mlflow-skinny",
}  # of import names that are not their distribution's
TOOLS = {"dev", "docs"}  # extras whose packages are started, not imported by pflbench


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def declared(*groups: str) -> set[str]:
    """Distributions of the package itself, or of the named extras."""
    extras = project()["optional-dependencies"]
    lines = (
        project()["dependencies"]
        if not groups
        else [line for name in groups for line in extras[name]]
    )
    return {normalized(re.split(r"[<>=!~\[; ]", line)[0]) for line in lines}


def normalized(distribution: str) -> str:
    """As package indexes compare names: pytest_xdist is pytest-xdist."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imported(source: str) -> set[str]:
    """Distributions that a source imports anywhere in it, also by import_module("name")."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            names |= {str(word.value) for word in node.args if isinstance(word, ast.Constant)}
    tops = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"pflbench"}
    return {DISTRIBUTIONS.get(top, normalized(top)) for top in tops}


def imported_below(*folders: str) -> set[str]:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert files
    return {name for path in files for name in imported(path.read_text(encoding="utf-8"))}


def test_what_the_package_imports_is_declared():
    optional = declared(*(set(project()["optional-dependencies"]) - TOOLS))
    assert imported_below(*SOURCES) - declared() - optional == set()


def test_what_the_tests_import_is_declared():
    own = {"conftest", "tests"}
    everything = declared() | declared(*project()["optional-dependencies"])
    assert imported_below("tests") - own - everything == set()


def test_what_is_declared_is_imported():
    optional = declared(*(set(project()["optional-dependencies"]) - TOOLS))
    assert (declared() | optional) - imported_below(*SOURCES) == set()


def test_a_package_is_declared_once():
    assert declared() & declared(*project()["optional-dependencies"]) == set()


def test_what_is_declared_is_pinned_for_the_tests():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normalized(line.split("==")[0]) for line in lines if "==" in line}
    assert (declared() | declared(*project()["optional-dependencies"])) - pinned == set()


@pytest.mark.parametrize(
    "source, names",
    [
        ("import numpy as np, json", {"numpy"}),
        ("def f():\n    from PIL import Image", {"pillow"}),
        ("import sklearn.manifold", {"scikit-learn"}),
        ("from pflbench.api import Algorithm\nfrom . import near", set()),
        ('import importlib\nimportlib.import_module("torchvision")', {"torchvision"}),
        ('import importlib\nimportlib.import_module(f"pflbench.algorithms.{name}")', set()),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, names: set[str]):
    assert imported(source) == names
