"""Made-up runs in memory: in a plan, and as the numbers that a report shows. Nothing is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pflbench.config import Run, read_run
from pflbench.methods import hyperparameters, registry
from pflbench.methods.files import plain
from pflbench.papers import papers
from pflbench.records import report_options
from pflbench.records.plan import Plan, Planned
from pflbench.report.grouping.layout import Layout, lay_out
from pflbench.report.load.runs import Experiment, Numbers
from pflbench.report.render.parts import TablePart

TITLES = {plain(title): title for title in papers()[0].methods} | {"mine": "Mine"}
PAPER = {"style": "fedcosr", "std": "clients", "published": ["fedcosr"]}
Counts = Sequence[Mapping[str, int]]  # for every client: class -> samples
Values = Sequence[float] | npt.NDArray[np.float64]


def in_plan(run: Run, scenario: str | None = None, variant: str = "", id: str = "") -> Planned:
    """A run in its place of an experiment; `scenario` is its data set and partition, unless given."""
    words = f"{run.dataset} {run.partition}" if scenario is None else scenario
    return Planned(id or run.id, run.algorithm, words, variant, run)


def planned(
    method: str = "fedavg",
    *,
    scenario: str | None = None,
    variant: str = "",
    id: str = "",
    **config: Any,
) -> Planned:
    """A run with this configuration in a plan; its hyperparameters are only those of `config`."""
    return in_plan(read_run({"algorithm": method, **config}), scenario, variant, id)


def about_run(
    config: Mapping[str, Any],
    clients: int,
    *,
    scale: str | None = "paper",
    title: str = "",
    point: str = "pre",
    one_shot: bool = False,
    costs: tuple[str, str] = ("theta", "theta + 1"),
    data: str = "Digits",
    classes: int = 10,
    digest: str = "d",
    n_train: Sequence[int] | None = None,
    n_test: Sequence[int] | None = None,
    counts: tuple[Counts, Counts] | None = None,
    cores: int = 2,
) -> dict[str, Any]:
    """The content of run.json, but for the run's id.

    `digest` is the partition's, and `counts` are samples by class for training and for testing.
    """
    odd = [2 * client + 1 for client in range(clients)]
    by_class = dict(zip(("train_classes", "test_classes"), counts or (), strict=False))
    sizes = {"n_train": list(n_train or odd), "n_test": list(n_test or odd)}
    name = str(config["algorithm"])
    down, up = costs
    return {
        "config": config,
        "scale": scale,
        "method": {
            "title": title or TITLES.get(name, name),
            "family": "Standard",
            "evaluated_model": "the personal model",
            "defaults": _defaults(name, str(config["dataset"])),
            "evaluation_point": point,
            "one_shot": one_shot,
            "costs": {"down": down, "up": up},
        },
        "data": {"title": data, "digest": "0123456789abcdef", "classes": classes},
        "partition": {"digest": digest, **sizes, **by_class},
        **made_with(cores),
    }


def _defaults(method: str, dataset: str) -> dict[str, Any]:
    """The default hyperparameters of a method that ships; of another, none are known."""
    if method not in registry.names():
        return {}
    return hyperparameters.defaults(registry.hparams_type(registry.load(method)), dataset)


def made_with(cores: int = 2) -> dict[str, dict[str, Any]]:
    """Code, packages and machine, as run.json has them."""
    packages = {"pflbench": "0.1.0", "torch": "2.4.0", "numpy": "2.0.0", "scipy": "1.14.0"}
    machine = {"system": "Linux", "processor": "x86_64", "cores": cores}
    return {
        "code": {"commit": "0" * 40, "changed": False},
        "versions": {"python": "3.11.0", **packages},
        "machine": {**machine, "device": "cpu", "workers": 1},
    }


def run(
    method: str = "fedavg",
    accuracies: Values = (0.5, 1.0),
    *,
    seed: int = 0,
    status: str = "finished",
    words: str | None = None,
    variant: str = "",
    id: str = "",
    folder: Path | None = None,
    curves: Mapping[str, Values] | None = None,
    first: int = 1,
    loss: Values = (),
    sent: Mapping[str, Values] | None = None,
    seconds: Mapping[str, Values] | None = None,
    notes: Sequence[str] = (),
    version: str = "",
    outdated: bool = False,
    about: Mapping[str, Any] | None = None,
    **config: Any,
) -> Numbers:
    """A run as `collect` gives it; one that is missing has not started. `accuracies` are those of
    its clients.

    `words` is the scenario in the plan's words, `curves` are evaluated from the round `first` on,
    `about` are options of `about_run`, and `config` are fields of the run's configuration.
    """
    described = read_run({"algorithm": method, "seed": seed, **config})
    values = (method, words, variant, seed, version, *config.values())
    there = in_plan(described, words, variant, id or "-".join(map(str, values)))
    place = folder or Path(there.id)
    if status == "missing" and not outdated:
        return Numbers(there, place, status)
    said = about_run(there.config, len(accuracies), **(about or {}))
    point = said["method"]["evaluation_point"]
    found = {point: [float(np.nanmean(accuracies))]} if curves is None else curves
    last = first + len(next(iter(found.values()))) - 1
    return Numbers(
        there,
        place,
        status,
        "it broke" if status in ("failed", "diverged") else "",
        said,
        point,
        evaluated=np.arange(first, last + 1, dtype=float),
        curves=_arrays(found),
        clients=np.array(accuracies, dtype=float),
        chosen=float(last),
        loss=np.array(loss, dtype=float),
        sent=_arrays(sent or {}),
        seconds=_arrays(seconds or {}),
        notes=tuple(notes),
        version=version,
        outdated=outdated,
    )


def _arrays(series: Mapping[str, Values]) -> dict[str, npt.NDArray[np.float64]]:
    return {name: np.array(values, dtype=float) for name, values in series.items()}


def experiment(
    *runs: Numbers,
    name: str = "trial",
    title: str = "A trial",
    scale: str = "paper",
    command: str = "",
    report: Mapping[str, Any] = PAPER,
) -> Experiment:
    """An experiment whose report has these options, by default those of the FedCoSR paper's
    experiments.
    """
    planned = tuple(one.planned for one in runs)
    options = report_options.read(report, "the test")
    return Experiment(Plan(name, title, scale, command, planned, options), runs)


def layout(*runs: Numbers, proposed: str | None = None, **plan: Any) -> Layout:
    report = {**plan.pop("report", PAPER), "proposed": proposed or ""}
    made = experiment(*runs, report=report, **plan)
    return lay_out(made, [made])


def only(parts: Sequence[TablePart], name: str) -> TablePart:
    """The part of this name."""
    (part,) = [part for part in parts if part.name == name]
    return part


def by_method(part: TablePart) -> dict[str, dict[str, str]]:
    """The cells of a table's rows by their headers, by method."""
    place = part.headers.index("Method")
    return {row[place]: dict(zip(part.headers, row, strict=True)) for row in part.rows}
