"""What must agree before a release: versions, and what hosted CI installs."""

import re
import tomllib
from pathlib import Path

import pflbench

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")


def test_one_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [PROJECT["version"]]
    assert pflbench.__version__ == PROJECT["version"]


def test_ci_runs_the_python_versions_that_are_declared():
    (listed,) = re.findall(r"python: \[(.+)\]", WORKFLOW)
    declared = [line.split(" :: ")[-1] for line in PROJECT["classifiers"]]
    assert re.findall(r"\d+\.\d+", listed) == [line for line in declared if "." in line]
    assert PROJECT["requires-python"] == f">={re.findall(r'[0-9.]+', listed)[0]}"


def test_ci_calls_targets_that_make_has():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = re.findall(r"run: make (\w+)", WORKFLOW)
    assert called == ["lint", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in called)


def test_the_lowest_versions_are_those_of_the_ranges():
    extras = PROJECT["optional-dependencies"]
    ranges = [
        *PROJECT["dependencies"],
        *(one for name in extras if name not in ("dev", "docs") for one in extras[name]),
    ]
    declared = dict(line.split(">=") for line in ranges)
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    assert sorted(pinned) == sorted(declared)
    for name, lowest in declared.items():
        assert re.fullmatch(rf"{re.escape(lowest)}(\.0)*", pinned[name]), name
