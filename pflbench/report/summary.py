"""The runs of a report in few words: a row for every group of seeds, and a run's result in one line."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pflbench.report.load.runs import Choice, Floats, Numbers, mean
from pflbench.report.render.grid import significant

Row = dict[str, Any]
DASH = "--"
SHOWN = (
    "algorithm",
    "dataset",
    "partition",
    "seed",
    "rounds",
    "hparams",
)  # settings with a column, or never told
ROUND = {
    "last": "in the last round",
    "last10": "as the mean of the last ten evaluated rounds",
    "best": "in the round that is the best on the test samples (chosen by what is measured, so it is too high)",
    "validation": "in the round that is the best on the validation samples",
}


def caption(choice: Choice) -> str:
    """What the numbers mean."""
    where = "each method at its point" if choice.point is None else f"all methods at {choice.point}"
    weight = ", weighted by test samples" if choice.weighted else ""
    return (
        f"Accuracy in %, the mean over clients{weight}, {ROUND[choice.round]}, +/- the standard deviation over clients"
        f" (of several seeds: the mean of both), {where}: pre is the model that a client has after the server's newest"
        " message, post the one right after its local training. A run that is not done shows the rounds that it"
        " reached. kB (1000 bytes): sent and received, for a client and a round. Seconds: of a round, with evaluation."
    )


def row(run: Numbers, weighted: bool = False) -> Row:
    """A run's numbers; accuracies as fractions."""
    config, known = run.planned.config, run.clients[np.isfinite(run.clients)]
    sizes = run.sizes("test") if weighted and run.clients.size else None
    return {
        "id": run.planned.id,
        "folder": str(run.folder),
        "algorithm": config["algorithm"],
        "method": run.method,
        "data": str(run.about.get("data", {}).get("title", config["dataset"])),
        "partition": config["partition"],
        "clients": config["clients"],
        "scored": int(known.size),
        "seed": config["seed"],
        "status": status(run),
        "reason": run.reason,
        "round": run.loss.size,
        "rounds": config["rounds"],
        "point": run.point,
        "accuracy": float(mean(run.clients, sizes)) if known.size else float("nan"),
        "std": float(known.std()) if known.size else float("nan"),
        "megabytes": sum(map(_mean, run.sent.values())) / 1e6
        if run.loss.size
        else float("nan"),  # 0: none is sent
        "seconds": _mean(run.seconds.get("wall", ())),
    }


def status(run: Numbers) -> str:
    """done, diverged, failed, running; unfinished where it has begun, else missing."""
    if run.status in ("finished", "diverged", "failed", "running"):
        return run.status
    return "unfinished" if run.about else "missing"


def line(row: Row) -> str:
    """A run's result in one line."""
    score = f"{_percent(row['accuracy'])} % +/- {_percent(row['std'])} over {row['scored']} clients"
    what = f"{row['method']} on {row['data']}, {row['partition']}: {score}"
    return f"{what} ({row['point']}, round {row['round']}); {row['folder']}"


def grouped(runs: Sequence[Numbers], weighted: bool = False) -> list[Row]:
    """A row for the finished runs that differ in their seed only, and for every other that has begun; numbers are means
    over seeds. By data, partition and accuracy.
    """
    begun = list({run.planned.id: run for run in runs if run.about}.values())
    together: dict[str, list[Numbers]] = {}
    for run in begun:
        ended = None if run.status == "finished" else run.planned.id
        same = {**run.planned.config, "seed": None, "data": run.about.get("data"), "ended": ended}
        together.setdefault(json.dumps(same, sort_keys=True), []).append(run)
    settings = _settings_apart(begun)
    rows = []
    for members in together.values():
        each = [row(member, weighted) for member in members]
        means = {
            name: _mean([r[name] for r in each])
            for name in ("accuracy", "std", "megabytes", "seconds")
        }
        one = {
            name: each[0][name]
            for name in ("method", "data", "partition", "point", "rounds", "status")
        }
        spread = (
            float(np.std([r["accuracy"] for r in each], ddof=1)) if len(each) > 1 else float("nan")
        )
        more = {
            "seeds": sorted(r["seed"] for r in each),
            "round": each[0]["round"],
            "reason": each[0]["reason"],
        }
        rows.append(
            {**one, "settings": settings[each[0]["id"]], **more, **means, "seeds_std": spread}
        )
    return sorted(
        rows, key=lambda r: (r["data"], r["partition"], not r["accuracy"] >= 0, -r["accuracy"])
    )


def columns(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headers and cells for a person; a column that says nothing is left out."""
    table = [
        {
            "method": r["method"],
            "settings": r["settings"],
            "data": r["data"],
            "partition": r["partition"],
            "seeds": ",".join(map(str, r["seeds"])),
            "accuracy": f"{_percent(r['accuracy'])} +/- {_percent(r['std'])}",
            "std over seeds": "" if r["seeds_std"] != r["seeds_std"] else _percent(r["seeds_std"]),
            "point": r["point"],
            "kB": DASH if r["megabytes"] != r["megabytes"] else significant(1e3 * r["megabytes"]),
            "seconds": _number(r["seconds"], 2),
            "round": f"{r['round']}"
            if r["round"] == r["rounds"]
            else f"{r['round']} of {r['rounds']}",
            "status": r["status"] if r["status"] == "finished" else r["status"].upper(),
        }
        for r in rows
    ]
    headers = [name for name in table[0] if any(cells[name] for cells in table)] if table else []
    return headers, [[cells[name] for name in headers] for cells in table]


def _settings_apart(runs: Sequence[Numbers]) -> dict[str, str]:
    """By id, the settings in which a run differs from other runs, and the hyperparameters from others of its method."""
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        by_method.setdefault(run.planned.config["algorithm"], []).append(
            run.planned.config["hparams"]
        )
    differ = _differing([run.planned.config for run in runs]) - {*SHOWN}
    hparams = {method: _differing(tables) for method, tables in by_method.items()}
    apart = {}
    for run in runs:
        config = run.planned.config
        parts = [f"{name}={value}" for name, value in config.items() if name in differ]
        chosen = hparams[config["algorithm"]]
        parts += [f"{name}={value}" for name, value in config["hparams"].items() if name in chosen]
        apart[run.planned.id] = " ".join(parts)
    return apart


def _differing(tables: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names that do not have one value in all tables."""
    names = {name for table in tables for name in table}
    return {name for name in names if len({json.dumps(table.get(name)) for table in tables}) > 1}


def _mean(values: Sequence[float] | Floats) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _percent(fraction: float) -> str:
    return _number(100 * fraction, 2)


def _number(value: float, digits: int) -> str:
    return DASH if value != value else f"{value:.{digits}f}"
