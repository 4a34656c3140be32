"""What a finished run leaves behind if asked to (`--save-models`): the state after its last round.

`models/server-CHECKSUM.pt` has the server's state, and for every client that has trained its private
state, or the name of the file `models/CLIENT-CHECKSUM.pt` that it is in. From these, models are loaded
and a longer run goes on. The files are in torch's weights-only format: reading them executes
nothing. `status.json` names the first file, and every name has the checksum of what is in the file.
The same numbers give the same bytes.
"""

import io
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pflbench.errors import UserError
from pflbench.records import run_folder
from pflbench.records.run_folder import checksum

FOLDER = "models"
KEY = "models"  # of status.json: the name of the server's file
SERVER = re.compile(r"server-[0-9a-f]{16}\.pt")
CLIENT = re.compile(r"\d{6,}-[0-9a-f]{16}\.pt")


def save(
    folder: Path, run_id: str, snapshot: Mapping[str, Any], states: Mapping[int, dict[str, Any]]
) -> str:
    """Write the state of a run to its folder, one client at a time, and return the name of the
    server's file.
    """
    place = folder / FOLDER
    run_folder.remove(place)  # of an attempt that was killed while it wrote
    try:
        place.mkdir(parents=True)
    except OSError as error:
        raise run_folder.unwritable(folder, error) from error
    clients = {id: _client(place, id, states[id]) for id in sorted(states)}
    numbers = {
        key: dict(sorted(value.items())) if isinstance(value, dict) else value
        for key, value in snapshot.items()
        if key not in ("server", "clients", "records")
    }
    whole = {**numbers, "run": run_id, "server": _plain(snapshot["server"]), "clients": clients}
    content = _bytes(whole)
    name = f"server-{checksum(content)}.pt"
    run_folder.write(place / name, content)
    return name


def _client(place: Path, id: int, state: dict[str, Any]) -> str | dict[str, Any]:
    """The name of the file that a client's state is written to; an empty one needs none."""
    if not state:
        return {}
    content = _bytes(_plain(state))
    name = f"{id:06d}-{checksum(content)}.pt"
    run_folder.write(place / name, content)
    return name


def _plain(tree: Any) -> Any:
    """A tree of tensors whose bytes depend on its keys and numbers alone: no views, row-major, equal
    keys are the same object.
    """
    if isinstance(tree, dict):
        return {
            sys.intern(key) if isinstance(key, str) else key: _plain(branch)
            for key, branch in tree.items()
        }
    return tree.detach().cpu().contiguous().clone()


def _bytes(content: Any) -> bytes:
    import torch  # here, because whoever only reads numbers should not wait for it

    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def name_in(folder: Path) -> str:
    """The name of the server's file of a run that saved its models; "" if it did not, or has them no
    more.
    """
    name = run_folder.read_or_nothing(folder / "status.json").get(KEY)
    known = isinstance(name, str) and SERVER.fullmatch(name) is not None
    return str(name) if known and (folder / FOLDER / str(name)).is_file() else ""


def read(folder: Path) -> dict[str, Any]:
    """The state of a run, in which private states of clients may be names of files, see `client`."""
    name = name_in(folder)
    if not name:
        raise UserError(f"{folder} has no models; a run keeps them with --save-models")
    found = _load(folder / FOLDER / name)
    if not isinstance(found, dict) or not {"round", "server", "clients", "kinds"} <= found.keys():
        raise UserError(f"{folder / FOLDER / name} is not the state of a run")
    return found


def client(folder: Path, state: Any) -> dict[str, Any]:
    """The private state of a client: what `read` has of it, or the content of the file that it
    names.
    """
    found = _load(folder / FOLDER / named(state)) if isinstance(state, str) else state
    if not isinstance(found, dict):
        raise UserError(f"{folder / FOLDER} has no private state where it should have one")
    return found


def named(name: str) -> str:
    """The name of a client's file, and nothing else."""
    if not CLIENT.fullmatch(name):
        raise UserError(f"{name!r} is not the name of a client's state")
    return name


def wrong(folder: Path) -> str:
    """What is wrong with the saved models of a run, by all their bytes; "" if nothing is, or it has
    none.
    """
    try:
        if name_in(folder):
            for state in read(folder)["clients"].values():
                client(folder, state)
    except UserError as error:
        return str(error)
    return ""


def _load(path: Path) -> Any:
    """The content of a file whose bytes are those that its name says."""
    import torch

    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if not path.stem.endswith(f"-{checksum(content)}"):
        raise UserError(f"{path} was changed after the run had ended; --fresh runs it again")
    try:
        return torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:  # whatever torch says of a file that is none of ours
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"cannot read {path}: {reason}") from error
