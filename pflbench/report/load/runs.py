"""What a report is made from: every planned run of a folder with the numbers that tables and
figures show.

Only files are read, each once, and what is not shown is not kept: a run of 200 rounds and 100
clients takes kilobytes.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pflbench.data import class_counts
from pflbench.errors import UserError
from pflbench.methods import versions
from pflbench.records import plan, run_folder
from pflbench.records.leases import Leases
from pflbench.records.plan import Plan, Planned
from pflbench.records.status import RunState, StatusReader, one_version, stem_of
from pflbench.records.verification import DAMAGED, Damaged, damage, verified
from pflbench.report.load.parallel import each

Floats = npt.NDArray[np.float64]
ROUNDS = ("last", "last10", "best", "validation")
OTHERS = "runs"  # the name of the experiment of all runs that are in no plan
LOGS = {
    "logs": "{}",
    "server": "{} (server)",
    "evaluated": "{} (evaluation)",
}  # of a round's record
FEW = 50  # runs that are read sooner than processes start that would help


@dataclass(frozen=True)
class Choice:
    """Which of a run's numbers a report shows."""

    round: Literal["last", "last10", "best", "validation"] = "last"
    point: Literal["pre", "post"] | None = None  # None: each method at its own
    weighted: bool = False  # the mean over clients by the samples that they are evaluated on


def _none() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True)
class Numbers:
    """A run. Accuracies are fractions; a client without test samples has none (nan)."""

    planned: Planned
    folder: Path
    status: str  # finished, diverged, failed, damaged, running, missing
    reason: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)  # run.json
    point: str = ""
    evaluated: Floats = field(default_factory=_none)  # (E,) evaluated rounds
    curves: Mapping[str, Floats] = field(default_factory=dict)  # series -> (E,) mean over clients
    clients: Floats = field(default_factory=_none)  # (N,) at the chosen round and point
    chosen: float = float("nan")  # the chosen round; of the mean of several the last
    loss: Floats = field(default_factory=_none)  # (R,) of every round from 1
    # "down theta" -> (R,) bytes per client
    sent: Mapping[str, Floats] = field(default_factory=dict)
    seconds: Mapping[str, Floats] = field(default_factory=dict)  # "wall" -> (R,)
    logs: Mapping[str, Floats] = field(default_factory=dict)  # "tau" -> (R,) mean over clients
    notes: tuple[str, ...] = ()  # what the record of the chosen round says is off
    version: str = ""  # of the method's code
    current: str = ""  # of the method's code now
    outdated: bool = False  # the method's code has changed since

    @property
    def method(self) -> str:
        """The method's title, or its name where the run has not started."""
        return str(self.about.get("method", {}).get("title", self.planned.config["algorithm"]))

    @property
    def one_shot(self) -> bool:
        """Whether all messages of the method travel once."""
        return bool(self.about.get("method", {}).get("one_shot", False))

    @property
    def has_numbers(self) -> bool:
        """Whether a table may show its accuracy: the run is finished and was evaluated."""
        return self.status == "finished" and bool(np.isfinite(self.clients).any())

    def traffic(self, way: str) -> float:
        """Bytes that one client of the cohort receives (down) or sends (up): mean per round;
        one-shot: in total.
        """
        parts = [sizes for name, sizes in self.sent.items() if name.startswith(f"{way} ")]
        return float(sum(np.sum(part) if self.one_shot else np.mean(part) for part in parts))

    def sizes(self, part: str) -> Floats:
        """Samples of every client: part is train, test or validation."""
        return np.asarray(self.about["partition"][f"n_{part}"], dtype=float)

    def majority(self) -> Floats:
        """Accuracy of every client that always answers its most frequent training label; empty
        where it is unknown.
        """
        partition = self.about.get("partition", {})
        counts = (partition.get(f"{part}_classes", []) for part in ("train", "test"))
        shares = class_counts.majority(*counts)
        return np.array([np.nan if share is None else share for share in shares], dtype=float)


