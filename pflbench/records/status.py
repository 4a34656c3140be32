"""The state of planned runs, read from their folders."""

import contextlib
import functools
import json
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pflbench.config import read_run
from pflbench.errors import UserError
from pflbench.records import run_folder, schema
from pflbench.records.leases import FINAL, Leases
from pflbench.records.plan import Planned
from pflbench.records.verification import DAMAGED, ENDED, how_it_ended

OUTDATED = "outdated"
STATES = (*ENDED, OUTDATED, DAMAGED, "running", "missing")
TAILS = (1 << 18, 1 << 23)  # bytes at the end of a file to look at: first few, then more
RUN_ID = re.compile(r"(.+-[0-9a-f]{10})-(r\d+|[0-9a-f]{10})")  # all but the version, the version


@dataclass(frozen=True)
class RunState:
    """A planned run: the state of its records, and where they are.

    Where the planned version of the method has no records, those of another version that has ended
    stand for it: then `folder` and `version` are theirs, and `outdated` is true. It is also true
    where the planned version is not the current one any more.
    """

    planned: Planned
    state: str  # finished, diverged, failed, damaged, running, missing
    folder: Path
    version: str = ""  # of the method's code that the records come from
    current: str = ""  # of the method's code now, as far as it is known
    outdated: bool = False
    reason: str = ""
    owner: str = ""  # the process that is running it

    @property
    def label(self) -> str:
        """The state for a person: of STATES."""
        return OUTDATED if self.outdated else self.state

    @property
    def left_out(self) -> bool:
        """Whether its records do not count, since other seeds have records of a newer version; see
        `one_version`.
        """
        return self.outdated and self.state == "missing"


@dataclass(frozen=True)
class RunStatus(RunState):
    """The same with the rounds that the run has behind it, and what they cost."""

    round: int = 0
    seconds: float | None = None  # per round
    accuracy: float | None = None  # mean over clients, of the newest evaluation
    evaluated: int = 0  # the round of that evaluation
    point: str = ""

    @property
    def rounds(self) -> int:
        """The rounds of the whole run."""
        return self.planned.run.rounds


@dataclass
class StatusReader:
    """Reads the states of the runs of a folder; which runs and leases there are is looked up at the
    start.

    `current` tells the version of a plugin's code now, "" where it is unknown
    (`pflbench.methods.versions.current`).
    """

    leases: Leases
    current: Callable[[str], str]
    held: dict[str, Path] = field(init=False)
    versions: dict[str, list[Path]] = field(init=False)

    def __post_init__(self) -> None:
        self.held = self.leases.leases()
        self.versions = _versions(self.leases.folder)
        self.current = functools.cache(self.current)

    def refresh(self) -> None:
        """Look up the leases again."""
        self.held = self.leases.leases()

    def state(self, planned: Planned) -> RunState:
        """The state of a run."""
        found = self._planned_version(planned)
        if found.state == "missing" and not (found.folder / "run.json").exists():
            found = self._other_version(found) or found
        return found

    def status(self, planned: Planned) -> RunStatus:
        """The state of a run and how far it is."""
        found = self.state(planned)
        if found.state == DAMAGED:
            return RunStatus(**vars(found))
        timing = _last(found.folder / "timing.jsonl")
        record = _last(found.folder / "rounds.jsonl", b'"accuracy"')
        about = run_folder.read_or_nothing(found.folder / "run.json") if record else {}
        point = about["method"]["evaluation_point"] if about else ""
        known = [score for score in record.get("accuracy", {}).get(point, []) if score is not None]
        return RunStatus(
            **vars(found),
            round=timing.get("round", 0),
            seconds=timing.get("wall"),
            accuracy=sum(known) / len(known) if known else None,
            evaluated=record.get("round", 0),
            point=point,
        )

    def unplanned(self, planned: Iterable[Planned]) -> list[RunState]:
        """The runs of the folder that are no version of any of these: of each the current version,
        else the newest.
        """
        known = {stem_of(run.id) for run in planned}
        found = []
        for stem, folders in sorted(self.versions.items()):
            if stem not in known:
                states = [state for folder in folders if (state := self._described(folder))]
                found += ([one for one in states if not one.outdated] or states)[-1:]
        return found

    def _described(self, folder: Path) -> RunState | None:
        """The state of a run by its folder; None, and a warning, if nothing says what it is."""
        try:
            return self.single(folder)
        except UserError as error:
            warnings.warn(f"{error}; it is left out", stacklevel=2)
            return None

    def single(self, folder: Path) -> RunState:
        """The state of a run by its folder, whatever plans there are."""
        about = run_folder.read_json(folder / "run.json")
        if not about:
            raise UserError(f"{folder} holds no run (there is no run.json in it)")
        run = read_run(about["config"])
        scenario = f"{run.dataset} {run.partition}"
        return self._planned_version(Planned(folder.name, run.algorithm, scenario, "", run))

    def other_versions(self, id: str) -> list[Path]:
        """The folders of the same run with other versions of the method, the newest last."""
        return [folder for folder in self.versions.get(stem_of(id), []) if folder.name != id]

    def _planned_version(self, planned: Planned) -> RunState:
        folder = self.leases.folder / planned.id
        state, reason = how_it_ended(folder)
        owner = ""
        if state not in FINAL and planned.id in self.held:
            lease = self.held[planned.id]
            if not self.leases.abandoned(lease):
                state, owner = "running", self.leases.owner(lease)
        current = self.current(planned.plugin) or planned.version
        return RunState(
            planned,
            state,
            folder,
            planned.version,
            current,
            state in FINAL and current != planned.version,
            reason if state in ("failed", "diverged", DAMAGED) else "",
            owner,
        )

    def _other_version(self, missing: RunState) -> RunState | None:
        """The newest other version of a run that has ended."""
        for folder in reversed(self.other_versions(missing.planned.id)):
            state, reason = how_it_ended(folder)
            if state in FINAL:
                return replace(
                    missing,
                    state=state,
                    folder=folder,
                    version=version_of(folder.name),
                    outdated=True,
                    reason=reason,
                )
        return None


