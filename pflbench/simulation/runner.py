"""One run: from a configuration to its records; resumes, checkpoints, says how it ended."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from pflbench.config import Run
from pflbench.data import datasets, partition
from pflbench.data.prepared import Data
from pflbench.data.standard import standard
from pflbench.errors import RunFailed, UserError
from pflbench.records import extension, models, provenance
from pflbench.records.leases import FINAL, Lease, LeaseLost, Leases
from pflbench.records.run_folder import STATES, RunFolder
from pflbench.records.verification import how_it_ended, unusable
from pflbench.simulation import engine, messages, representations
from pflbench.simulation.client_states import ClientStates
from pflbench.simulation.client_worker import Setup
from pflbench.simulation.cohort import Diverged
from pflbench.simulation.description import described
from pflbench.simulation.federation import Federation
from pflbench.simulation.round_record import Record
from pflbench.simulation.threads import one_thread

Watcher = Callable[[Record, Record], None]
"""Called with the record and the timing of every round, as it ends."""


class AnotherMachine(UserError):
    """A run must not go on here, but may where it was started, after this round."""

    def __init__(self, message: str, round: int) -> None:
        super().__init__(message)
        self.round = round


def prepare(
    run: Run,
    plugin: str | None = None,
    data_root: Path | None = None,
    device: str = "cpu",
    data: Data | None = None,
) -> Setup:
    """Load the data unless given, draw the partition and build the method: every mistake of the
    user shows here, before any file.
    """
    loaded = data or datasets.load(run.dataset, data_root)
    split = partition.make(
        run.partition, loaded.y, loaded.classes, _partition_options(run), loaded.client
    )
    scale = None
    if loaded.kind == "features" and run.standardize:  # by the samples that are trained on
        scale = standard(loaded.x, split.train[: run.seen_clients])
    setup = Setup(run, plugin or run.algorithm, loaded, split, device, scale)
    setup.algorithm()  # fails where its hyperparameters, its network or the device do not fit
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
    strict: bool = False,
    save_models: bool = False,
    scale: str | None = None,
    lease: Lease | None = None,
    started: Callable[[int], None] = lambda done: None,
    watch: Watcher = lambda record, timing: None,
) -> RunFolder:
    """Do a run, or the rest of it, and leave its records in `out/<run id>/`; a finished run is left
    as it is.

    `fresh` forgets what is stored; `strict` refuses to go on with what was started on another kind of
    machine. `started` is called with the number of rounds that are there
    already, unless all are. `scale` names the tier of a sweep, for the record; `lease` is its right
    to do the run. `state_memory` is how many GiB of clients' private states are in memory, the rest
    being in files; it changes no number. `save_models` leaves the state after the last round, and a
    run goes on from a shorter one that has left it.
    """
    records = RunFolder(out / setup.run.id, setup.run.id)
    about = described(setup, workers, scale)
    if not fresh:
        records.refuse_another_run()
        if reason := unusable(records.folder):
            raise UserError(f"{records.folder} is damaged: {reason}; --fresh runs it again")
        if how_it_ended(records.folder)[0] in FINAL:
            records.tidy()  # it may have been killed before it could
            return records
    with _claimed(out, setup.run.id, lease) as held, one_thread():
        if fresh:
            records.clear()
        if not fresh and not records.has_checkpoint:
            _begin(records, setup.run, about, out)
        records.open(about)
        snapshot = records.restore()
        kinds = _kinds(snapshot, records.folder, setup.device, strict)
        states = ClientStates(records.folder / STATES, int(state_memory * 2**30))
        with closing(engine.start(setup, min(workers, setup.run.clients))) as started_engine:
            federation = Federation(setup, started_engine, states, save_models)
            if snapshot:
                states.round = snapshot["round"]
                federation.restore(snapshot)
            started(federation.round)
            _Player(federation, states, records, held, watch, kinds).play(checkpoint_every)
    return records


def _begin(records: RunFolder, run: Run, about: dict[str, Any], out: Path) -> None:
    """Describe a run of which there is no checkpoint, and begin it with the rounds of a shorter one,
    if there is any.
    """
    shorter = extension.shorter_run(run, out)
    records.open({**about, **(shorter.about if shorter else {})}, anew=True)
    if shorter:
        extension.begin(records, shorter)


def _kinds(snapshot: dict[str, Any] | None, folder: Path, device: str, strict: bool) -> list[str]:
    """The kinds of machines that a run has been on, this one last; a run on two kinds has the bits
    of neither.
    """
    before: list[str] = list(snapshot.get("kinds", [])) if snapshot else []
    here = provenance.kind_of_machine(device)
    if before and before[-1] != here:
        said = f"{folder} was started on another kind of machine ({before[-1]}; this is {here})"
        if strict:
            advice = "without --strict it is resumed, and marked as mixed"
            raise AnotherMachine(f"{said}; {advice}", snapshot["round"] if snapshot else 0)
        warnings.warn(f"{said}: last bits may differ, and the run is marked", stacklevel=3)
    return list(dict.fromkeys([*before, here]))


@contextmanager
def _claimed(out: Path, run: str, lease: Lease | None) -> Iterator[Lease]:
    """The lease of a run: that of a sweep, or our own for as long as it takes."""
    if lease is not None:
        yield lease
        return
    ledger = Leases(out)
    ledger.open()
    own = ledger.wait(run)
    if own is None:
        held = ledger.leases().get(run)
        who = ledger.owner(held) if held else "another process"
        raise UserError(f"{out / run} is in use by {who}; wait for it, or stop it")
    try:
        yield own
    finally:
        own.release()


class _Player:
    """Plays the rounds of a federation that are left, and writes what comes of them to the folder
    of the run.
    """

    def __init__(
        self,
        federation: Federation,
        states: ClientStates,  # of the federation
        records: RunFolder,
        lease: Lease,
        watch: Watcher,
        kinds: list[str],  # of machines
    ) -> None:
        self.federation = federation
        self.states = states
        self.records = records
        self.lease = lease
        self.watch = watch
        self.kinds = kinds
        self.saved = federation.round  # the round of the newest checkpoint
        self.recorded = self._snapshot()  # after the last round whose record is written

    def play(self, checkpoint_every: int) -> None:
        """Play to the end, and say how it ended; an error that is not of the run itself is raised
        again.
        """
        try:
            self._play(checkpoint_every)
            saved = self._save_models()
            self.records.finish("finished", self.federation.round, kinds=self.kinds, models=saved)
        except Diverged as divergence:
            self.records.finish("diverged", self.federation.round, str(divergence))
        except LeaseLost:
            raise  # the folder belongs to another process now: nothing more is written to it
        except RunFailed as failure:
            self._stop("failed", str(failure), failure.details)
            raise
        except KeyboardInterrupt:
            self._stop("stopped", "interrupted; the same command resumes")
            raise

    def _play(self, checkpoint_every: int) -> None:
        last = self.federation.run.rounds
        if self.federation.round == 0:
            self._write(*self.federation.start())
        while self.federation.round < last:
            self.states.round = self.federation.round + 1
            self._write(*self.federation.step())
            if self.federation.round % checkpoint_every == 0 and self.federation.round < last:
                self._save()
                self.states.write_unchanged()

    def _write(self, record: Record, timing: Record) -> None:
        """Write the record of a round that is played."""
        federation = self.federation
        self.lease.keep()
        representations.save(
            self.records.folder, federation.represented, federation.setup.data, federation.partition
        )
        self.records.append("timing.jsonl", timing)
        self.records.append("rounds.jsonl", record)
        self.recorded = self._snapshot()
        self.watch(record, timing)

    def _snapshot(self) -> dict[str, Any]:
        """The state of the federation, and the checksums of the records that lead to it."""
        sums = self.records.written()
        return {**self.federation.snapshot(), "records": sums, "kinds": self.kinds}

    def _save(self) -> None:
        """Save a checkpoint of the last recorded round, if there is none yet: a step may be broken
        off anywhere.
        """
        if self.saved < self.recorded["round"]:
            # A tensor that is a view would be saved with everything that it is a view of.
            server = messages.sent(self.recorded["server"])
            self.records.save({**self.recorded, "server": server})
            self.saved = self.recorded["round"]

    def _save_models(self) -> str:
        """Save the state after the last round, if asked to; returns the name of its file."""
        if not self.federation.keep_models:
            return ""
        self.lease.keep()
        return models.save(
            self.records.folder, self.records.run_id, self.recorded, self.federation.states
        )

    def _stop(self, status: str, reason: str, details: str = "") -> None:
        """Save what there is, and say why the run ends before its last round."""
        self.lease.keep()
        self._save()
        self.records.finish(status, self.saved, reason, details)
