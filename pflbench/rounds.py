"""One run: from a configuration to its records; resumes, checkpoints, says how it ended."""

from collections.abc import Callable
from pathlib import Path

import torch

from pflbench import data, engine, partition, provenance, representations
from pflbench.config import Run
from pflbench.errors import RunFailed
from pflbench.federation import Diverged, Federation, Record
from pflbench.records import Records
from pflbench.site import Setup

Watcher = Callable[[Record, Record], None]
"""Called with the record and the timing of every round, as it ends."""


def prepare(run: Run, plugin: str | None = None, data_root: Path | None = None, device: str = "cpu") -> Setup:
    """Load data, draw the partition and build the method: every mistake of the user shows here, before any file."""
    loaded = data.load(run.dataset, data_root)
    seed = run.seed if run.partition_seed is None else run.partition_seed
    options = ("clients", "test_fraction", "min_samples", "samples_per_client", "overlap", "max_samples")
    chosen = {name: getattr(run, name) for name in (*options, "keep", "keep_last")}
    split = partition.make(run.partition, loaded.y, loaded.classes, seed=seed, **chosen)
    setup = Setup(run, plugin or run.algorithm, loaded, split, device)
    setup.algorithm()
    return setup


def execute(
    setup: Setup,
    out: Path,
    *,
    workers: int = 1,
    checkpoint_every: int = 10,
    fresh: bool = False,
    renew: bool = False,
    scale: str | None = None,
    started: Callable[[int], None] = lambda done: None,
    watch: Watcher = lambda record, timing: None,
) -> Records:
    """Do a run, or the rest of it, and leave its records in `out/<run id>/`; a finished run is left as it is.

    `fresh` forgets what is stored; `renew` does if it is unfinished and of another version of the plugin, so that no
    run mixes two. `started` is called with the number of rounds that are there already, unless all are. `scale` names
    the tier of a sweep, for the record.
    """
    records = Records(out / setup.run.id, setup.run.id)
    about = provenance.about(setup, workers, scale)
    finished = records.status.get("status") in ("done", "diverged")
    if fresh or (renew and not finished and records.outdated(about)):
        records.clear()
        (records.folder / representations.FILE).unlink(missing_ok=True)
    records.open(about)
    if finished and not fresh:
        return records
    snapshot = records.restore()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    machinery = engine.start(setup, min(workers, setup.run.clients))
    try:
        federation = Federation(setup, machinery)
        if snapshot:
            federation.restore(snapshot)
        started(federation.round)
        _play(federation, records, checkpoint_every, watch)
    finally:
        machinery.close()
        torch.set_num_threads(threads)
    return records


def _play(federation: Federation, records: Records, checkpoint_every: int, watch: Watcher) -> None:
    """All rounds that are left."""
    last = federation.run.rounds
    saved = federation.round
    whole = federation.snapshot()  # after the last round whose record is written: a step may be broken off anywhere

    def note(record: Record, timing: Record) -> None:
        nonlocal whole
        representations.save(records.folder, federation.represented, federation.setup.data, federation.partition)
        records.append("timing.jsonl", timing)
        records.append("rounds.jsonl", record)
        whole = federation.snapshot()
        watch(record, timing)

    def save() -> None:
        nonlocal saved
        if saved < whole["round"]:
            records.save(whole)
            saved = whole["round"]

    try:
        if federation.round == 0:
            note(*federation.start())
        while federation.round < last:
            note(*federation.step())
            if federation.round % checkpoint_every == 0 and federation.round < last:
                save()
        records.finish("done", last)
    except Diverged as divergence:
        records.finish("diverged", federation.round, str(divergence))
    except RunFailed as failure:
        save()
        records.finish("failed", saved, str(failure), failure.details)
        raise
    except KeyboardInterrupt:
        save()
        records.finish("stopped", saved, "interrupted; the same command resumes")
        raise
