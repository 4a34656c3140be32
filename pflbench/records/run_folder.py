"""A run's folder: what it is (`run.json`), its numbers (`rounds.jsonl`), its timing, its
checkpoints, its end.

`rounds.jsonl` has what the seed determines and is the same in every attempt; seconds are apart in
`timing.jsonl`. Every file but the two `.jsonl` is written to one side and renamed, so a reader
never sees half of one. A checkpoint may name files of `states/` that hold clients' private states;
those go when no checkpoint needs them any more.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pflbench.errors import UserError
from pflbench.records import disk, integrity, json_text, schema
from pflbench.records.integrity import RunningSum
from pflbench.shapes import Shape

KEPT_CHECKPOINTS = 2
ATTEMPTS = "attempts.jsonl"  # the history of a run in sweeps
STATES = "states"  # the folder of clients' private states that are not in memory


class Unwritable(UserError):
    """A folder takes no file: no run in it can go on."""


class RunFolder:
    """The folder of one run."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.folder = folder
        self.run_id = run_id
        self._named: dict[str, set[str]] = {}  # checkpoint -> files of states that it needs
        self._sums = {file: RunningSum() for file in integrity.LINES}  # of what is written

    @property
    def status(self) -> dict[str, Any]:
        """How the run ended: `{"status": "finished" | "diverged" | "failed" | "stopped", "round":
        ...}`, or empty.
        """
        return read_or_nothing(self.folder / "status.json")

    def open(self, about: Mapping[str, Any], anew: bool = False) -> None:
        """Make the folder, or see that it belongs to this very run; `anew` describes it again."""
        self.refuse_another_run()
        there = read_json(self.folder / "run.json")
        if not there and (found := self._checkpoints()):
            raise UserError(
                f"checkpoint {found[-1]} is of an unknown run (no run.json);"
                " remove it or use --fresh"
            )
        said = json.loads(json.dumps({"id": self.run_id, **about}))
        if there and not anew and there.get("config") != said.get("config"):
            warnings.warn(f"{self.folder}/run.json was changed; it is written again", stacklevel=2)
            said, there = {**there, **said}, {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if anew or not there:
                write(self.folder / "run.json", json.dumps(said, indent=2).encode())
        except OSError as error:
            raise unwritable(self.folder, error) from error

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return bool(self._checkpoints())

    def refuse_another_run(self) -> None:
        """See that the folder has no records of another run."""
        there = read_or_nothing(self.folder / "run.json")
        if there and there.get("id") != self.run_id:
            raise UserError(
                f"{self.folder} has another run, {there.get('id')};"
                " choose another --out or use --fresh"
            )

    def clear(self) -> None:
        """Forget the run's numbers and checkpoints; its attempts stay known."""
        # run.json last: a checkpoint must not be without it
        for kind in ("checkpoint-*.pt", "*.npz", "*.jsonl", "status.json", "run.json"):
            for path in self.folder.glob(kind):
                if path.name != ATTEMPTS:
                    remove(path)
        for name in (STATES, "models"):
            remove(self.folder / name)

    def append(self, file: str, record: Mapping[str, Any]) -> None:
        """Add one JSON line; numbers that are not finite become null."""
        line = (json_text.dumps(record, separators=(",", ":")) + "\n").encode()
        try:
            with (self.folder / file).open("ab") as lines:
                lines.write(line)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        self._sums[file].add(line)

    def finish(
        self,
        status: str,
        round: int,
        reason: str = "",
        details: str = "",
        kinds: Sequence[str] = (),
        models: str = "",
    ) -> None:
        """Say how the run ended, when its records are on the disk; on several kinds of machines it
        is mixed. `models` names the file of its saved state.
        """
        values = {"status": status, "round": round, "reason": reason, "details": details}
        values["models"] = models
        said: dict[str, Any] = {name: value for name, value in values.items() if value != ""}
        if len(kinds) > 1:
            said["mixed"] = list(kinds)
        if status in ("finished", "diverged"):
            self._sync()
            said["records"] = {
                **self.written(),
                "run.json": integrity.sum_of(self.folder / "run.json"),
            }
        write(self.folder / "status.json", json.dumps(said, indent=2).encode())
        if status in ("finished", "diverged"):
            self.tidy()

    def written(self) -> dict[str, integrity.Sum]:
        """The checksums of what was written to the files of lines."""
        return {file: written.value() for file, written in self._sums.items()}

    def _sync(self, more: Iterable[Path] = ()) -> None:
        """See that all lines, and further files, are on the disk."""
        try:
            disk.files_to_disk([*(self.folder / file for file in integrity.LINES), *more])
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def tidy(self) -> None:
        """Delete the checkpoints of a run that has ended, which needs them no more."""
        for path in self._checkpoints():
            remove(path)
        remove(self.folder / STATES)

    def save(self, snapshot: Mapping[str, Any]) -> None:
        """Write a checkpoint whose name has its round and the checksum of its bytes; keep the
        newest two. `records` of a snapshot are the checksums of the lines up to its round, by
        default of all.
        """
        import torch  # here, because whoever only reads numbers should not wait for it

        named = _files_named(snapshot)
        known = set().union(*self._named.values())
        self._sync(self.folder / STATES / name for name in named - known)
        buffer = io.BytesIO()
        torch.save({"records": self.written(), **snapshot, "run": self.run_id}, buffer)
        path = self.folder / f"checkpoint-{snapshot['round']:06d}-{checksum(buffer.getbuffer())}.pt"
        write(path, buffer.getbuffer())
        self._named[path.name] = named
        for path in self._checkpoints()[:-KEPT_CHECKPOINTS]:
            self._named.pop(path.name, None)
            path.unlink()
        self._forget_states()

    def _forget_states(self) -> None:
        """Delete the files of states that no checkpoint needs. None is in use that the newest does
        not name.
        """
        needed = set().union(*self._named.values())
        folder = self.folder / STATES
        for name in os.listdir(folder) if folder.is_dir() and not folder.is_symlink() else ():
            if name not in needed:
                (folder / name).unlink(missing_ok=True)

    def restore(self) -> dict[str, Any] | None:
        """The newest sound checkpoint, if any. How an earlier attempt ended is forgotten, and what
        rounds after the checkpoint left in the `.jsonl` files is cut off; checkpoints that are not
        sound are deleted.
        """
        found, unsound = None, []
        for path in reversed(self._checkpoints()):
            found = self._read_checkpoint(path)
            if found is not None:
                break
            unsound.append(path)
        for path in (*unsound, *self.folder.glob(".checkpoint-*")):
            path.unlink()
        (self.folder / "status.json").unlink(missing_ok=True)
        for file in integrity.LINES:
            kept = self._lines_of(found, file) if found else b""
            write(self.folder / file, kept)
            self._sums[file] = RunningSum(kept)
        return found

    def _lines_of(self, checkpoint: Mapping[str, Any], file: str) -> bytes:
        """What a file had when the checkpoint was written."""
        path = self.folder / file
        content = path.read_bytes() if path.is_file() else b""
        return content[: checkpoint["records"][file]["bytes"]]

    def _read_checkpoint(self, path: Path) -> dict[str, Any] | None:
        """A checkpoint of this run; None, and a warning, if it or a file that it names is not
        sound.
        """
        import torch

        if not _sound(path):
            warnings.warn(f"checkpoint {path} is corrupt; using the one before it", stacklevel=3)
            return None
        found: dict[str, Any] = torch.load(path, weights_only=True)
        if found["run"] != self.run_id:
            raise UserError(
                f"checkpoint {path} is of another run, {found['run']}; remove it or use --fresh"
            )
        named = _files_named(found)
        if lack := self._lack(found, named):
            warnings.warn(f"checkpoint {path} needs {lack}; using the one before it", stacklevel=3)
            return None
        self._named[path.name] = named
        return found

    def _lack(self, checkpoint: Mapping[str, Any], named: Iterable[str]) -> str:
        """What a checkpoint needs and does not have, in words; "" if it has all."""
        for name in sorted(named):
            if not _sound(self.folder / STATES / name):
                return f"{STATES}/{name}, which is missing or corrupt"
        if "records" not in checkpoint:
            return "checksums of its rounds, which it does not have"
        for file in integrity.LINES:
            if RunningSum(self._lines_of(checkpoint, file)).value() != checkpoint["records"][file]:
                return f"the lines of its rounds in {file}, which are missing or were changed"
        return ""

    def _checkpoints(self) -> list[Path]:
        return sorted(self.folder.glob("checkpoint-*.pt"))


def rounds(folder: Path, file: str = "rounds.jsonl", trusted: bool = False) -> list[dict[str, Any]]:
    """The records of a run so far; a line that is only half written is left out. The shape of lines
    that are trusted is not checked.
    """
    path = folder / file
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(schema.line(line, file, trusted))
        except ValueError:
            break
        except UserError as error:
            raise UserError(f"cannot read {path}: line {number}: {error}") from None
    return found


def read_json(path: Path, shape: Shape | None = None) -> dict[str, Any]:
    """The content of a JSON file that has this shape, or the one of its name; empty if there is no
    file.
    """
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"cannot read {path}: it has no JSON object")
    if wrong := schema.wrong_content(content, path.name, shape):
        raise UserError(f"cannot read {path}: {wrong}")
    return content


