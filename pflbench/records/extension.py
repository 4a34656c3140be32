"""A run goes on where a shorter one ended: the same configuration but for the rounds, in the same
folder of results, whose models were saved.

No method knows how many rounds there will be, so the first rounds of both are the same. The longer
run begins as a copy of the shorter one's records and state, and is resumed from there.
"""

import glob
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pflbench.config import Run
from pflbench.errors import UserError
from pflbench.records import integrity, models, run_folder
from pflbench.records.run_folder import STATES, RunFolder
from pflbench.records.status import stem_of
from pflbench.records.verification import damage, how_it_ended

KEY = "extended_from"  # of run.json


@dataclass(frozen=True)
class Shorter:
    """A finished run with its models, of fewer rounds."""

    folder: Path
    rounds: int
    snapshot: dict[str, Any]

    @property
    def about(self) -> dict[str, Any]:
        """What run.json of the longer run says of it."""
        return {KEY: {"id": self.folder.name, "round": self.rounds}}


def shorter_run(run: Run, out: Path) -> Shorter | None:
    """The longest finished run in `out` that this one can go on from, if there is any."""
    for rounds, folder in sorted(_same_but_shorter(run, out), reverse=True):
        if rounds % run.eval_every:
            warnings.warn(
                f"cannot go on from {folder}: it was evaluated after round {rounds}, its last, and a"
                f" longer run with eval_every = {run.eval_every} is not",
                stacklevel=3,
            )
            continue
        wrong = damage(folder) or models.wrong(folder)
        if not wrong:
            return Shorter(folder, rounds, models.read(folder))
        warnings.warn(f"cannot go on from {folder}: {wrong}", stacklevel=3)
    return None


def _same_but_shorter(run: Run, out: Path) -> list[tuple[int, Path]]:
    """The finished runs with models that differ in the number of rounds alone, by that number."""
    found = []
    words = glob.escape(stem_of(run.id).rpartition("-")[0])  # without the hash
    for folder in out.glob(f"{words}-*"):
        config = run_folder.read_or_nothing(folder / "run.json").get("config")
        rounds = config.get("rounds") if isinstance(config, dict) else None
        if type(rounds) is not int or not 0 < rounds < run.rounds:
            continue
        same = replace(run, rounds=rounds).id == folder.name
        if same and models.name_in(folder) and how_it_ended(folder)[0] == "finished":
            found.append((rounds, folder))
    return found


def begin(records: RunFolder, shorter: Shorter) -> None:
    """Copy the records and the state of a shorter run into the folder of a longer one, as a
    checkpoint.
    """
    states = records.folder / STATES
    names = [name for name in shorter.snapshot["clients"].values() if isinstance(name, str)]
    try:
        states.mkdir(parents=True, exist_ok=True)
        for name in names:
            content = (shorter.folder / models.FOLDER / models.named(name)).read_bytes()
            run_folder.write(states / name, content, to_disk=False)  # the checkpoint sees to that
        for file in integrity.LINES:
            run_folder.write(records.folder / file, (shorter.folder / file).read_bytes())
    except OSError as error:
        raise UserError(f"cannot go on from {shorter.folder}: {error}") from error
    sums = {file: integrity.sum_of(records.folder / file) for file in integrity.LINES}
    records.save({**shorter.snapshot, "records": sums})
