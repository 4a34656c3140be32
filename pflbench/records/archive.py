"""The records of a sweep as one compressed file, which reports read as they read its folder.

An archive is a tar file, compressed by xz, with the plans of a folder and the records of its
finished and diverged runs: no checkpoints, no leases, nothing about who ran them. Names are sorted
and owners are left out, so the same records give the same bytes. Times are kept, to the second:
they tell which of two versions of a run is the newer one, and the date on a report's page.
"""

import contextlib
import io
import itertools
import lzma
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import IO

from pflbench.errors import UserError
from pflbench.records import plan, run_folder
from pflbench.records.leases import FINAL, Leases
from pflbench.records.status import StatusReader

ENDING = ".tar.xz"
PLANS = "plans"
RECORDS = ("run.json", "rounds.jsonl", "timing.jsonl", "status.json", "representations.npz")
BYTES = 2 << 30  # of all files together, unpacked
MEMORY = 256 << 20  # bytes that the decompression may take
FILES = 100_000
CHUNK = 1 << 20
UNREADABLE = (OSError, EOFError, ValueError, OverflowError, lzma.LZMAError, tarfile.TarError)


@dataclass(frozen=True)
class Written:
    """What an archive has, and what it leaves out."""

    runs: int
    unfinished: int  # runs of the folder that are not in it
    bytes: int  # of the file


def write(folder: Path, file: Path, current: Callable[[str], str]) -> Written:
    """Write the archive of a folder; `current` tells the version of a plugin's code, as for a
    StatusReader.
    """
    planned = [run for one in plan.read(folder) for run in one.runs]
    reader = StatusReader(Leases(folder), current)
    states = [*map(reader.state, planned), *reader.unplanned(planned)]
    runs = {state.folder for state in states if state.state in FINAL}
    if not runs:
        raise UserError(f"no finished run in {folder}: there is nothing to archive")
    paths = [*(folder / PLANS).glob("*.json")]
    paths += [run / name for run in runs for name in RECORDS if (run / name).exists()]
    content = _packed(folder, sorted(paths, key=Path.as_posix))
    run_folder.write(file, content)
    unfinished = {state.planned.id for state in states if state.state not in FINAL}
    return Written(len(runs), len(unfinished), len(content))


def _packed(folder: Path, paths: list[Path]) -> bytes:
    packed = io.BytesIO()
    with lzma.open(packed, "wb") as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in paths:
                member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                member.size = path.stat().st_size
                member.mtime = int(path.stat().st_mtime)
                with path.open("rb") as content:
                    archive.addfile(member, content)
        if compressed.tell() > BYTES:
            raise UserError(
                f"the records in {folder} are more than {BYTES} bytes; archive fewer runs"
            )
    return packed.getvalue()


def stem(records: Path) -> Path:
    """The folder that an archive stands for, by its name: results/mine.tar.xz is results/mine."""
    return records.with_name(records.name.removesuffix(ENDING)) if records.is_file() else records


@contextlib.contextmanager
def opened(records: Path) -> Iterator[Path]:
    """A folder of records: the given one, or that of an archive, for as long as it is needed."""
    if not records.is_file():
        yield records
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / stem(records).name
        unpack(records, folder)
        yield folder


def unpack(file: Path, folder: Path) -> None:
    """Write the files of an archive into a folder that has none of them: only names that an archive
    may have, and no links.
    """
    try:
        with tempfile.TemporaryFile() as content:
            _decompress(file, content)
            content.seek(0)
            with tarfile.open(fileobj=content, mode="r:") as archive:
                _extract(file, archive, folder)
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise UserError(f"cannot unpack {file}: {reason}") from error


def _decompress(file: Path, content: IO[bytes]) -> None:
    """The tar file in an archive; within bounds, whatever the archive says."""
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, MEMORY)
    with file.open("rb") as packed:
        while not decompressor.eof:
            more = packed.read(CHUNK) if decompressor.needs_input else b""
            if decompressor.needs_input and not more:
                raise EOFError("it is cut short")
            content.write(decompressor.decompress(more, CHUNK))
            if content.tell() > BYTES:
                raise UserError(f"{file} is not read: it unpacks to more than {BYTES} bytes")


def _extract(file: Path, archive: tarfile.TarFile, folder: Path) -> None:
    members = list(itertools.islice(archive, FILES + 1))
    _check(file, members)
    there = [member.name for member in members if (folder / member.name).exists()]
    if there:
        raise UserError(f"{folder} has {there[0]} already; choose another --out")
    for member in members:
        _write(archive, member, folder / member.name)


def _check(file: Path, members: list[tarfile.TarInfo]) -> None:
    if len(members) > FILES or sum(member.size for member in members) > BYTES:
        raise UserError(f"{file} is not read: it has more than {FILES} files or {BYTES} bytes")
    for member in members:
        if not member.isreg() or not _is_record(member.name):
            raise UserError(f"{file} is not an archive of records: it has {member.name!r}")


def _is_record(name: str) -> bool:
    """Whether a name is plans/NAME.json or RUN/FILE; drives and backslashes count, as on Windows."""
    parts = PureWindowsPath(name).parts
    if "/".join(parts) != name or len(parts) != 2 or ".." in parts:
        return False
    place, file = parts
    return file.endswith(".json") if place == PLANS else file in RECORDS


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = archive.extractfile(member)
    assert content is not None  # of a regular file
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("xb") as target:
        shutil.copyfileobj(content, target)
    os.utime(path, (member.mtime, member.mtime))
