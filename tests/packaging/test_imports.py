"""Which module may import which; and a command line that starts without torch.

The arrows between packages are Import Linter's contracts in pyproject.toml; plugins, which it does not
see, are read here with `ast`.
"""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLUGIN_MAY_IMPORT = {"pflbench.api", "pflbench.ops", "pflbench.privacy"}
PLUGIN_MAY_USE = (sys.stdlib_module_names - {"importlib", "runpy", "pkgutil"}) | {
    "torch",
    "numpy",
    "scipy",
}

HEAVY = ["torch", "torchvision", "pandas", "matplotlib", "scipy"]


def imported(source: str, package: str = "") -> set[str]:
    """Dotted names that a source imports anywhere in it; `from a import b` gives `a.b`, relative names are resolved."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            base += [node.module] if node.module else []
            names |= {".".join([*base, alias.name]) for alias in node.names}
    return names


def plugin_violations(source: str) -> list[str]:
    """Imports that a file of algorithms/ may not have."""

    def allowed(name: str) -> bool:
        if name.split(".")[0] in PLUGIN_MAY_USE:
            return True
        return ".".join(name.split(".")[:2]) in PLUGIN_MAY_IMPORT

    return sorted(name for name in imported(source, "pflbench.algorithms") if not allowed(name))


def test_plugins_import_only_the_interface():
    plugins = sorted((ROOT / "algorithms").glob("*.py"))
    found = {
        path.name: bad
        for path in plugins
        if (bad := plugin_violations(path.read_text(encoding="utf-8")))
    }
    assert plugins
    assert found == {}


@pytest.mark.parametrize(
    "line, name",
    [
        ("from .fedavg import FedAvg", "pflbench.algorithms.fedavg.FedAvg"),
        ("from . import fedavg", "pflbench.algorithms.fedavg"),
        ("from pflbench.algorithms.fedavg import FedAvg", "pflbench.algorithms.fedavg.FedAvg"),
        ("import algorithms.fedavg", "algorithms.fedavg"),
        ("import pflbench", "pflbench"),
        ("from pflbench.simulation import engine", "pflbench.simulation.engine"),
        ("from ..rng import stream", "pflbench.rng.stream"),
        ("def f():\n    import pandas", "pandas"),
        ("import importlib", "importlib"),
        ("import pflbench.ops2", "pflbench.ops2"),
    ],
)
def test_a_plugin_that_breaks_the_rule_is_found(line: str, name: str):
    fine = "import math\nimport torch.nn as nn\nfrom pflbench import ops\nfrom pflbench.api import Algorithm\n"
    assert plugin_violations(fine) == []
    assert plugin_violations(fine + line) == [name]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_point_one_way():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout
    assert " 0 broken" in done.stdout


@pytest.mark.parametrize(
    "file, line",
    [
        ("simulation/federation.py", "from pflbench.sweep import scheduler"),
        ("records/plan.py", "from pflbench.simulation import runner"),
        ("api.py", "from pflbench.simulation import engine"),
        ("report/build.py", "from pflbench.sweep import scheduler"),
        ("sweep/experiment.py", "from pflbench.cli import options"),
        ("sweep/launchers/task.py", "from pflbench.sweep import scheduler"),
        ("simulation/engine.py", "from pflbench.simulation import cohort"),
        ("records/plan.py", "from pflbench.methods import versions"),
        ("config.py", "from pflbench.methods import registry"),
    ],
)
def test_an_import_against_the_direction_is_found(tmp_path: Path, file: str, line: str):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "pflbench", tmp_path / "pflbench")
    with (tmp_path / "pflbench" / file).open("a", encoding="utf-8") as source:
        source.write(f"\n{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    assert " 0 broken" not in done.stdout


def test_the_command_line_starts_without_heavy_packages():
    status = ["methods.versions", "records.leases", "records.plan", "records.status"]
    modules = ", ".join(["pflbench.cli.main", *(f"pflbench.{name}" for name in status)])
    code = f"import sys, {modules}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
