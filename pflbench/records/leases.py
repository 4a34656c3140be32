"""Who does which run of a folder: leases, so that many sweeps can share the work, and what became
of every run.

A lease is a file `leases/<run id>.<generation>`, which only one process can create. Its owner
touches it from time to time; a lease whose owner is dead, or that has not been touched for long, is
taken over by creating the next generation. How long is measured by the clock of the one who looks:
machines that share the folder need not agree on the time.
"""

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pflbench.errors import RunFailed, UserError
from pflbench.records import run_folder, schema

HEARTBEAT = 10.0  # seconds between two touches of a lease
EXPIRES = 120.0  # seconds without a touch after which it is free
FINAL = ("finished", "diverged")  # a run that ended like this is never run again


@dataclass(frozen=True)
class Owner:
    """A process, so that others on the same machine can tell whether it lives."""

    host: str
    pid: int
    started: str  # tells it from a later process of the same number
    space: str = ""  # boot and container: the numbers of processes mean something only within


class LeaseLost(RunFailed):
    """Somebody else does the run now."""


@dataclass(frozen=True)
class Lease:
    """The right to do a run; `token` tells it from another lease of the same name. Where a cluster
    may repeat a run whose machine it has lost, every attempt has a token too: only the newest holds
    the lease.
    """

    run: str
    path: Path
    token: str
    attempt: str = ""

    def held(self) -> bool:
        """Whether it has not been taken over."""
        if self.attempt and _text(self._newest) != self.attempt:
            return False
        return _content(self.path).get("token") == self.token

    @property
    def _newest(self) -> Path:
        """The file with the token of the newest attempt."""
        return self.path.with_name(f".{self.path.name}.attempt")

    def attempted(self, machine: str = "") -> "Lease":
        """The lease for a new attempt, on this machine; earlier ones lose it at their next round."""
        token = f"{secrets.token_hex(8)} {machine}"
        run_folder.write(self._newest, token.encode())
        return replace(self, attempt=token)

    def machine(self) -> str:
        """The machine of the newest attempt; "" before the first."""
        return _text(self._newest).partition(" ")[2]

    def keep(self) -> None:
        """Say that its owner lives, if it is still ours to say."""
        if not self.held():
            raise LeaseLost(
                f"{self.run} was taken over by another process, which believed this one dead"
            )
        self.touch()

    def touch(self) -> None:
        """Say that its owner lives."""
        try:
            os.utime(self.path)
        except FileNotFoundError:
            pass  # taken over; whoever does the run finds out by `held`
        except OSError as error:
            raise run_folder.unwritable(self.path.parent, error) from error

    def release(self) -> None:
        """Give it back; on a disk that has become read-only, it expires."""
        if self.held():
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
                self._newest.unlink(missing_ok=True)


