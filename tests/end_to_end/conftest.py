"""What tests of the command line share."""

import signal
from pathlib import Path

import pytest

from pflbench.cli import main

from .commands import Call

# In a shell's background, processes that we start would never hear the Ctrl-C that tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Call:
    """The command line in this process, in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main.main(words)
        return int(end.value.code or 0), *capfd.readouterr()

    return run
