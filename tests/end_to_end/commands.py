"""How tests give commands, and what they read of the folders that these leave behind."""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pflbench import testing
from pflbench.cli import main
from pflbench.simulation import fork_server

PFLBENCH = [sys.executable, "-m", "pflbench"]
Call = Callable[..., tuple[int, str, str]]  # the fixture `call`: exit code, stdout, stderr


# The small problem as options: without and with the number of its clients.
TOY = f"--dataset {testing.TOY['dataset']} --model mlp --width 8 --min-samples 8".split()
SMALL = [*TOY, "--clients", "4", "--workers", "1"]


def one_line(code: int, out: str, err: str, said: str) -> None:
    """See that a command was refused: nothing on stdout, one line on stderr, exit code 2."""
    assert (code, out) == (2, "")
    assert err.startswith("pflbench: error: ")
    assert err.count("\n") == 1 and err.endswith("\n")
    assert said in err


def fine(call: Call, *words: str) -> str:
    """What a command says that has nothing to complain about."""
    code, out, err = call(*words)
    assert (code, err) == (0, "")
    return out


def done(*words: str) -> str:
    """What a command prints that must succeed, for fixtures of more than one test."""
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main(words)
        except SystemExit as end:
            code = end.code
    assert (code, err.getvalue()) == (0, "")
    return out.getvalue()


class Started:
    """A command in a process, and in a process group, of its own.

    The process is forked from a server that has torch loaded, so that it starts at once; what it
    prints goes to files. Otherwise it is like `subprocess.Popen`.
    """

    def __init__(self, function: Callable[..., object], *words: object) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.files = [self.folder / name for name in ("stdout", "stderr")]
        context = fork_server.context()
        said = (dict(os.environ), self.files, function, words)
        self.process = context.Process(target=_work, args=said)
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    @property
    def returncode(self) -> int:
        """Of a process that has ended."""
        assert self.process.exitcode is not None
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.process.exitcode

    def said(self) -> str:
        """What the process has printed so far."""
        return self.files[0].read_text() if self.files[0].exists() else ""

    def kill(self) -> None:
        self.process.kill()

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """What the process has printed when it has ended."""
        self.process.join(timeout)
        assert self.process.exitcode is not None
        out, err = (path.read_text() if path.exists() else "" for path in self.files)
        shutil.rmtree(self.folder)
        return out, err


def _work(
    environment: dict[str, str],
    files: list[Path],
    function: Callable[..., object],
    words: tuple[object, ...],
) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the server ignores
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup` ignores
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in enumerate(files, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    function(*words)


def started(*words: object) -> Started:
    """A command, at work in a process of its own."""
    return Started(_command, *map(str, words))


def _command(*words: str) -> None:
    sys.argv = ["pflbench", *words]
    main.main()


def wait_until(condition: Callable[[], object], process: Started) -> None:
    """Wait until something is so, or the process has ended."""
    deadline = time.monotonic() + 300
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def numbers(out: Path) -> dict[str, bytes]:
    """The records of every run."""
    return {path.parent.name: path.read_bytes() for path in out.glob("*/rounds.jsonl")}


def history(out: Path) -> dict[str, list[str]]:
    """The events of every run, in order."""
    return {
        path.parent.name: [json.loads(line)["event"] for line in path.read_text().splitlines()]
        for path in out.glob("*/attempts.jsonl")
    }


def finished(out: Path) -> int:
    """How many runs have ended."""
    return len(list(out.glob("*/status.json")))