@dataclass(frozen=True)
class Experiment:
    """A plan with the numbers of its runs, in the plan's order; runs that are in no plan are one of
    their own.
    """

    plan: Plan
    runs: tuple[Numbers, ...]


def collect(folder: Path, choice: Choice) -> list[Experiment]:
    """All experiments of a folder."""
    if not folder.is_dir():
        raise UserError(f"no runs in {folder}: there is no such folder")
    plans = plan.read(folder)
    reader = StatusReader(Leases(folder), versions.current)
    states = [one_version([reader.state(planned) for planned in one.runs]) for one in plans]
    others = one_version(reader.unplanned([run for one in plans for run in one.runs]))
    if (folder / "run.json").exists():
        others.append(_state_of(folder))
    if others:
        plans.append(Plan(OTHERS, "Single runs", "", "", tuple(run.planned for run in others)))
        states.append(others)
    if not plans:
        raise UserError(
            f"no runs in {folder}: it has no plans, and none of its folders has a run.json"
        )
    known = _read_once([state for found in states for state in found], choice)
    return [
        Experiment(one, tuple(_standing(known[state.folder], state) for state in found))
        for one, found in zip(plans, states, strict=True)
    ]


def single_run(folder: Path, choice: Choice) -> Numbers:
    """A run by its folder, whatever plans there are."""
    state = _state_of(folder)
    return _standing(read(folder, state.planned, choice), state)


def chosen_again(run: Numbers, choice: Choice) -> Numbers:
    """A run with another choice of its numbers."""
    if not run.has_numbers:
        return run
    other = read(run.folder, run.planned, choice)
    return dataclasses.replace(
        run,
        point=other.point,
        curves=other.curves,
        clients=other.clients,
        chosen=other.chosen,
        notes=other.notes,
    )


def read(folder: Path, planned: Planned, choice: Choice, status: str = "") -> Numbers:
    """The numbers of a run's files; damaged ones have none."""
    try:
        return _read(folder, planned, choice, status)
    except Damaged as error:
        return Numbers(planned, folder, DAMAGED, str(error))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # lines that no run writes, with checksums that fit
        reason = damage(folder) or f"its records cannot be read ({error})"
        return Numbers(planned, folder, DAMAGED, reason)


def _read(folder: Path, planned: Planned, choice: Choice, status: str) -> Numbers:
    records = verified(folder, quick=True)
    about, lines = records.about, records.rounds
    if not about:
        return Numbers(planned, folder, status)
    if stem_of(about["id"]) != stem_of(planned.id):
        raise Damaged(f"it has the records of {about['id']}")
    evaluations = [line for line in lines if "accuracy" in line]
    after_start = [line for line in lines if line["round"] > 0]
    tables = _tables(evaluations)
    point = choice.point or str(about["method"]["evaluation_point"])
    curves = {name: mean(table, _weights(about, name, choice)) for name, table in tables.items()}
    rows = _chosen_rows(choice.round, curves, point)
    reported = evaluations[rows[-1]] if rows else {}
    return Numbers(
        planned,
        folder,
        status,
        about=about,
        point=point,
        evaluated=np.array([line["round"] for line in evaluations], dtype=float),
        curves=curves,
        clients=np.asarray(tables[point][rows].mean(0)) if rows else _none(),
        chosen=float(reported.get("round", "nan")),
        loss=np.array([line.get("loss") for line in after_start], dtype=float),
        sent=_sent(after_start),
        seconds=_seconds(records.timing),
        logs=_logs(after_start),
        notes=tuple(dict.fromkeys([*map(str, reported.get("notes", ())), *_mixed(folder)])),
    )


def _mixed(folder: Path) -> list[str]:
    """What to note of a run that was resumed on another kind of machine."""
    mixed = "mixed" in run_folder.read_or_nothing(folder / "status.json")
    return ["resumed on another kind of machine, whose last bits may differ"] if mixed else []


