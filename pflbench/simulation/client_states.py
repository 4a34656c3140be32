"""Private states of clients: in memory up to a budget, the least recently used ones beyond it in
files.

`<run folder>/states/CLIENT-ROUND-CHECKSUM.pt` is written to one side and renamed, and never
changes. `RunFolder` deletes it when no checkpoint needs it any more; the newest checkpoint names
every file that is in use.
"""

import io
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import torch

from pflbench.api import State
from pflbench.errors import RunFailed
from pflbench.records import run_folder
from pflbench.simulation import messages


class ClientStates(MutableMapping[int, State]):
    """Client -> state; `memory` is how many bytes of tensors stay in memory. States are replaced,
    never edited.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self.folder = folder
        self.memory = memory
        self.round = 0  # the round that is being played, for the names of files
        self._near: OrderedDict[int, State] = OrderedDict()  # in memory, least recently used first
        self._bytes = 0  # of these
        self._files: dict[int, str] = {}  # of states as they were written, in memory or not
        self._changed: set[int] = set()  # since the last `write_unchanged`

    def __getitem__(self, id: int) -> State:
        if id in self._near:
            self._near.move_to_end(id)
            return self._near[id]
        state = self._read(id)
        self._place(id, state)
        return state

    def __setitem__(self, id: int, state: State | str) -> None:
        """Keep a state, or the name of the file that it is in."""
        if id in self:
            del self[id]
        if isinstance(state, str):
            self._files[id] = state
        else:
            self._changed.add(id)
            self._place(id, state)

    def __delitem__(self, id: int) -> None:
        if id not in self:
            raise KeyError(id)
        self._changed.discard(id)
        self._files.pop(id, None)
        self._bytes -= _size(self._near.pop(id, {}))

    def __contains__(self, id: object) -> bool:
        return id in self._near or id in self._files

    def __iter__(self) -> Iterator[int]:
        return iter(self.copy())

    def __len__(self) -> int:
        return len(self._near.keys() | self._files.keys())

    def copy(self) -> dict[int, State | str]:
        """What a checkpoint holds: for every client its state, or the name of the file that it is
        in.
        """
        return {**self._near, **self._files}

    def write_unchanged(self) -> None:
        """Write the states that have not changed since the last call and have no file; they stay in
        memory.

        Called after every checkpoint, it leaves to the next one the states that changed lately, and
        names of the others.
        """
        for id, state in self._near.items():
            if id not in self._files and id not in self._changed and _size(state):
                self._write(id)
        self._changed.clear()

    def _place(self, id: int, state: State) -> None:
        """Into memory, and others out of it."""
        self._near[id] = state
        self._bytes += _size(state)
        while self._bytes > self.memory:
            oldest = next(iter(self._near))
            if oldest not in self._files:
                self._write(oldest)
            self._bytes -= _size(self._near.pop(oldest))

    def _write(self, id: int) -> None:
        buffer = io.BytesIO()
        torch.save(self._near[id], buffer)
        content = buffer.getvalue()
        name = f"{id:06d}-{self.round:06d}-{run_folder.checksum(content)}.pt"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise run_folder.unwritable(self.folder, error) from error
        run_folder.write(self.folder / name, content, to_disk=False)  # the checkpoint sees to that
        self._files[id] = name

    def _read(self, id: int) -> State:
        path = self.folder / self._files[id]
        content = path.read_bytes() if path.exists() else b""
        if not path.stem.endswith(run_folder.checksum(content)):
            raise RunFailed(
                f"the private state of client {id} in {path} is missing or corrupt; the same command continues from the"
                " newest checkpoint that does not need it, or from the start"
            )
        state: State = torch.load(io.BytesIO(content), weights_only=True)
        return state


def _size(state: State) -> int:
    return sum(messages.parts(state).values())
