"""The record of a round: what its cohort did, and the accuracies of clients."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pflbench.config import Run
from pflbench.data.partition import Partition
from pflbench.logs import Work
from pflbench.simulation.client_worker import ClientResult, evaluated_on
from pflbench.simulation.cohort import Cohort

Record = dict[str, Any]
"""What is written of a round."""
Correct = dict[str, dict[int, int]]
"""Series -> client -> samples that its model classifies correctly."""


def summary(run: Run, partition: Partition, cohort: Cohort) -> Record:
    """What the cohort did: its clients, mean training loss, bytes by part, clients' logs."""
    names = sorted({name for logs in cohort.logs.values() for name in logs})
    logs = {name: [cohort.logs.get(id, {}).get(name) for id in cohort.ids] for name in names}
    loss = _mean_loss(logs, [len(partition.train[id]) for id in cohort.ids])
    logs.pop("loss", None)
    ways = {"down": cohort.down, "up": cohort.up}
    summed = {way: dict(sum(clients.values(), Counter())) for way, clients in ways.items()}
    record = {"cohort": list(cohort.ids), "loss": loss, "bytes": summed, "logs": logs}
    if run.dropout_rate:
        record["failed"] = list(cohort.failed)
    if run.slow_clients:
        work = [cohort.work.get(id, Work()) for id in cohort.ids]
        record["batches"] = [one.batches for one in work]
        record["samples"] = [one.samples for one in work]
    return record


def accuracies(run: Run, partition: Partition, correct: Correct) -> dict[str, list[float | None]]:
    """Series -> correct samples over samples, of every client that was evaluated and has any."""
    record: dict[str, list[float | None]] = {}
    for series, numbers in correct.items():
        samples = evaluated_on(partition, series)
        record[series] = [None] * run.clients
        for id, number in numbers.items():
            if len(samples[id]):
                record[series][id] = number / len(samples[id])
    return record


def logs_by_client(run: Run, results: Sequence[ClientResult]) -> dict[str, list[float | None]]:
    """Name -> what every client logged in its evaluation."""
    names = sorted({name for result in results for name in result.logs})
    logs: dict[str, list[float | None]] = {name: [None] * run.clients for name in names}
    for result in results:
        for name, value in result.logs.items():
            logs[name][result.client] = value
    return logs


def _mean_loss(logs: Mapping[str, Sequence[float | None]], samples: Sequence[int]) -> float | None:
    """Mean training loss by samples: of what clients logged as `loss`, else of all passes `loss_*`
    together.
    """
    passes = [name for name in logs if name.startswith("loss_")]
    known = [
        (loss, n)
        for name in (["loss"] if "loss" in logs else passes)
        for loss, n in zip(logs[name], samples, strict=True)
        if loss is not None
    ]
    return sum(loss * n for loss, n in known) / sum(n for _, n in known) if known else None
