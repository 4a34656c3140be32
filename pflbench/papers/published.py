"""Published accuracies that a report compares measured ones with: those that ship, and anyone's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pflbench.errors import unknown
from pflbench.papers import papers
from pflbench.papers.paper import Config, Pair, Paper
from pflbench.records.published import Numbers


@dataclass(frozen=True)
class Published:
    """What one source published. Methods are called by their titles, scenarios as `scenario_of`
    has them, or as an experiment does.
    """

    source: str  # as captions name it
    accuracy: Mapping[tuple[str, str], Pair]  # (method, scenario) -> accuracy and std in percent
    seeds: str = ""  # behind the numbers, in words
    conditions: str = ""  # what captions say of them
    std: str = ""  # over what: clients, seeds; "": not known
    scenario_of: Callable[[Config], str] | None = None
    paper: Paper | None = None
    best_round_weighted: bool = False  # the best round on test samples, clients weighted by these


def sources(given: Sequence[str | Numbers]) -> list[Published]:
    """All sources of what a report is to compare with."""
    return [source for one in given for source in _sources(one)]


def names() -> list[str]:
    """What ships."""
    return sorted(["pfllib", *(paper.key for paper in papers())])


def _sources(given: str | Numbers) -> list[Published]:
    if isinstance(given, Numbers):
        return by_source(given)
    if given not in names():
        raise unknown("published numbers", given, [*names(), "FILE.csv"])
    paper = next((paper for paper in papers() if paper.key == given), None)
    if paper:
        return [_of_paper(paper)]
    from pflbench.papers import pfllib

    return pfllib.leaderboard()


def by_source(numbers: Numbers) -> list[Published]:
    """The lines of a file, source by source."""
    found: dict[str, dict[tuple[str, str], Pair]] = {}
    for line in numbers.lines:
        lines = found.setdefault(line.source or numbers.name, {})
        lines[line.method, line.scenario] = (line.accuracy, line.std)
    return [Published(source, accuracy) for source, accuracy in found.items()]


def _of_paper(paper: Paper) -> Published:
    return Published(
        f"the {paper.name} paper",
        paper.accuracy,
        f"{paper.seeds} seeds",
        paper.conditions,
        "clients",
        paper.column_of,
        paper,
    )
