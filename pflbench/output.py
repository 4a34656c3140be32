"""Lines that a person reads: progress on standard output, which may be closed or full while a run
goes on, and messages on standard error.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def show(line: str) -> None:
    """Print a line. If nobody reads it any more, this is Ctrl-C: runs save what they have, and end.
    If it cannot be written, as to a full disk, runs go on without it.
    """
    try:
        print(line, flush=True)
    except BrokenPipeError:
        raise KeyboardInterrupt from None
    except OSError:
        pass


def say(kind: str, message: object) -> None:
    """One line on stderr: `pflbench: error: ...`; line breaks in the message become spaces."""
    print(f"pflbench: {kind}: {' '.join(str(message).split())}", file=sys.stderr)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Python warnings without the source line that they came from."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say("warning", message)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def plural(number: str | int, word: str) -> str:
    """ "1 seed", "5 seeds"."""
    return f"{number} {word}{'' if str(number) == '1' else 's'}"