def one_version(runs: Sequence[RunState]) -> list[RunState]:
    """The same runs; of those that differ in the seed only, all that have ended are of one version
    of the method.

    That is the one that is not outdated, else the newest. Runs of other versions are left out.
    """
    cells: dict[str, list[RunState]] = {}
    for run in runs:
        if run.state in FINAL:
            cells.setdefault(_cell(run.planned), []).append(run)
    kept = {}
    for cell, ended in cells.items():
        current = [run for run in ended if not run.outdated]
        kept[cell] = max(current or ended, key=lambda run: _written(run.folder)).version
    return [_of_version(run, kept.get(_cell(run.planned), "")) for run in runs]


class Versioned(Protocol):
    """Anything that is known to be outdated or not."""

    @property
    def planned(self) -> Planned: ...
    @property
    def version(self) -> str: ...
    @property
    def current(self) -> str: ...
    @property
    def outdated(self) -> bool: ...


def outdated_methods(runs: Iterable[Versioned]) -> list[str]:
    """A line for every method of outdated runs: "fedavg: 3 runs are of version r1, it is now
    r2".
    """
    found: dict[str, dict[str, Versioned]] = {}
    for run in runs:
        if run.outdated:
            found.setdefault(run.planned.run.algorithm, {})[run.planned.id] = run
    lines = []
    for method, members in found.items():
        number = f"{len(members)} runs are" if len(members) > 1 else "1 run is"
        versions = " and ".join(sorted({run.version or "unknown" for run in members.values()}))
        current = max(run.current for run in members.values())
        lines.append(f"{method}: {number} of version {versions}, it is now {current}")
    return lines


def stem_of(id: str) -> str:
    """The id of a run without the version."""
    match = RUN_ID.fullmatch(id)
    return match[1] if match else id


def version_of(id: str) -> str:
    """The version in the id of a run; "" where it has none."""
    match = RUN_ID.fullmatch(id)
    return match[2] if match else ""


def _versions(folder: Path) -> dict[str, list[Path]]:
    """The folders of all versions of every run, by their common name; the newest last."""
    found: dict[str, list[Path]] = {}
    for path in folder.glob("*/run.json"):
        found.setdefault(stem_of(path.parent.name), []).append(path.parent)
    for folders in found.values():
        folders.sort(key=_written)
    return found


def _written(folder: Path) -> float:
    """When a run ended; 0 where it has not."""
    try:
        return (folder / "status.json").stat().st_mtime
    except OSError:
        return 0.0


def _cell(planned: Planned) -> str:
    """What runs have in common that differ in the seed only."""
    apart = ("seed", "version")
    same = {name: value for name, value in planned.config.items() if name not in apart}
    return json.dumps([planned.scenario, planned.variant, same], sort_keys=True, default=str)


def _of_version(run: RunState, version: str) -> RunState:
    if run.state not in FINAL or run.version == version:
        return run
    return replace(run, state="missing", outdated=True, reason="")


def _last(path: Path, word: bytes = b"") -> dict[str, Any]:
    """The last whole line of a file of JSON lines that has this word; empty if there is none near
    the end.
    """
    for reach in TAILS:
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - reach))
                tail = file.read()
        except OSError:
            return {}
        for line in reversed(tail.splitlines(keepends=True)):
            if line.endswith(b"\n") and word in line:
                with contextlib.suppress(ValueError, UserError):  # of a line that is not whole
                    return schema.line(line, path.name)
        if size <= reach:
            break
    return {}
