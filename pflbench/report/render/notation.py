"""How a table of accuracies is written: the marks of a markup, and what a style of tables chooses."""

from dataclasses import dataclass
from typing import Literal

from pflbench.report.render.marks import Measure


@dataclass(frozen=True)
class Place:
    """Of a number that is among the first of its column: how it is written, and what follows it."""

    number: str = "%s"
    mark: str = ""


@dataclass(frozen=True)
class Notation:
    """How a markup writes the marks; `%s` is what is marked."""

    places: tuple[Place, ...]
    better: str = ""  # than the mean
    worse: str = ""
    plus: str = ""  # better than in the base scenario
    minus: str = ""
    fewer: str = ""  # seeds
    outdated: str = ""
    dash: str = ""
    letter: str = "%s"
    bold: str = "%s"
    proposed: str = ""  # a number of the proposed method; "": as any other
    spread: str = " \u00b1 %s"  # std behind an accuracy


@dataclass(frozen=True)
class Style:
    """What a style is; `rows` and `marks` hold where an experiment does not choose."""

    rows: tuple[str, ...]  # below the methods: mean, majority
    marks: tuple[str, ...]  # ranks, arrows, base
    ranked: tuple[Measure, ...]  # what has places and arrows
    columns: Literal[1, 2]  # of a scenario: accuracy with std, or each in its own
    legend: str  # of the places: {0}, {1}, ... are their marks
    latex: Notation
    markdown: Notation
    page: Notation
    full_captions: bool = False  # also what is as usual, such as the scale `paper`
    explained: bool = True  # captions say what the marks mean