def read_or_nothing(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if there is none, or none that can be read."""
    try:
        return read_json(path)
    except UserError:
        return {}


def remove(path: Path) -> None:
    """Delete a file, a link or a folder; what a link points to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write(path: Path, content: bytes | memoryview, to_disk: bool = True) -> None:
    """Write a file as a whole: to one side, to the disk (unless that can wait), then under its
    name.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            if to_disk:
                os.fsync(file.fileno())
        aside.replace(path)
        if to_disk:
            disk.folder_to_disk(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise unwritable(path.parent, error) from error


def unwritable(folder: Path, error: OSError) -> Unwritable:
    """The error for a folder that takes no file: full, read-only, not ours."""
    advice = "choose another --out"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "make space; the same command then goes on"
    return Unwritable(f"cannot write to {folder}: {error.strerror or error}; {advice}")


def checksum(content: bytes | memoryview) -> str:
    """16 hex digits, for the name of a file."""
    return hashlib.sha256(content).hexdigest()[:16]


def _checksum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _sound(path: Path) -> bool:
    """Whether a file has the bytes that its name says."""
    return path.exists() and path.stem.rpartition("-")[2] == _checksum_of(path)


def _files_named(snapshot: Mapping[str, Any]) -> set[str]:
    """The files of states that a checkpoint needs."""
    return {name for name in snapshot["clients"].values() if isinstance(name, str)}
