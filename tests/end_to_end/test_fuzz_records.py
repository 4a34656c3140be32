"""Folders of results in which a machine has changed something: a value of another type, a name that
is missing, more, or nested, in any file; with checksums that fit again, so that nothing else finds
it, or without.

Whatever it is, a command ends with a known exit code and no traceback, and the other runs of the
folder are answered for.
"""

import copy
import functools
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import pflbench
from pflbench.errors import UserError
from pflbench.records import integrity
from tests.end_to_end import commands
from tests.end_to_end.test_fuzz import answered, folder_of_its_own, fuzzed, json_values

GRID = ["--algorithms", "fedavg,fedper", "--datasets", commands.TOY[1], *commands.TOY[2:]]
SWEEP = ["sweep", *GRID, "--clients", "4", "--rounds", "2", "--name", "mine", "--quiet"]
SWEEP += ["--jobs", "1", "--out", "runs", "--data-root", os.environ.get("PFLBENCH_DATA", "data")]
KINDS = ["run.json", "status.json", "rounds.jsonl", "timing.jsonl", "plan", "lease", "attempts"]
OWNER = {"host": "elsewhere", "pid": 7, "started": "1", "space": "s"}


@functools.cache
def swept() -> Path:
    """A folder of two finished runs and a lease, made once."""
    import tempfile

    place = Path(tempfile.mkdtemp())
    before = Path.cwd()
    os.chdir(place)
    try:
        commands.done(*SWEEP)
        (run,) = Path("runs").glob("fedavg-*")
        lease = json.dumps({"token": "t", "owner": OWNER, "time": 0})
        Path("runs", "leases", f"{run.name}.000001").write_text(lease)
    finally:
        os.chdir(before)
    return place


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a value, but for the whole."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, part in inner:
        yield (*path, name)
        if isinstance(part, dict | list):
            yield from places(part, (*path, name))


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, str, Any]:
    """Which of all places of a file is changed, how, and with what value."""
    how = draw(st.sampled_from(["replace", "replace", "remove", "add", "nest"]))
    return draw(st.integers(0, 10_000)), how, draw(json_values)


def changed(content: Any, change: tuple[int, str, Any]) -> Any:
    """The same content with this change."""
    place, how, value = change
    whole = {"whole": copy.deepcopy(content)}
    paths = list(places(whole))
    *way, last = paths[place % len(paths)]
    inside: Any = functools.reduce(lambda part, name: part[name], way, whole)
    if how == "remove" and len(way) > 0:
        del inside[last]
    elif how == "add" and isinstance(inside[last], dict):
        inside[last]["x"] = value
    elif how == "nest":
        inside[last] = [inside[last]] if place % 2 else {"x": inside[last]}
    else:
        inside[last] = value
    return whole["whole"]


def file_of(kind: str) -> Path:
    """The file of this kind of the run of FedAvg, or of the folder."""
    folder = Path("runs")
    if kind == "plan":
        return folder / "plans" / "mine.json"
    if kind == "lease":
        return next((folder / "leases").iterdir())
    (run,) = folder.glob("fedavg-*")
    return run / ("attempts.jsonl" if kind == "attempts" else kind)


def change_file(kind: str, change: tuple[int, str, Any], fitting: bool) -> None:
    """Change a file; `fitting`: the checksums of its run are made to fit."""
    path = file_of(kind)
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        place = change[0] % len(lines)
        lines[place] = changed(lines[place], change)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        path.write_text(json.dumps(changed(json.loads(path.read_text()), change)))
    if fitting and kind in (*integrity.LINES, "run.json"):
        status = json.loads((path.parent / "status.json").read_text())
        status["records"] = integrity.sums(path.parent)
        (path.parent / "status.json").write_text(json.dumps(status))


kinds = st.sampled_from(KINDS)


def fuzzed_folder(kind: str, change: tuple[int, str, Any], fitting: bool, ended: bool) -> None:
    """Copy the folder and change it; not `ended`: the run has not said that it has."""
    shutil.copytree(swept() / "runs", "runs", copy_function=os.link)
    for path in Path("runs").rglob("*"):  # links are quick; what is changed is made a copy
        if path.is_file():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)
    change_file(kind, change, fitting)
    if not ended and kind != "status.json":
        (file_of("run.json").parent / "status.json").unlink()


case = (kinds, changes(), st.booleans(), st.booleans())


@fuzzed(12)
@given(*case)
def test_a_report(kind: str, change: tuple[int, str, Any], fitting: bool, ended: bool):
    with folder_of_its_own():
        fuzzed_folder(kind, change, fitting, ended)
        answered("report", "runs", "--only", "tables")


@fuzzed(2)
@given(*case)
def test_a_report_with_figures(kind: str, change: tuple[int, str, Any], fitting: bool, ended: bool):
    with folder_of_its_own():
        fuzzed_folder(kind, change, fitting, ended)
        answered("report", "runs")


@fuzzed(100)
@given(st.sampled_from(["status", "status --json", "verify", "archive", "export"]), *case)
def test_a_command_that_reads(
    command: str, kind: str, change: tuple[int, str, Any], fitting: bool, ended: bool
):
    with folder_of_its_own():
        fuzzed_folder(kind, change, fitting, ended)
        to = ["--to", "tensorboard=there"] if command == "export" else []
        answered(*command.split(), "runs", *to)


@fuzzed(60)
@given(*case)
def test_python(kind: str, change: tuple[int, str, Any], fitting: bool, ended: bool):
    with folder_of_its_own():
        fuzzed_folder(kind, change, fitting, ended)
        try:
            run = pflbench.load(file_of("run.json").parent)
        except UserError:
            return
        for frame in ("rounds", "clients", "timing", "communication", "logs", "notes"):
            getattr(run, frame)
        assert run.hyperparameters is not None and repr(run)


@fuzzed(5)
@given(*case)
def test_a_sweep_goes_on(kind: str, change: tuple[int, str, Any], fitting: bool, ended: bool):
    with folder_of_its_own():
        fuzzed_folder(kind, change, fitting, ended)
        shutil.rmtree("runs/leases")  # whose owner would be waited for
        answered(*SWEEP)


@fuzzed(20)
@given(st.sampled_from([*KINDS[:4], "plan"]), changes(), st.booleans())
def test_an_archive(kind: str, change: tuple[int, str, Any], fitting: bool):
    with folder_of_its_own():
        fuzzed_folder(kind, change, fitting, ended=True)
        with tarfile.open("mine.tar.xz", "w:xz", preset=0) as archive:
            for path in sorted(Path("runs").rglob("*")):
                if (
                    path.is_file()
                    and path.parent.name != "leases"
                    and path.name != "attempts.jsonl"
                ):
                    archive.add(path, path.relative_to("runs").as_posix())
        answered("status", "mine.tar.xz")
        answered("verify", "mine.tar.xz")
        assert answered("unpack", "mine.tar.xz") == 0
