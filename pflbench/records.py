"""A run's folder: what it is (`run.json`), its numbers (`rounds.jsonl`), its timing, its checkpoints, its end.

`rounds.jsonl` holds what the seed determines and is the same on every try; seconds are apart in `timing.jsonl`.
Every file but the two `.jsonl` is written to one side and renamed, so a reader never sees half of one.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pflbench import jsontext
from pflbench.errors import UserError

KEPT_CHECKPOINTS = 2
TRIES = "tries.jsonl"  # the history of a run in sweeps


class Unwritable(UserError):
    """A folder takes no file: no run in it can go on."""


class Records:
    """The folder of one run."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.folder = folder
        self.run_id = run_id

    @property
    def status(self) -> dict[str, Any]:
        """How the run ended: `{"status": "done" | "diverged" | "failed" | "stopped", "round": ...}`, or empty."""
        return read_json(self.folder / "status.json")

    def open(self, about: Mapping[str, Any]) -> None:
        """Make the folder, or see that it belongs to this very run."""
        there = read_json(self.folder / "run.json")
        if there and there.get("id") != self.run_id:
            raise UserError(f"{self.folder} holds another run, {there.get('id')}; choose another --out or use --fresh")
        if not there and (strays := self._checkpoints()):
            raise UserError(f"checkpoint {strays[-1]} is of an unknown run (no run.json); remove it or use --fresh")
        if self.outdated(about):
            warnings.warn(f"the plugin has changed since {self.folder} was begun; --fresh starts anew", stacklevel=3)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not there:
                write(self.folder / "run.json", json.dumps({"id": self.run_id, **about}, indent=2).encode())
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def outdated(self, about: Mapping[str, Any]) -> bool:
        """Whether the run was begun with another version of its plugin."""
        there = read_json(self.folder / "run.json")
        return bool(there) and there.get("code", {}).get("plugin") != about["code"]["plugin"]

    def clear(self) -> None:
        """Forget the run's numbers and checkpoints; who tried it when stays known."""
        kinds = ("checkpoint-*.pt", "*.npz", "*.jsonl", "*.json")  # run.json last: a checkpoint must not be without it
        for path in [path for kind in kinds for path in sorted(self.folder.glob(kind), reverse=True)]:
            if path.name != TRIES:
                path.unlink()

    def append(self, file: str, record: Mapping[str, Any]) -> None:
        """Add one JSON line; numbers that are not finite become null."""
        try:
            with (self.folder / file).open("a") as lines:
                lines.write(jsontext.dumps(record, separators=(",", ":")) + "\n")
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def finish(self, status: str, round: int, reason: str = "", details: str = "") -> None:
        """Say how the run ended; a finished run needs its checkpoints no more."""
        values = {"status": status, "round": round, "reason": reason, "details": details}
        write(self.folder / "status.json", json.dumps({k: v for k, v in values.items() if v != ""}, indent=2).encode())
        if status in ("done", "diverged"):
            for path in self._checkpoints():
                path.unlink()

    def save(self, snapshot: Mapping[str, Any]) -> None:
        """Write a checkpoint whose name carries its round and the checksum of its bytes; keep the newest two."""
        import torch  # here, because whoever only reads numbers should not wait for it

        from pflbench import wire

        try:
            for file in ("rounds.jsonl", "timing.jsonl"):
                with (self.folder / file).open("a") as lines:
                    os.fsync(lines.fileno())  # the numbers of these rounds are safe before the checkpoint says so
        except OSError as error:
            raise unwritable(self.folder, error) from error
        buffer = io.BytesIO()
        server = wire.sent(snapshot["server"])  # a tensor that is a view would be saved with all it is a view of
        torch.save({**snapshot, "server": server, "run": self.run_id}, buffer)
        content = buffer.getvalue()
        write(self.folder / f"checkpoint-{snapshot['round']:06d}-{_checksum(content)}.pt", content)
        for path in self._checkpoints()[:-KEPT_CHECKPOINTS]:
            path.unlink()

    def restore(self) -> dict[str, Any] | None:
        """The newest sound checkpoint, if any. How an earlier try ended is forgotten, and what rounds after the
        checkpoint left in the `.jsonl` files is cut off.
        """
        import torch

        found = None
        for path in reversed(self._checkpoints()):
            content = path.read_bytes()
            if path.stem.rpartition("-")[2] != _checksum(content):
                warnings.warn(f"checkpoint {path} is corrupt; using the one before it", stacklevel=2)
                continue
            found = torch.load(io.BytesIO(content), weights_only=True)
            if found["run"] != self.run_id:
                raise UserError(f"checkpoint {path} is of another run, {found['run']}; remove it or use --fresh")
            break
        (self.folder / "status.json").unlink(missing_ok=True)
        last = found["round"] if found else -1
        for file in ("rounds.jsonl", "timing.jsonl"):
            kept = [line for line, record in _lines(self.folder / file) if record["round"] <= last]
            write(self.folder / file, b"".join(kept))
        return found

    def _checkpoints(self) -> list[Path]:
        return sorted(self.folder.glob("checkpoint-*.pt"))


def rounds(folder: Path, file: str = "rounds.jsonl") -> list[dict[str, Any]]:
    """The records of a run so far; a line that is only half written is left out."""
    return [record for _, record in _lines(folder / file)]


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if there is none."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    return content


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole: to one side, to the disk, then under its name."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise unwritable(path.parent, error) from error


def unwritable(folder: Path, error: OSError) -> Unwritable:
    """The error for a folder that takes no file: full, read-only, not ours."""
    advice = "choose another --out"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "make space; the same command then goes on, and what is stored is sound"
    return Unwritable(f"cannot write to {folder}: {error.strerror or error}; {advice}")


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                yield line, json.loads(line)
            except ValueError:
                return


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
