"""The runs of a report, small enough for a page: what the page's script lists and draws."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pflbench.records import run_folder
from pflbench.report.figures.learning import thinned
from pflbench.report.load.runs import Experiment, Floats, Numbers
from pflbench.report.summary import row

DIGITS = 4  # of an accuracy, behind the point; of a loss, in all
FROM_SUMMARY = ("method", "status", "reason", "notes", "point", "round", "accuracy", "std")


def embedded(experiments: Iterable[Experiment], weighted: bool = False) -> dict[str, Any]:
    """Every run once, by its id; experiments name theirs.

    What many runs share (sizes of the clients, versions and machine) is there once, and a run has
    its number.
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
                runs[run.planned.id] = {**_run(run, weighted), **shared}
        places = [
            [run.planned.id, run.planned.scenario, run.planned.variant] for run in experiment.runs
        ]
        listed.append({"name": experiment.plan.name, "runs": places})
    once = {"sizes": _values(sizes), "environments": _values(environments)}
    return {"experiments": listed, "runs": runs, **once}


def _run(run: Numbers, weighted: bool) -> dict[str, Any]:
    summary = row(run, weighted)
    config = dict(run.planned.config)
    config.pop("version", None)
    evaluations, rounds = thinned(run.evaluated.size), thinned(run.loss.size)
    sent = {name: series.mean() / 1e6 for name, series in run.sent.items() if series.size}
    seconds = {name: series.mean() for name, series in run.seconds.items() if series.size}
    return {
        **{name: summary[name] for name in FROM_SUMMARY},
        "state": run.status,
        "details": _details(run),
        "chosen": run.chosen,
        "megabytes": {name: _rounded(value) for name, value in sent.items()},
        "seconds": {name: _rounded(value) for name, value in seconds.items()},
        "evaluated": run.evaluated[evaluations].astype(int).tolist(),
        "curves": {
            name: curve[evaluations].round(DIGITS).tolist() for name, curve in run.curves.items()
        },
        "loss": [[place + 1, _rounded(run.loss[place])] for place in rounds],
        "logs": {
            name: [_rounded(curve[place]) for place in rounds] for name, curve in run.logs.items()
        },
        "clients": run.clients.round(DIGITS).tolist(),
        "hparams": config.pop("hparams", {}),
        "config": config,
        "scale": run.about.get("scale"),
        "version": run.version,
    }


def _details(run: Numbers) -> str:
    """The traceback of a run that failed."""
    if run.status != "failed":
        return ""
    return str(run_folder.read_json(run.folder / "status.json").get("details", ""))


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


def _values(known: Mapping[str, int]) -> list[Any]:
    return [json.loads(text) for text in known]


def _rounded(value: float | Floats) -> float:
    return float(f"{float(value):.{DIGITS}g}")
