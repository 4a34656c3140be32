"""Which files of a folder a report wrote: `.report.json`, their names and checksums. Others are not
ours to remove.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from pflbench.errors import UserError
from pflbench.records import run_folder

NAME = ".report.json"


def replace(
    out: Path, written: Iterable[Path], covered: Callable[[PurePosixPath], bool]
) -> list[Path]:
    """Remove what an earlier report wrote in this one's place, and remember what this one wrote;
    what was removed.

    `covered` says whether this report is in the place of an earlier one's file: it would be among
    the `written` if it were still made. A file that has been changed since is the user's, and
    stays.
    """
    now = {path.relative_to(out).as_posix(): _checksum(path) for path in written}
    before = _read(out)
    gone = {
        name: checksum
        for name, checksum in before.items()
        if name not in now and covered(PurePosixPath(name))
    }
    removed = [out / name for name, checksum in gone.items() if _checksum(out / name) == checksum]
    for path in removed:
        _remove(path)
    known = {name: checksum for name, checksum in {**before, **now}.items() if name not in gone}
    if known or before:
        run_folder.write(out / NAME, json.dumps(dict(sorted(known.items())), indent=1).encode())
    return removed


def _remove(path: Path) -> None:
    """And its folder, if that is empty then."""
    try:
        path.unlink()
    except OSError as error:
        raise run_folder.unwritable(path.parent, error) from error
    with contextlib.suppress(OSError):
        path.parent.rmdir()


def _read(out: Path) -> dict[str, str]:
    """Names of files in the folder, with checksums; of a list that is not sound, none."""
    try:
        found = run_folder.read_json(out / NAME)
    except UserError:
        return {}
    sound = isinstance(found, dict) and all(isinstance(one, str) for one in found.values())
    if not sound:
        return {}
    return {name: checksum for name, checksum in found.items() if _inside(name)}


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return ".." not in path.parts and not path.is_absolute()


def _checksum(path: Path) -> str:
    """Empty where there is no such file."""
    if not path.is_file() or path.is_symlink():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()
