"""The runs of a report, small enough to be carried by a page: what the page's script lists and draws."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pflbench.records import run_folder
from pflbench.report.load.runs import Experiment, Floats, Numbers
from pflbench.report.summary import Row, row

POINTS = 100  # of a curve, at most
DIGITS = 4  # of an accuracy, behind the point; of a loss, in all


def embedded(experiments: Iterable[Experiment], weighted: bool = False) -> dict[str, Any]:
    """Every run once, by its id; experiments name theirs. What many runs share (sizes of the clients, versions and
    machine) is there once, and a run has its number.
    """
    runs: dict[str, Any] = {}
    listed = []
    sizes: dict[str, int] = {}
    environments: dict[str, int] = {}
    for experiment in experiments:
        for run in experiment.runs:
            if run.planned.id not in runs:
                shared = {
                    "sizes": _number(sizes, _sizes(run)),
                    "environment": _number(environments, _environment(run)),
                }
                runs[run.planned.id] = {**_run(run, row(run, weighted)), **shared}
        places = [
            [run.planned.id, run.planned.setting, run.planned.variant] for run in experiment.runs
        ]
        listed.append({"name": experiment.plan.name, "runs": places})
    once = {
        "sizes": [json.loads(text) for text in sizes],
        "environments": [json.loads(text) for text in environments],
    }
    return {"experiments": listed, "runs": runs, **once}


def thinned(length: int) -> list[int]:
    """Places of at most POINTS of `length` points, evenly spread, with the first and the last."""
    return (
        np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(int)).tolist()
        if length
        else []
    )


def _run(run: Numbers, row: Row) -> dict[str, Any]:
    details = (
        run_folder.read_json(run.folder / "status.json").get("details", "")
        if run.status == "failed"
        else ""
    )
    config = dict(run.planned.config)
    kept, played = thinned(run.evaluated.size), thinned(run.loss.size)
    return {
        **{
            name: row[name]
            for name in ("method", "status", "reason", "point", "round", "accuracy", "std")
        },
        "details": details,
        "chosen": run.chosen,
        "megabytes": {
            name: _rounded(series.mean() / 1e6) for name, series in run.sent.items() if series.size
        },
        "seconds": {
            name: _rounded(series.mean()) for name, series in run.seconds.items() if series.size
        },
        "evaluated": run.evaluated[kept].astype(int).tolist(),
        "curves": {name: curve[kept].round(DIGITS).tolist() for name, curve in run.curves.items()},
        "loss": [[place + 1, _rounded(run.loss[place])] for place in played],
        "clients": run.clients.round(DIGITS).tolist(),
        "hparams": config.pop("hparams", {}),
        "config": config,
        "scale": run.about.get("scale"),
        "plugin": run.about.get("code", {}).get("plugin"),
    }


def _sizes(run: Numbers) -> Mapping[str, Sequence[int]]:
    """Training and test samples of every client."""
    partition = run.about.get("partition", {})
    return {part: partition.get(f"n_{part}", []) for part in ("train", "test")}


def _environment(run: Numbers) -> Mapping[str, Any]:
    """What the run was made with, but for its plugin, by which methods differ."""
    code = {name: value for name, value in run.about.get("code", {}).items() if name != "plugin"}
    return {**run.about.get("versions", {}), **run.about.get("machine", {}), **code}


def _number(known: dict[str, int], value: Mapping[str, Any]) -> int:
    """The place of a value among those that are known, as JSON text; it is added if it is new."""
    return known.setdefault(json.dumps(value), len(known))


def _rounded(value: float | Floats) -> float:
    return float(f"{float(value):.{DIGITS}g}")