@dataclass
class Leases:
    """The runs of a folder."""

    folder: Path
    expires: float = EXPIRES
    # last touch of a lease, and when we saw it
    _seen: dict[Path, tuple[int, float]] = field(default_factory=dict)

    def open(self) -> None:
        """Make the folder and see that it can be written to."""
        probe = self.folder / "leases" / f".{secrets.token_hex(4)}"
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"can this be written?")
            probe.unlink()
        except OSError as error:
            raise run_folder.unwritable(self.folder, error) from error

    def status(self, run: str) -> dict[str, Any]:
        """How a run ended: the content of its `status.json`; empty if it has not, or nobody can tell."""
        return run_folder.read_or_nothing(self.folder / run / "status.json")

    def leases(self) -> dict[str, Path]:
        """The newest lease of every run that has one."""
        newest: dict[str, Path] = {}
        for path in sorted((self.folder / "leases").glob("[!.]*")):
            newest[path.stem] = path
        return newest

    def claim(self, run: str) -> Lease | None:
        """The lease of a run, or None where somebody else has it.

        Names come again after a lease was given back; so who has created one looks once more, and
        yields to any other that lives: a slow process may have created a generation that others
        have left behind.
        """
        before = self._of(run)
        if not all(self.expired(path) for path in before):
            return None
        generation = int(before[-1].suffix[1:]) + 1 if before else 1
        lease = Lease(run, self.folder / "leases" / f"{run}.{generation:06d}", secrets.token_hex(8))
        text = json.dumps({"token": lease.token, "owner": asdict(me()), "time": time.time()})
        created = False
        try:
            with lease.path.open("x") as file:
                created = True
                file.write(text)
        except FileExistsError:
            return None
        except OSError as error:
            if created:
                with contextlib.suppress(OSError):
                    lease.path.unlink()
            raise run_folder.unwritable(self.folder, error) from error
        others = [path for path in self._of(run) if path != lease.path]
        if not all(self.expired(path) for path in others) or any(
            path > lease.path for path in others
        ):
            lease.release()
            return None
        for path in others:
            path.unlink(missing_ok=True)
        return lease

    def wait(self, run: str, seconds_between_looks: float = 1.0) -> Lease | None:
        """The lease of a run, when that of an owner who may be dead has expired: one of another
        machine or an earlier boot, or nobody's. None as soon as the owner shows that it lives.
        """
        if (lease := self.claim(run)) is not None:
            return lease
        touched = self._touched(run)
        while touched and not any(_here(_content(path).get("owner")) for path in self._of(run)):
            time.sleep(seconds_between_looks)
            if (lease := self.claim(run)) is not None:
                return lease
            if self._touched(run) != touched:
                return None
        return self.claim(run)

    def _touched(self, run: str) -> list[tuple[Path, int]]:
        """The leases of a run, and when each was touched."""
        with contextlib.suppress(FileNotFoundError):
            return [(path, path.stat().st_mtime_ns) for path in self._of(run)]
        return []

    def _of(self, run: str) -> list[Path]:
        """The leases of a run, the newest last."""
        return sorted(path for path in (self.folder / "leases").glob("[!.]*") if path.stem == run)

    def expired(self, path: Path) -> bool:
        """Whether a lease is free: its owner is known to be dead, or we have not seen it touched
        for long.
        """
        try:
            touched = path.stat().st_mtime_ns
        except FileNotFoundError:
            return False  # given back just now; the next look finds it gone
        now = time.monotonic()
        last, since = self._seen.get(path, (None, now))
        if last != touched:
            since = now
        self._seen[path] = (touched, since)
        owner = _content(path).get("owner")
        return _dead(owner) or (now - since > self.expires and not _here(owner))

    def abandoned(self, path: Path) -> bool:
        """Whether a lease is probably free, at a first look: by the clocks, which may differ
        between machines.
        """
        try:
            owner = _content(path).get("owner")
            return _dead(owner) or (
                time.time() - path.stat().st_mtime > self.expires and not _here(owner)
            )
        except FileNotFoundError:
            return True

    def owner(self, path: Path) -> str:
        """Who holds a lease, in words."""
        who = _content(path).get("owner", {})
        return f"process {who.get('pid', '?')} on {who.get('host', '?')}"

    def note(self, run: str, event: str, **details: Any) -> None:
        """Add a line to the run's history: who began, resumed or ended it, and when."""
        line = {"event": event, "time": round(time.time(), 3), **details, "owner": asdict(me())}
        folder = self.folder / run
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / run_folder.ATTEMPTS).open("a") as lines:
                lines.write(json.dumps(line) + "\n")
        except OSError as error:
            raise run_folder.unwritable(self.folder, error) from error


@cache
def me() -> Owner:
    """This process."""
    return Owner(socket.gethostname(), os.getpid(), _started(os.getpid()) or "", _space())


def _space() -> str:
    """The boot of the machine and the space of process numbers, where the system tells."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _here(owner: Mapping[str, Any] | None) -> bool:
    """Whether a process is one of this machine: then we see for ourselves whether it lives, however
    busy it is.
    """
    return (
        owner is not None
        and me().space != ""
        and (owner["host"], owner["space"]) == (me().host, me().space)
    )


def _dead(owner: Mapping[str, Any] | None) -> bool:
    """Whether a process of this machine is certainly not there any more."""
    if not owner or (owner["host"], owner["space"]) != (me().host, me().space):
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    started = _started(owner["pid"])
    return started is not None and started != owner["started"]


def _started(pid: int) -> str | None:
    """When a process began, in the system's ticks; None where the system does not tell, "zombie"
    after its end.
    """
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "zombie" if words[0] in "ZX" else words[19]


def _text(path: Path) -> str:
    """The content of a file; empty where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _content(path: Path) -> dict[str, Any]:
    """What a lease says; empty while it is being written, where it is gone, and if it is no lease."""
    try:
        return run_folder.read_json(path, schema.LEASE)
    except UserError:
        return {}
