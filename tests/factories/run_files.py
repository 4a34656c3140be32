"""Made-up runs on disk: the files that real runs leave behind, with numbers that nobody measured."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pflbench.methods import registry
from pflbench.methods.costs import by_default
from pflbench.records import integrity
from pflbench.records.leases import FINAL
from pflbench.records.plan import Planned
from pflbench.sweep import experiment
from tests.factories.runs import about_run

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
            write_run(folder, planned, status)
    return list(plan.runs)


def write_run(
    folder: Path,
    planned: Planned,
    status: str = "finished",
    *,
    about: Mapping[str, Any] | None = None,
    lines: Iterable[Mapping[str, Any]] | None = None,
    time: float | None = None,
) -> Path:
    """Write the files of a run into its place of a sweep's folder, and return that place.

    Without `about` (the content of run.json) and `lines` (of rounds.jsonl) it is a run that learns
    from 0.1 towards a level of its own; one that failed or diverged stops half way. No status: the
    run has not ended. `time` is when it ended, in seconds.
    """
    rounds = planned.run.rounds if status == "finished" else planned.run.rounds // 2
    path = folder / planned.id
    path.mkdir(parents=True, exist_ok=True)
    said = about_planned(planned) if about is None else about
    records = _records(planned, rounds) if lines is None else lines
    (path / "run.json").write_text(json.dumps({"id": planned.id, **said}))
    _write_lines(path / "rounds.jsonl", records)
    _write_lines(path / "timing.jsonl", map(_timing, range(rounds + 1)))
    if status:
        last = (path / "rounds.jsonl").read_bytes().count(b"\n") - 1
        end = {"status": status, "round": last, **WHY.get(status, {})}
        if status in FINAL:
            end["records"] = integrity.sums(path)
        (path / "status.json").write_text(json.dumps(end))
    if status and time is not None:
        os.utime(path / "status.json", (time, time))
    return path


def about_planned(planned: Planned) -> dict[str, Any]:
    """What run.json says of a run, with its method's own words."""
    config = planned.config
    method = registry.load(planned.plugin)
    counts = np.random.default_rng(config["seed"]).integers(5, 20, (config["clients"], 10))
    classes = [{str(label): int(number) for label, number in enumerate(row)} for row in counts]
    sizes = counts.sum(1).tolist()
    return about_run(
        config,
        config["clients"],
        title=method.title,
        point=method.evaluation_point,
        one_shot=method.one_shot,
        costs=by_default(method),
        data=config["dataset"].title(),
        digest=f"{config['partition']} {config['seed']}",
        n_train=sizes,
        n_test=sizes,
        counts=(classes, classes),
    )


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


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines))
