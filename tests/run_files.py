"""Made-up sweeps on disk: the files that real runs leave behind, with numbers that nobody measured."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pflbench.methods import registry
from pflbench.methods.costs import by_default
from pflbench.records.plan import Planned
from pflbench.sweep import experiment

WHY = {
    "failed": {"reason": "out of <luck>", "details": "Traceback: line 1\n  boom()"},
    "diverged": {"reason": "nan"},
}


def write_sweep(
    folder: Path, name: str, table: Mapping[str, Any], ended: Mapping[int, str] | None = None
) -> list[Planned]:
    """Write the plan of a sweep, as `table` describes it, and the files of its runs.

    `ended` says which runs, by their place in the plan, are failed, diverged or missing.
    """
    plan = experiment.make(name, table, command=f"pflbench sweep {name}.toml")
    plan.write(folder)
    for place, planned in enumerate(plan.runs):
        status = (ended or {}).get(place, "finished")
        if status != "missing":
            write_run(folder / planned.id, planned, status)
    return list(plan.runs)


def write_run(folder: Path, planned: Planned, status: str = "finished") -> None:
    """A run that learns from 0.1 towards a level of its own; one that failed or diverged stops half
    way.
    """
    rounds = planned.run.rounds if status == "finished" else planned.run.rounds // 2
    folder.mkdir(parents=True)
    about = {"id": planned.id, **about_run(planned)}
    end = {"status": status, "round": rounds, **WHY.get(status, {})}
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "status.json").write_text(json.dumps(end))
    _write_lines(folder / "rounds.jsonl", _records(planned, rounds))
    _write_lines(folder / "timing.jsonl", [_timing(number) for number in range(rounds + 1)])


def about_run(planned: Planned) -> dict[str, Any]:
    """The content of run.json, but for the run's id."""
    config = planned.config
    cls = registry.load(planned.plugin)
    down, up = by_default(cls)
    counts = np.random.default_rng(config["seed"]).integers(5, 20, (config["clients"], 10))
    classes = [{str(label): int(number) for label, number in enumerate(row)} for row in counts]
    sizes = counts.sum(1).tolist()
    return {
        "config": config,
        "scale": "paper",
        "method": {
            "title": cls.title,
            "evaluation_point": cls.evaluation_point,
            "one_shot": cls.one_shot,
            "costs": {"down": down, "up": up},
        },
        "data": {"title": config["dataset"].title(), "digest": "0123456789abcdef", "classes": 10},
        "partition": {
            "digest": f"{config['partition']} {config['seed']}",
            "n_train": sizes,
            "n_test": sizes,
            "train_classes": classes,
            "test_classes": classes,
        },
        "code": {"commit": "0" * 40, "changed": False},
        "versions": {
            "python": "3.11.0",
            "pflbench": "0.1.0",
            "torch": "2.4.0",
            "numpy": "2.0.0",
            "scipy": "1.14.0",
        },
        "machine": {
            "system": "Linux",
            "processor": "x86_64",
            "cores": 2,
            "device": "cpu",
            "workers": 1,
        },
    }


def _records(planned: Planned, rounds: int) -> list[dict[str, Any]]:
    clients = planned.run.clients
    rng = np.random.default_rng(list(planned.id.encode()))
    level = rng.uniform(0.5, 0.8, clients) + rng.uniform(0, 0.15)
    sent = {
        "down": {"theta": 400_000 * clients},
        "up": {"theta": 400_000 * clients, "n": 4 * clients},
    }
    records = []
    for number in range(rounds + 1):
        learnt = 1 - np.exp(-4 * number / planned.run.rounds)
        curve = 0.1 + (level - 0.1) * learnt + rng.normal(0, 0.01, clients)
        record: dict[str, Any] = {"round": number}
        if number:
            record |= {"cohort": [*range(clients)], "loss": 2.0 / number, "bytes": sent}
            record |= {"logs": {}, "server": {}}
        accuracy = {"pre": curve.tolist(), "post": np.minimum(curve + 0.02, 1).tolist()}
        records.append({**record, "accuracy": accuracy})
    return records


def _timing(number: int) -> dict[str, Any]:
    if number == 0:
        return {"round": 0, "evaluation": 0.2}
    return {"round": number, "client": 1.5, "server": 0.1, "evaluation": 0.2, "wall": 1.25}


def _write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines))
