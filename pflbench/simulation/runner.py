"""One run: from a configuration to its records; resumes, checkpoints, says how it ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import torch

from pflbench.config import Run
from pflbench.data import datasets, partition
from pflbench.errors import RunFailed, UserError
from pflbench.records import provenance
from pflbench.records.leases import FINAL, Lease, LeaseLost, Leases
from pflbench.records.run_folder import STATES, RunFolder
from pflbench.simulation import engine, representations
from pflbench.simulation.client_states import ClientStates
from pflbench.simulation.client_worker import Setup
from pflbench.simulation.federation import Diverged, Federation, Record

Watcher = Callable[[Record, Record], None]
"""Called with the record and the timing of every round, as it ends."""


def prepare(
    run: Run, plugin: str | None = None, data_root: Path | None = None, device: str = "cpu"
) -> Setup:
    """Load data, draw the partition and build the method: every mistake of the user shows here, before any file."""
    loaded = datasets.load(run.dataset, data_root)
    split = partition.make(run.partition, loaded.y, loaded.classes, _partition_options(run))
    setup = Setup(run, plugin or run.algorithm, loaded, split, device)
    setup.algorithm()
    return setup


def _partition_options(run: Run) -> partition.Options:
    """The options of the run's partition: they have the names of its fields, but for the seed."""
    names = {field.name for field in fields(partition.Options)} - {"seed"}
    seed = run.seed if run.partition_seed is None else run.partition_seed
    return partition.Options(seed=seed, **{name: getattr(run, name) for name in names})


def execute(
    setup: Setup,
    out: Path,
    *,
    workers: int = 1,
    checkpoint_every: int = 10,
    state_memory: float = 2.0,
    fresh: bool = False,
    scale: str | None = None,
    lease: Lease | None = None,
    started: Callable[[int], None] = lambda done: None,
    watch: Watcher = lambda record, timing: None,
) -> RunFolder:
    """Do a run, or the rest of it, and leave its records in `out/<run id>/`; a finished run is left as it is.

    `fresh` forgets what is stored. `started` is called with the number of rounds that are there already, unless all
    are. `scale` names the tier of a sweep, for the record; `lease` is its right to do the run. `state_memory` is how
    many GiB of clients' private states are in memory, the rest being in files; it changes no number.
    """
    records = RunFolder(out / setup.run.id, setup.run.id)
    about = provenance.about(setup, workers, scale)
    finished = records.status.get("status") in FINAL
    if finished and not fresh:
        records.open(about)
        records.tidy()  # it may have been killed before it could
        return records
    with _claimed(out, setup.run.id, lease) as held, _one_thread():
        if fresh:
            records.clear()
        records.open(about)
        snapshot = records.restore()
        machinery = engine.start(setup, min(workers, setup.run.clients))
        try:
            states = ClientStates(records.folder / STATES, int(state_memory * 2**30))
            federation = Federation(setup, machinery, states)
            if snapshot:
                states.round = snapshot["round"]
                federation.restore(snapshot)
            started(federation.round)
            _play(federation, states, records, held, checkpoint_every, watch)
        finally:
            machinery.close()
    return records


@contextmanager
def _claimed(out: Path, run: str, lease: Lease | None) -> Iterator[Lease]:
    """The lease of a run: that of a sweep, or our own for as long as it takes."""
    if lease is not None:
        yield lease
        return
    ledger = Leases(out)
    ledger.open()
    own = ledger.claim(run)
    if own is None:
        held = ledger.leases().get(run)
        who = ledger.owner(held) if held else "another process"
        raise UserError(f"{out / run} is being written by {who}; wait for it, or stop it")
    try:
        yield own
    finally:
        own.release()


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread of torch: more would change the last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _play(
    federation: Federation,
    states: ClientStates,
    records: RunFolder,
    lease: Lease,
    checkpoint_every: int,
    watch: Watcher,
) -> None:
    """All rounds that are left; `states` are those of the federation."""
    last = federation.run.rounds
    saved = federation.round
    whole = (
        federation.snapshot()
    )  # after the last round whose record is written: a step may be broken off anywhere

    def note(record: Record, timing: Record) -> None:
        nonlocal whole
        lease.keep()
        representations.save(
            records.folder, federation.represented, federation.setup.data, federation.partition
        )
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
            states.round = federation.round + 1
            note(*federation.step())
            if federation.round % checkpoint_every == 0 and federation.round < last:
                save()
                states.settle()
        records.finish("finished", last)
    except Diverged as divergence:
        records.finish("diverged", federation.round, str(divergence))
    except LeaseLost:
        raise  # the folder is another's now: not one more word in it
    except RunFailed as failure:
        lease.keep()
        save()
        records.finish("failed", saved, str(failure), failure.details)
        raise
    except KeyboardInterrupt:
        lease.keep()
        save()
        records.finish("stopped", saved, "interrupted; the same command resumes")
        raise
