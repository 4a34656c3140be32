"""What a report is made from: every planned run of a folder with the numbers that tables and figures show.

Files only are read, each once, and what is not shown is not kept: a run of 200 rounds and 100 clients takes kilobytes.
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
from pflbench.records import plan, run_folder
from pflbench.records.leases import Leases
from pflbench.records.plan import Plan, Planned
from pflbench.records.status import look
from pflbench.report.load.parallel import each

Floats = npt.NDArray[np.float64]
ROUNDS = ("last", "last10", "best", "validation")
OTHERS = "runs"  # the name of what no plan speaks of
FEW = 50  # runs that are read sooner than processes start that would help


@dataclass(frozen=True)
class Choice:
    """Which of a run's numbers a report shows."""

    round: Literal["last", "last10", "best", "validation"] = "last"
    point: Literal["pre", "post"] | None = None  # None: each method at its own
    std: Literal["clients", "seeds"] = "clients"
    weighted: bool = False  # the mean over clients by the samples that they are scored on
    decimals: int = 2


@dataclass(frozen=True)
class Numbers:
    """A run. Accuracies are fractions; a client without test samples has none (nan)."""

    planned: Planned
    folder: Path
    status: str  # done, diverged, failed, running, missing (begun or not)
    reason: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)  # run.json
    point: str = ""
    evaluated: Floats = field(
        default_factory=lambda: np.zeros(0)
    )  # (E,) rounds that were evaluated
    curves: Mapping[str, Floats] = field(default_factory=dict)  # series -> (E,) mean over clients
    clients: Floats = field(
        default_factory=lambda: np.zeros(0)
    )  # (N,) at the chosen round and point
    chosen: float = float("nan")  # the chosen round; of the mean of several the last
    loss: Floats = field(default_factory=lambda: np.zeros(0))  # (R,) of every round from 1
    sent: Mapping[str, Floats] = field(
        default_factory=dict
    )  # "down theta" -> (R,) bytes, for a client of the cohort
    seconds: Mapping[str, Floats] = field(
        default_factory=dict
    )  # "wall" -> (R,), "client" summed over clients

    @property
    def method(self) -> str:
        """The method's title, or its name where it has not begun."""
        return str(self.about.get("method", {}).get("title", self.planned.config["algorithm"]))

    @property
    def has_numbers(self) -> bool:
        """Whether a table may show its accuracy: the run is done and was evaluated."""
        return self.status == "finished" and self.clients.size > 0

    def sizes(self, part: str) -> Floats:
        """Samples of every client: part is train, test or validation."""
        return np.asarray(self.about["partition"][f"n_{part}"], dtype=float)

    def majority(self) -> Floats:
        """Accuracy of every client that always answers its most frequent training label; empty where it is unknown."""
        counts = [
            self.about.get("partition", {}).get(f"{part}_classes", []) for part in ("train", "test")
        ]
        return np.array(
            [np.nan if share is None else share for share in class_counts.majority(*counts)],
            dtype=float,
        )


@dataclass(frozen=True)
class Experiment:
    """A plan with the numbers of its runs, in the plan's order; runs that no plan speaks of are one of their own."""

    plan: Plan
    runs: tuple[Numbers, ...]


def collect(folder: Path, choice: Choice) -> list[Experiment]:
    """All experiments of a folder."""
    if not folder.is_dir():
        raise UserError(f"no runs in {folder}: there is no such folder")
    ledger, plans = Leases(folder), plan.read(folder)
    leases = ledger.leases()

    def one_of(planned: Planned) -> Numbers:
        return read(folder / planned.id, planned, look(ledger, planned, leases).state, choice)

    wanted = {planned.id: planned for one in plans for planned in one.runs}
    known = dict(zip(wanted, each(one_of, list(wanted.values()), few=FEW), strict=True))
    found = []
    for one in plans:
        runs = tuple(
            dataclasses.replace(known[planned.id], planned=planned) for planned in one.runs
        )
        found.append(Experiment(one, runs))
    others = [
        path.parent for path in sorted(folder.glob("*/run.json")) if path.parent.name not in known
    ]
    if (folder / "run.json").exists():
        others.append(folder)
    strays = tuple(each(lambda path: stray(path, choice), others, few=FEW))
    if strays:
        found.append(
            Experiment(
                Plan(OTHERS, "Single runs", "", "", tuple(run.planned for run in strays)), strays
            )
        )
    if not found:
        raise UserError(
            f"no runs in {folder}: it has no plans, and none of its folders has a run.json"
        )
    return found