def mean(table: Floats, weights: Floats | None = None) -> Floats:
    """The mean over clients (the last axis) that have a value, by weights where there are any."""
    known = np.isfinite(table)
    shares = known * (1.0 if weights is None else weights)
    total: Floats = np.where(known, table, 0.0) * shares
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = total.sum(-1) / shares.sum(-1)
    return means


def _state_of(folder: Path) -> RunState:
    whole = folder.resolve()
    state = StatusReader(Leases(whole.parent), versions.current).single(whole)
    about = run_folder.read_json(whole / "run.json")
    own = dataclasses.replace(state.planned, id=about["id"])  # the folder may have another name
    return dataclasses.replace(state, planned=own)


def _read_once(states: Sequence[RunState], choice: Choice) -> dict[Path, Numbers]:
    """The numbers of every folder, which several experiments may share."""
    wanted = {state.folder: state.planned for state in states}
    found = each(lambda item: read(item[0], item[1], choice), list(wanted.items()), few=FEW)
    return dict(zip(wanted, found, strict=True))


def _standing(run: Numbers, state: RunState) -> Numbers:
    """A run in its place of an experiment, with its state; one that is left out has no numbers."""
    if state.left_out:
        run = Numbers(state.planned, state.folder, state.state)
    damaged = run.status == DAMAGED
    return dataclasses.replace(
        run,
        planned=state.planned,
        status=DAMAGED if damaged else state.state,
        reason=run.reason if damaged else state.reason,
        version=state.version,
        current=state.current,
        outdated=state.outdated,
    )


def _weights(about: Mapping[str, Any], series: str, choice: Choice) -> Floats | None:
    """The samples of every client that a series is measured on; None where all clients count the
    same.
    """
    part = "validation" if series.endswith("_validation") else "test"
    return np.asarray(about["partition"][f"n_{part}"], dtype=float) if choice.weighted else None


def _tables(evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """series -> (E, clients); rounds at which a series was not there are nan."""
    found = [line["accuracy"] for line in evaluations]
    names = sorted({series for accuracy in found for series in accuracy})
    lengths = (len(values) for accuracy in found for values in accuracy.values())
    empty = [None] * max(lengths, default=0)
    return {
        name: np.array([accuracy.get(name, empty) for accuracy in found], dtype=float)
        for name in names
    }


def _chosen_rows(how: str, curves: Mapping[str, Floats], point: str) -> list[int]:
    """The evaluations that a choice averages, the one it is named by last; none where there is no
    number.
    """
    series = f"{point}_validation" if how == "validation" else point
    known = np.flatnonzero(np.isfinite(curves.get(series, _none())))
    if point not in curves or not known.size:
        return []
    if how in ("best", "validation"):
        return [int(known[np.argmax(curves[series][known])])]
    last = known[-10:] if how == "last10" else known[-1:]
    return [int(row) for row in last]


def _sent(lines: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """Bytes per client of the cohort, by direction and part: "down theta" -> (R,)."""
    names = sorted(
        {(way, part) for line in lines for way, parts in line["bytes"].items() for part in parts}
    )
    found = {}
    for way, part in names:
        sizes = [
            line["bytes"].get(way, {}).get(part, 0) / max(len(line["cohort"]), 1) for line in lines
        ]
        found[f"{way} {part}"] = np.array(sizes)
    return found


def _logs(lines: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """What the method logged in every round, by name: means over the clients that logged it; nan in
    rounds in which nobody did.
    """
    found: dict[str, Floats] = {}
    for place, line in enumerate(lines):
        for kind, called in LOGS.items():
            for name, values in line.get(kind, {}).items():
                curve = found.setdefault(called.format(name), np.full(len(lines), np.nan))
                curve[place] = mean(np.array(values, dtype=float, ndmin=1))
    return found


def _seconds(lines: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """Of every round from 1: in all ("wall"), of clients (summed over them), of the server, of
    evaluation.
    """
    timing = [line for line in lines if line["round"] > 0]
    names = [name for name in (timing[0] if timing else ()) if name != "round"]
    return {name: np.array([line.get(name) for line in timing], dtype=float) for name in names}
