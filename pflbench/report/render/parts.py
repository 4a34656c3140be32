"""What a report consists of, before it is written: sections of tables and figures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class TablePart:
    """A table in all its forms. `rows` are cells as text for a page; `numbers` are what to sort
    them by, None where it is the text.
    """

    name: str  # of its files: "accuracy"
    title: str
    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[tuple[float | None, ...], ...]
    latex: str = ""  # for \input; empty where it makes no sense
    document: str = ""  # the same as a page of its own
    csv: str = ""
    markdown: str = ""
    notes: tuple[str, ...] = ()  # below the table: what the records of its runs say is off
    # of `rows`: "bold", "underlined" or ""; (): none has any
    looks: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class FigurePart:
    """A figure; drawn when it is asked for, by the process that saves it."""

    name: str
    title: str
    caption: str
    make: Callable[[float], Any]  # Matplotlib's figure, of a width in inches
    width: float  # of its files

    @cached_property
    def figure(self) -> Any:
        """As its files have it."""
        return self.make(self.width)


@dataclass(frozen=True)
class Section:
    """All of one experiment."""

    name: str
    title: str
    notes: tuple[str, ...] = ()  # what the reader must know: missing and failed runs, refused tests
    tables: tuple[TablePart, ...] = ()
    figures: tuple[FigurePart, ...] = field(default_factory=tuple)
