"""Which module may import which, read from the sources with `ast`; and a command line that starts without torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# cli -> tune -> board -> sweep -> launch -> rounds -> federation -> cohort -> engine -> site -> api: a module imports
# from its right, never from its left. The commands (and `pflbench.run`, in __init__) are on top of all.
CHAIN = ["tune", "board", "sweep", "launch", "rounds", "federation", "cohort", "engine", "site"]
COMMANDS = {
    "__main__",
    "__init__",
    "cli",
    "cli_run",
    "cli_data",
    "cli_sweep",
    "cli_tune",
    "cli_report",
    "cli_bench",
}
ABOVE = COMMANDS | {"report", "testing"}
FORBIDDEN: dict[str, set[str]] = {
    **{name: set() for name in COMMANDS},
    **{name: ABOVE | {"estimate"} | set(CHAIN[:place]) for place, name in enumerate(CHAIN)},
    "estimate": ABOVE | {"tune", "board", "sweep", "launch"},  # plays a round by itself
    "provenance": ABOVE
    | {"estimate"}
    | set(CHAIN) - {"site"},  # what a run was: it describes a site's setup
    "testing": COMMANDS | {"report", "tune", "board", "sweep", "launch", "estimate"},
    "report": ABOVE - {"report"}
    | set(CHAIN)
    | {"provenance", "estimate"},  # reads files, by the readers below
}
# api and the leaves (errors, rng, wire, ops, models, partition, data, vision, config, registry...): none of these.
FORBIDDEN_TO_LEAVES = set(FORBIDDEN)
# What a sweep leaves in its folder is read and written by these leaves, which need nothing else of the project: a
# command that only looks starts at once.
READERS: dict[str, set[str]] = {
    "records": {"errors", "jsontext", "wire"},
    "ledger": {"errors", "records"},
    "plan": {"errors", "records"},
    "standing": {"records", "ledger", "plan"},
}

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


def core_violations(module: str, source: str, package: str = "pflbench") -> list[str]:
    """Imports against the direction; `module` is its name in the table (`report` for every file of that package)."""
    forbidden = FORBIDDEN.get(module, FORBIDDEN_TO_LEAVES)
    parts = {name: name.split(".") for name in imported(source, package)}
    return sorted(
        name for name, part in parts.items() if part[0] == "pflbench" and {*part[1:2]} & forbidden
    )


def core_files() -> dict[Path, tuple[str, str]]:
    """Every file of pflbench/ and datasets/ with its module in the table and the package that it is in."""
    files = {}
    for path in sorted((ROOT / "pflbench").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[path] = (parts[1], ".".join(parts[:-1]))
    for path in sorted((ROOT / "datasets").glob("*.py")):
        files[path] = ("datasets", "pflbench.datasets")
    return files


def test_plugins_import_only_the_interface():
    plugins = sorted((ROOT / "algorithms").glob("*.py"))
    found = {
        path.name: bad
        for path in plugins
        if (bad := plugin_violations(path.read_text(encoding="utf-8")))
    }
    assert plugins
    assert found == {}


def test_core_imports_point_one_way():
    found = {}
    for path, (module, package) in core_files().items():
        if bad := core_violations(module, path.read_text(encoding="utf-8"), package):
            found[str(path.relative_to(ROOT))] = bad
    assert found == {}


def test_the_table_names_modules_that_exist():
    names = {module for module, _ in core_files().values()}
    assert set(FORBIDDEN) | set(READERS) <= names


@pytest.mark.parametrize("module", READERS)
def test_readers_of_a_folder_need_each_other_only(module: str):
    found = imported((ROOT / "pflbench" / f"{module}.py").read_text(encoding="utf-8"), "pflbench")
    assert {name.split(".")[1] for name in found if name.startswith("pflbench.")} <= READERS[module]


@pytest.mark.parametrize(
    "line, name",
    [
        ("from .fedavg import FedAvg", "pflbench.algorithms.fedavg.FedAvg"),
        ("from . import fedavg", "pflbench.algorithms.fedavg"),
        ("from pflbench.algorithms.fedavg import FedAvg", "pflbench.algorithms.fedavg.FedAvg"),
        ("import algorithms.fedavg", "algorithms.fedavg"),
        ("import pflbench", "pflbench"),
        ("from pflbench import engine", "pflbench.simulation.engine"),
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


@pytest.mark.parametrize(
    "module, package, line, bad",
    [
        ("engine", "pflbench", "from pflbench.simulation.cohort import Cohort", True),
        ("engine", "pflbench", "from .cohort import Cohort", True),
        ("cohort", "pflbench", "from pflbench.simulation.engine import Engine", False),
        ("rounds", "pflbench", "def f():\n    from pflbench import sweep", True),
        (
            "rounds",
            "pflbench",
            "import pflbench.simulation.federation, pflbench.methods.registry",
            False,
        ),
        ("federation", "pflbench", "from pflbench.simulation.runner import execute", True),
        ("federation", "pflbench", "from pflbench.simulation.cohort import Cohort", False),
        ("cohort", "pflbench", "from pflbench import federation", True),
        ("site", "pflbench", "from pflbench.simulation.engine import Engine", True),
        ("engine", "pflbench", "from pflbench.simulation.client_worker import ClientWorker", False),
        ("config", "pflbench", "from pflbench.simulation.client_worker import Setup", True),
        ("report", "pflbench.report", "from ..rounds import execute", True),
        ("report", "pflbench.report", "from pflbench.simulation.client_worker import Setup", True),
        ("report", "pflbench.report", "from pflbench import records", False),
        (
            "report",
            "pflbench.report",
            "from pflbench.errors import UserError\nfrom .tables import table",
            False,
        ),
        ("api", "pflbench", "from pflbench.simulation.engine import Engine", True),
        ("wire", "pflbench", "from pflbench.api import Message", False),
        ("config", "pflbench", "from pflbench import cli", True),
        ("sweep", "pflbench", "from pflbench.report import tables", True),
        ("sweep", "pflbench", "from pflbench.sweep.progress import SweepProgress", True),
        ("board", "pflbench", "from pflbench.sweep.scheduler import Sweep", False),
        ("tune", "pflbench", "from pflbench import experiment, records, space", False),
        ("tune", "pflbench", "from pflbench import cli_tune", True),
        ("tune", "pflbench", "from pflbench.report import numbers", True),
        ("sweep", "pflbench", "from pflbench import tune", True),
        ("space", "pflbench", "from pflbench import tune", True),
        ("launch", "pflbench.sweep.launchers", "from pflbench.sweep.scheduler import Sweep", True),
        ("launch", "pflbench.sweep.launchers", "from ..sweep import Sweep", True),
        (
            "launch",
            "pflbench.sweep.launchers",
            "from .task import Task\nfrom pflbench import rounds",
            False,
        ),
        ("sweep", "pflbench", "from pflbench.sweep.launchers.task import Task", False),
        ("rounds", "pflbench", "from pflbench.sweep.launchers.task import Task", True),
        ("rounds", "pflbench", "from pflbench import estimate", True),
        ("estimate", "pflbench", "from pflbench import rounds", False),
        ("estimate", "pflbench", "from pflbench.sweep.scheduler import Sweep", True),
        ("ledger", "pflbench", "from pflbench.sweep.scheduler import Sweep", True),
        ("plan", "pflbench", "from pflbench.simulation.runner import execute", True),
        ("standing", "pflbench", "from pflbench import board", True),
        ("experiment", "pflbench", "from pflbench.sweep.launchers.local import Local", True),
        ("experiment", "pflbench", "from pflbench import cli_sweep", True),
        ("experiment", "pflbench", "from pflbench import config, plan, registry", False),
        (
            "report",
            "pflbench.report",
            "from pflbench import ledger, plan, records, standing",
            False,
        ),
        ("report", "pflbench.report", "from pflbench.sweep.scheduler import Sweep", True),
        ("report", "pflbench.report", "from pflbench.sweep.launchers.task import Task", True),
        ("report", "pflbench.report", "from pflbench import estimate", True),
        ("cli", "pflbench", "from pflbench import cli_run, report, sweep, testing", False),
        (
            "cli_sweep",
            "pflbench",
            "from pflbench import board, estimate, experiment, plan, standing, sweep",
            False,
        ),
        ("console", "pflbench", "from pflbench import cli", True),
    ],
)
def test_an_import_against_the_direction_is_found(module: str, package: str, line: str, bad: bool):
    assert bool(core_violations(module, line, package)) is bad


def test_the_command_line_starts_without_heavy_packages():
    modules = "pflbench.cli.main, pflbench.records.leases, pflbench.records.plan, pflbench.records.status"  # the last three: `pflbench status`
    code = f"import sys, {modules}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