def stray(folder: Path, choice: Choice) -> Numbers:
    """A run that no plan speaks of."""
    about = run_folder.read_json(folder / "run.json")
    config = about.get("config")
    if not isinstance(config, dict):
        raise UserError(f"{folder}/run.json is not the description of a run")
    status = str(run_folder.read_json(folder / "status.json").get("status", "missing"))
    planned = Planned(
        folder.name, config["algorithm"], f"{config['dataset']} {config['partition']}", "", config
    )
    return read(folder, planned, status, choice)


def read(folder: Path, planned: Planned, status: str, choice: Choice) -> Numbers:
    """A run's numbers; `status` is how it stands."""
    about = run_folder.read_json(folder / "run.json")
    reason = str(run_folder.read_json(folder / "status.json").get("reason", ""))
    if not about:
        return Numbers(planned, folder, status, reason)
    lines = run_folder.rounds(folder)
    timing = [line for line in run_folder.rounds(folder, "timing.jsonl") if line["round"] > 0]
    scored = [line for line in lines if "accuracy" in line]
    tables = _tables(scored)
    point = choice.point or str(about["method"]["evaluation_point"])
    curves = {
        series: mean(table, _weights(about, series, choice)) for series, table in tables.items()
    }
    rows, chosen = _rows(choice.round, curves, point)
    evaluated = np.array([line["round"] for line in scored], dtype=float)
    played = [line for line in lines if line["round"] > 0]
    return Numbers(
        planned,
        folder,
        status,
        reason,
        about,
        point,
        evaluated,
        curves,
        np.asarray(tables[point][rows].mean(0)) if len(rows) else np.zeros(0),
        evaluated[chosen] if len(rows) else float("nan"),
        np.array([line.get("loss") for line in played], dtype=float),
        _sent(played),
        {
            name: np.array([line[name] for line in timing])
            for name in (timing[0] if timing else ())
            if name != "round"
        },
    )


def mean(table: Floats, weights: Floats | None = None) -> Floats:
    """The mean over clients (the last axis) that have a value, by samples where weights are given."""
    known = np.isfinite(table)
    shares = known * (1.0 if weights is None else weights)
    total: Floats = np.where(known, table, 0.0) * shares
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = total.sum(-1) / shares.sum(-1)
    return means


def _weights(about: Mapping[str, Any], series: str, choice: Choice) -> Floats | None:
    """The samples of every client that a series is measured on; None where clients count alike."""
    part = "validation" if series.endswith("_validation") else "test"
    return np.asarray(about["partition"][f"n_{part}"], dtype=float) if choice.weighted else None


def _tables(scored: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """series -> (E, clients); rounds at which a series was not there are nan."""
    names = sorted({series for line in scored for series in line["accuracy"]})
    empty = [None] * max(
        (len(values) for line in scored for values in line["accuracy"].values()), default=0
    )
    return {
        name: np.array([line["accuracy"].get(name, empty) for line in scored], dtype=float)
        for name in names
    }


def _rows(how: str, curves: Mapping[str, Floats], point: str) -> tuple[list[int], int]:
    """The evaluations that a choice averages, and the one that it is named by; none where there is no number."""
    series = f"{point}_validation" if how == "validation" else point
    known = np.flatnonzero(np.isfinite(curves.get(series, np.zeros(0))))
    if point not in curves or not known.size:
        return [], -1
    if how in ("best", "validation"):
        best = int(known[np.argmax(curves[series][known])])
        return [best], best
    last = known[-10:] if how == "last10" else known[-1:]
    return [int(row) for row in last], int(known[-1])


def _sent(played: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """For a client of the cohort, by direction and part: "down theta" -> (R,)."""
    names = sorted(
        {(way, part) for line in played for way, parts in line["bytes"].items() for part in parts}
    )
    return {
        f"{way} {part}": np.array(
            [
                line["bytes"].get(way, {}).get(part, 0) / max(len(line["cohort"]), 1)
                for line in played
            ]
        )
        for way, part in names
    }
