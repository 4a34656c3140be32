"""How a run ended, and its records if they are those that it wrote."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflbench.errors import UserError
from pflbench.records import integrity, run_folder
from pflbench.records.leases import FINAL

ENDED = (*FINAL, "failed")
DAMAGED = "damaged"  # it has ended, but its records are not those that it wrote


def how_it_ended(folder: Path) -> tuple[str, str]:
    """The state of a run by its `status.json`, missing where it has none, and why."""
    return _ended(folder)[:2]


def _ended(folder: Path) -> tuple[str, str, dict[str, Any]]:
    """The same, and all that `status.json` says."""
    try:
        ended = run_folder.read_json(folder / "status.json")
    except UserError as error:
        return DAMAGED, str(error), {}
    state = ended.get("status")
    if state not in ENDED:
        if not ended or state == "stopped":
            return "missing", "", ended
        return DAMAGED, "status.json does not say how the run ended", ended
    wrong = integrity.wrong_size(folder, ended) if state in FINAL else ""
    return (DAMAGED, wrong, ended) if wrong else (str(state), ended.get("reason", ""), ended)


def unusable(folder: Path) -> str:
    """Why a run must be done anew, in words: its end or its description cannot be read, or its
    records have other bytes than when it ended. "" if it can be gone on with, or has ended well.
    """
    state, reason, ended = _ended(folder)
    if state == DAMAGED:
        return reason
    try:
        run_folder.read_json(folder / "run.json")
    except UserError as error:
        return str(error)
    return integrity.wrong_bytes(folder, ended) if state in FINAL else ""


@dataclass(frozen=True)
class Records:
    """What a run has written so far; `about` is its run.json."""

    about: dict[str, Any]
    rounds: list[dict[str, Any]]
    timing: list[dict[str, Any]]


class Damaged(UserError):
    """The records of a run are not those that it wrote."""


def verified(folder: Path, quick: bool = False) -> Records:
    """The records of a run, whatever its state; Damaged, with the reason, if they are not sound, by
    all their bytes. `quick` takes lines whose checksum is right for what a run writes.
    """
    state, reason, said = _ended(folder)
    if state == DAMAGED:
        raise Damaged(reason)
    ended = said if state in FINAL else {}
    if wrong := integrity.wrong_bytes(folder, ended):
        raise Damaged(wrong)
    try:
        about = run_folder.read_json(folder / "run.json")
        quick = quick and state in FINAL
        lines, timing = (run_folder.rounds(folder, file, quick) for file in integrity.LINES)
        wrong = integrity.wrong_numbers(lines, ended)
        if about and not wrong and not quick:
            wrong = integrity.wrong_id(about) or integrity.wrong_clients(about, lines)
    except UserError as error:
        raise Damaged(str(error)) from error
    if wrong:
        raise Damaged(wrong)
    return Records(about, lines, timing)


def damage(folder: Path) -> str:
    """What is wrong with the records of a run, in words; "" if nothing is."""
    try:
        verified(folder)
    except Damaged as error:
        return str(error)
    return ""
