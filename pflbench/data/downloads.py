"""Files that are fetched from where they are published, and kept once their sums are right."""

import hashlib
import os
import secrets
import shutil
import urllib.request
from pathlib import Path

from pflbench.data.torchvision_files import NotFound
from pflbench.errors import UserError

WAIT = 60  # seconds without an answer


def fetch(url: str, path: Path, sha256: str) -> None:
    """Download a file, unless it is there with this sum; it appears whole and right, or not at
    all.
    """
    if path.is_file() and digest(path) == sha256:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    request = urllib.request.Request(url, headers={"User-Agent": "pflbench"})
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target)
        found = digest(part)
        if found != sha256:
            raise RuntimeError(f"{url} has the SHA-256 sum {found} and not {sha256}")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def there(path: Path, sha256: str) -> Path:
    """The file, if it is there with this sum."""
    if not path.is_file():
        raise NotFound(f"{path} not found")
    if digest(path) != sha256:
        raise NotFound(f"{path} has another SHA-256 sum than {sha256}")
    return path


def verify(path: Path, title: str, *sums: str) -> None:
    """Refuse a file of somebody's own that is not the published one, or one of them."""
    try:
        found = digest(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if found not in sums:
        raise UserError(
            f"{path} is not the published file of {title}: its SHA-256 sum is {found} and not"
            f" {' or '.join(sums)}"
        )


def digest(path: Path) -> str:
    """The SHA-256 sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
