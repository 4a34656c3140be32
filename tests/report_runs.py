"""Made-up runs for tests of reports, as `collect` gives them; nothing is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pflbench.config import read_run
from pflbench.methods.files import plain
from pflbench.papers import papers
from pflbench.records.plan import Plan, Planned
from pflbench.report.grouping.layout import Layout, lay_out
from pflbench.report.load.runs import Experiment, Numbers
from pflbench.report.render.parts import TablePart

TITLES = {plain(title): title for title in papers()[0].methods} | {"mine": "Mine"}


def run(
    algorithm: str = "fedavg",
    accuracies: Sequence[float] = (0.5, 1.0),
    *,
    seed: int = 0,
    status: str = "finished",
    words: str | None = None,
    variant: str = "",
    curves: Mapping[str, Sequence[float]] | None = None,
    first: int = 1,
    sent: Mapping[str, Sequence[float]] | None = None,
    seconds: Mapping[str, Sequence[float]] | None = None,
    notes: Sequence[str] = (),
    version: str = "",
    outdated: bool = False,
    about: Mapping[str, Any] | None = None,
    **config: Any,
) -> Numbers:
    """A run; one that is missing has not started. `accuracies` are those of its clients.

    `words` is the scenario in the plan's words, `curves` are evaluated from the round `first` on,
    `about` are options of `about_run`, and `config` are fields of the run's configuration.
    """
    described = read_run({"algorithm": algorithm, "seed": seed, **config})
    scenario = f"{described.dataset} {described.partition}" if words is None else words
    values = (algorithm, scenario, variant, seed, version, *config.values())
    planned = Planned("-".join(map(str, values)), algorithm, scenario, variant, described)
    if status == "missing" and not outdated:
        return Numbers(planned, Path(planned.id), status)
    options = {"title": TITLES.get(algorithm, algorithm), "clients": len(accuracies)}
    said = about_run(**{**options, **(about or {})})
    point = said["method"]["evaluation_point"]
    found = {point: [float(np.nanmean(accuracies))]} if curves is None else curves
    length = len(next(iter(found.values())))
    return Numbers(
        planned,
        Path(planned.id),
        status,
        "it broke" if status in ("failed", "diverged") else "",
        said,
        point,
        evaluated=np.arange(first, first + length, dtype=float),
        curves={name: np.array(values, dtype=float) for name, values in found.items()},
        clients=np.array(accuracies, dtype=float),
        sent={name: np.array(sizes, dtype=float) for name, sizes in (sent or {}).items()},
        seconds={name: np.array(values, dtype=float) for name, values in (seconds or {}).items()},
        notes=tuple(notes),
        version=version,
        outdated=outdated,
    )


def about_run(
    title: str,
    clients: int,
    data: str = "Digits",
    point: str = "pre",
    digest: str = "d",
    counts: Any = None,
    cores: int = 2,
    one_shot: bool = False,
    costs: tuple[str, str] = ("theta", "theta + 1"),
) -> dict[str, Any]:
    """run.json. `counts` are samples by class of every client, for training and for testing."""
    down, up = costs
    method = {"title": title, "evaluation_point": point, "one_shot": one_shot}
    classes = dict(zip(("train_classes", "test_classes"), counts or ([], []), strict=True))
    return {
        "method": {**method, "costs": {"down": down, "up": up}},
        "data": {"title": data},
        "partition": {"digest": digest, "n_test": [1, 3, 5, 7, 9][:clients], **classes},
        "machine": {"cores": cores},
    }


def experiment(*runs: Numbers, name: str = "trial", scale: str = "paper") -> Experiment:
    return Experiment(Plan(name, "A trial", scale, "", tuple(one.planned for one in runs)), runs)


def layout(*runs: Numbers, proposed: str | None = None, **plan: str) -> Layout:
    made = experiment(*runs, **plan)
    return lay_out(made, [made], proposed)


def only(parts: Sequence[TablePart], name: str) -> TablePart:
    """The part of this name."""
    (part,) = [part for part in parts if part.name == name]
    return part


def by_method(part: TablePart) -> dict[str, dict[str, str]]:
    """The cells of a table's rows by their headers, by method."""
    place = part.headers.index("Method")
    return {row[place]: dict(zip(part.headers, row, strict=True)) for row in part.rows}
