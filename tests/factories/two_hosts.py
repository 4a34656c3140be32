"""Two hosts on one machine: network namespaces with a cable between them, and a Ray node in each."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ADDRESSES = ("10.231.7.1", "10.231.7.2")  # known inside the namespaces only
PORT = 6399
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
QUICK = {  # a lost node is given up after some two seconds
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}


def ray_settings() -> dict[str, str]:
    """Environment of a Ray cluster that only its own processes may use."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    quiet = {"RAY_worker_niceness": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    return {**os.environ, **QUICK, **token, **quiet}


def start(command: Sequence[str], environment: dict[str, str], log: Path) -> subprocess.Popen[str]:
    """A command in a process group of its own, which writes to a log."""
    with log.open("w") as file:
        return subprocess.Popen(
            command, env=environment, stdout=file, stderr=file, text=True, start_new_session=True
        )


def end(process: subprocess.Popen[str]) -> None:
    """End a process and all that it has started in its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not after {seconds:.0f} seconds"
        time.sleep(0.02)


def head(address: str, port: int, folder: Path) -> list[str]:
    """The command that starts a cluster with one core."""
    where = [f"--node-ip-address={address}", f"--port={port}", f"--temp-dir={folder}"]
    return [*RAY, "--head", "--num-cpus=1", "--include-dashboard=false", *where]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class TwoHosts:
    """Two namespaces that are removed at the end, with all processes in them."""

    def __init__(self) -> None:
        mark = secrets.token_hex(3)
        self.names = [f"pfl-{mark}-{side}" for side in "ab"]
        self.cables = [f"v{mark}{side}" for side in "ab"]
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            said = getattr(error, "stderr", None) or str(error)
            pytest.skip(f"no network namespaces can be made here: {said.strip()}")

    def _make(self) -> None:
        for name in self.names:
            _ip("netns", "add", name)
        (a, b), (ours, theirs) = self.names, self.cables
        _ip(*f"link add {ours} netns {a} type veth peer name {theirs} netns {b}".split())
        for name, cable, address in zip(self.names, self.cables, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/30", "dev", cable)
            for link in ("lo", cable):
                _ip("-n", name, "link", "set", link, "up")

    def inside(self, host: int, command: Sequence[str]) -> list[str]:
        """A command as it is given on one of the hosts."""
        return ["ip", "netns", "exec", self.names[host], *command]

    def listens(self, host: int, address: str, port: int) -> bool:
        """Whether a port of a host can be reached."""
        code = f"import socket; socket.create_connection(({address!r}, {port}), 1)"
        knock = self.inside(host, [sys.executable, "-S", "-c", code])
        return subprocess.run(knock, capture_output=True, check=False).returncode == 0

    def cut(self) -> None:
        """Cut the cable: no connection is closed, nothing arrives any more."""
        _ip("-n", self.names[1], "link", "set", self.cables[1], "down")

    def remove(self) -> None:
        for name in self.names:
            if shutil.which("ip") is None or not Path(f"/var/run/netns/{name}").exists():
                continue
            for pid in _ip("netns", "pids", name).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
            _ip("netns", "del", name)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=True)
    return done.stdout
