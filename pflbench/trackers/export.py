"""From records to a tracker: every run of a folder that has ended."""

import warnings
from pathlib import Path

from pflbench.errors import RunFailed, UserError
from pflbench.records import run_folder
from pflbench.records.leases import FINAL
from pflbench.records.verification import damage, how_it_ended
from pflbench.trackers.points import described, points
from pflbench.trackers.tracker import Tracker, reason


def ended_runs(folder: Path) -> dict[Path, str]:
    """The runs of a folder that are finished or have diverged, and which of the two; damaged ones
    are left out with a warning.
    """
    if not folder.is_dir():
        raise UserError(f"no runs in {folder}: there is no such folder")
    found = {}
    for run in sorted(path.parent for path in folder.glob("*/status.json")):
        if wrong := damage(run):
            warnings.warn(f"{run.name} is damaged and left out: {wrong}", stacklevel=2)
            continue
        status = how_it_ended(run)[0]
        if status in FINAL:
            found[run] = status
    if not found:
        raise UserError(f"no finished run in {folder}: there is nothing to export")
    return found


def export(run: Path, status: str, tracker: Tracker) -> None:
    """Write all rounds of a run to a tracker."""
    about = described(run)
    end = (run / "status.json").stat().st_mtime
    found = points(run_folder.rounds(run), run_folder.rounds(run, "timing.jsonl"), end)
    try:
        session = tracker.start(about)
        session.write(found)
        session.end(status)
    except Exception as error:  # of any kind: they are the packages' own
        raise RunFailed(f"cannot write {run.name} to {tracker.place}: {reason(error)}") from error
