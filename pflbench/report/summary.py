"""The runs of a report in short: a row for every group of seeds, and a run's result in one line."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pflbench.report.load.runs import Choice, Floats, Numbers, mean
from pflbench.report.render.grid import significant
from pflbench.report.words import ROUND

Row = dict[str, Any]
DASH = "--"
SHOWN = ("algorithm", "dataset", "partition", "seed", "rounds", "hparams", "version")  # or no need
NAMES = ("method", "data", "partition", "point", "rounds", "status", "one_shot")  # same in a group
MEANS = ("accuracy", "std", "megabytes", "seconds")


def caption(choice: Choice) -> str:
    """What the numbers mean."""
    where = "each method at its evaluation point"
    if choice.point is not None:
        where = f"all methods at {choice.point}"
    weight = ", weighted by test samples" if choice.weighted else ""
    return (
        f"Accuracy in %, the mean over clients{weight}, {ROUND[choice.round]}, +/- the standard"
        f" deviation over clients (of several seeds: the mean of both), {where}: pre is the model"
        " that a client has after the server's newest message, post the one right after its local"
        " training. A run that is not finished shows the rounds that it reached. kB (1000 bytes):"
        " received and sent, per client and round; for a one-shot method, the total. Seconds: per"
        " round, with evaluation."
    )


def row(run: Numbers, weighted: bool = False) -> Row:
    """A run's numbers; accuracies as fractions."""
    config, known = run.planned.config, run.clients[np.isfinite(run.clients)]
    sizes = run.sizes("test") if weighted and run.clients.size else None
    sent = run.traffic("down") + run.traffic("up") if run.loss.size else float("nan")
    return {
        "id": run.planned.id,
        "folder": str(run.folder),
        "algorithm": config["algorithm"],
        "method": run.method,
        "data": str(run.about.get("data", {}).get("title", config["dataset"])),
        "partition": config["partition"],
        "clients": config["clients"],
        "evaluated": int(known.size),
        "seed": config["seed"],
        "status": status(run),
        "reason": run.reason,
        "notes": list(run.notes),
        "round": run.loss.size,
        "rounds": config["rounds"],
        "point": run.point,
        "accuracy": float(mean(run.clients, sizes)) if known.size else float("nan"),
        "std": float(known.std()) if known.size else float("nan"),
        "megabytes": sent / 1e6,
        "one_shot": run.one_shot,
        "seconds": _mean(run.seconds.get("wall", ())),
    }


def status(run: Numbers) -> str:
    """finished, diverged, failed, running, missing; started where it has records and nobody works
    on it; outdated.
    """
    if run.outdated:
        return "outdated"
    return "started" if run.status == "missing" and run.about else run.status


def line(row: Row) -> str:
    """A run's result in one line."""
    clients = f"over {row['evaluated']} clients"
    accuracy = f"{_percent(row['accuracy'])} % +/- {_percent(row['std'])} {clients}"
    what = f"{row['method']} on {row['data']}, {row['partition']}: {accuracy}"
    return f"{what} ({row['point']}, round {row['round']}); {row['folder']}"


def grouped(runs: Sequence[Numbers], weighted: bool = False) -> list[Row]:
    """A row for the finished runs that differ in their seed only, and for every other that has
    started; numbers are means over seeds. By data, partition and accuracy.
    """
    from pflbench.report.grouping.layout import titles_of  # with pandas, which a run does without

    started = list({run.planned.id: run for run in runs if run.about}.values())
    together: dict[str, list[Numbers]] = {}
    for run in started:
        together.setdefault(_group(run), []).append(run)
    configurations = _differences(started)
    titles = titles_of(started)
    rows = []
    for members in together.values():
        found = [row(member, weighted) for member in members]
        title = titles[found[0]["algorithm"]]
        configuration = configurations[found[0]["id"]]
        rows.append({**_together(found), "method": title, "configuration": configuration})
    return sorted(rows, key=_place)


def _group(run: Numbers) -> str:
    """What runs have in common that differ in the seed only."""
    alone = "" if run.status == "finished" else run.planned.id
    config = {**run.planned.config, "seed": None, "version": run.version}
    return json.dumps([config, run.about.get("data"), alone], sort_keys=True)


def _together(rows: Sequence[Row]) -> Row:
    """The row of runs that differ in the seed only."""
    first = rows[0]
    several = len(rows) > 1
    return {
        **{name: first[name] for name in (*NAMES, "round", "reason")},
        "notes": list(dict.fromkeys(note for one in rows for note in one["notes"])),
        "seeds": sorted(one["seed"] for one in rows),
        **{name: _mean([one[name] for one in rows]) for name in MEANS},
        "seeds_std": float(np.std([one["accuracy"] for one in rows], ddof=1))
        if several
        else float("nan"),
    }


def _place(row: Row) -> tuple[Any, ...]:
    return row["data"], row["partition"], not row["accuracy"] >= 0, -row["accuracy"]


def columns(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headers and cells for a person; a column that says nothing is left out."""
    table = [_cells(row) for row in rows]
    headers = [name for name in table[0] if any(cells[name] for cells in table)] if table else []
    return headers, [[cells[name] for name in headers] for cells in table]


def _cells(row: Row) -> dict[str, str]:
    sent = DASH if row["megabytes"] != row["megabytes"] else significant(1e3 * row["megabytes"])
    finished = row["round"] == row["rounds"]
    state = row["status"]
    return {
        "method": row["method"],
        "configuration": row["configuration"],
        "data": row["data"],
        "partition": row["partition"],
        "seeds": ",".join(map(str, row["seeds"])),
        "accuracy": f"{_percent(row['accuracy'])} +/- {_percent(row['std'])}",
        "std over seeds": "" if len(row["seeds"]) < 2 else _percent(row["seeds_std"]),
        "point": row["point"],
        "kB": f"{sent} total" if row["one_shot"] else sent,
        "seconds": _number(row["seconds"], 2),
        "round": f"{row['round']}" if finished else f"{row['round']} of {row['rounds']}",
        "status": state if state == "finished" else state.upper(),
        "notes": "; ".join(row["notes"]),
    }


def _differences(runs: Sequence[Numbers]) -> dict[str, str]:
    """By id, the fields in which a run differs from other runs, and the hyperparameters from others
    of its method.
    """
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        config = run.planned.config
        by_method.setdefault(config["algorithm"], []).append(config["hparams"])
    differ = _differing([run.planned.config for run in runs]) - {*SHOWN}
    hparams = {method: _differing(tables) for method, tables in by_method.items()}
    found = {}
    for run in runs:
        config = run.planned.config
        parts = [f"{name}={value}" for name, value in config.items() if name in differ]
        own = hparams[config["algorithm"]]
        parts += [f"{name}={value}" for name, value in config["hparams"].items() if name in own]
        found[run.planned.id] = " ".join(parts)
    return found


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
