"""What a person sees at the command line: messages of one line, tables, JSON."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import Any, TextIO

from pflbench.output import say, warnings_in_one_line
from pflbench.records import json_text

__all__ = ["dump", "only_json", "say", "table", "warnings_in_one_line"]


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: fitted to a terminal, or as plain columns that are never cut."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
        for row in [list(headers), *cells]:
            print(
                "  ".join(
                    cell.ljust(width) for cell, width in zip(row, widths, strict=True)
                ).rstrip()
            )
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*headers, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in cells:
        drawn.add_row(*map(Text, row))
    Console().print(drawn)


_json_to: ContextVar[TextIO | None] = ContextVar("_json_to", default=None)


@contextmanager
def only_json() -> Iterator[None]:
    """Inside, JSON alone goes to standard output, and all that anyone else prints to standard
    error: a plugin may print.
    """
    token = _json_to.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _json_to.reset(token)


def dump(values: Any) -> None:
    """Print JSON; numbers that are not finite become null."""
    print(json_text.dumps(values, indent=2), file=_json_to.get() or sys.stdout)
