"""What must be said with the tables of an experiment: in its section, and below every table."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pflbench.output import plural
from pflbench.records.verification import DAMAGED, ENDED
from pflbench.report.grouping.headings import Heading, differing, phrase, unusual
from pflbench.report.grouping.layout import Layout, counted, outdated
from pflbench.report.load.runs import Choice, Numbers
from pflbench.report.render.grid import OUTDATED
from pflbench.report.render.marks import Row
from pflbench.report.tables.captions import shared_fields
from pflbench.report.words import POINTS

STATES = (*ENDED, DAMAGED, "running", "missing")
REASONS = 10  # failed, diverged or damaged runs of which a note says why


def section_notes(layout: Layout, choice: Choice) -> list[str]:
    """What a reader of all tables must know."""
    return [
        *_lacking(layout),
        *_states(layout),
        *_without_accuracy(layout, choice),
        *_evaluation_points(layout),
        *_conditions(layout),
    ]


def below_tables(layout: Layout) -> list[str]:
    """What records say is off in the rounds that tables report, which methods had other settings,
    and which numbers are of an earlier version.
    """
    found = [
        (column, row, note)
        for column, row, runs in layout.places()
        for run in counted(runs)
        for note in run.notes
    ]
    return [*once_per_method(layout, [*found, *_other_settings(layout)]), *_versions(layout)]


def _other_settings(layout: Layout) -> Iterable[tuple[Heading, Row, str]]:
    """Methods with other settings than most of their column, as another network; but for those that
    their variant names.
    """
    for column in layout.columns:
        here = [(row, runs[0].planned) for at, row, runs in layout.places() if at == column]
        for name in differing([planned.config for _, planned in here]):
            said = [phrase(planned.config, [name]) for _, planned in here]
            usual, _ = Counter(said).most_common(1)[0]
            for (row, planned), text in zip(here, said, strict=True):
                if text != usual and f"{name}=" not in planned.variant:
                    yield column, row, f"{text} (most others: {usual})"


def once_per_method(layout: Layout, found: Iterable[tuple[Heading, Row, str]]) -> list[str]:
    """Notes on cells as one line per method, each text with the scenarios that it is about."""
    texts: dict[Row, dict[str, list[str]]] = {}
    for column, row, note in found:
        lines = texts.setdefault(row, {}).setdefault(note, [])
        lines += [column.line] if column.line not in lines else []
    said = []
    for row, notes in texts.items():
        parts = [f"{text}{_where(layout, row, lines)}" for text, lines in notes.items()]
        said.append(f"{row.title}: {'; '.join(parts)}.")
    return said


def title_of(row: Row, runs: Sequence[Numbers]) -> str:
    """A method in a plain table, marked where its numbers are of an earlier version."""
    return f"{row.title} {OUTDATED}" if outdated(runs) else row.title


def _where(layout: Layout, row: Row, lines: Sequence[str]) -> str:
    """The scenarios that a note on a method is about; nothing where there is only one."""
    if len(layout.columns) == 1:
        return ""
    every = [column.line for column, other, _ in layout.places() if other == row]
    return " (all scenarios)" if len(lines) == len(every) > 1 else f" ({'; '.join(lines)})"


def _versions(layout: Layout) -> list[str]:
    """Methods whose numbers are of an earlier version, and runs that are left out as other seeds
    have a newer one.
    """
    said = []
    for row in layout.rows:
        cells = [(column, runs) for column, other, runs in layout.places() if other == row]
        lines = [column.line for column, runs in cells if outdated(runs)]
        if lines:
            where = _where(layout, row, lines)
            said.append(f"{OUTDATED} {row.title}: from an earlier version of the method{where}.")
        left_out = [sum(run.outdated and run.status == "missing" for run in r) for _, r in cells]
        if sum(left_out):
            where = _where(
                layout, row, [c.line for (c, _), n in zip(cells, left_out, strict=True) if n]
            )
            runs = plural(sum(left_out), "run")
            said.append(f"{row.title}: left out, from another version: {runs}{where}.")
    return said


def _lacking(layout: Layout) -> list[str]:
    """What the report should show and no run has."""
    names = ", ".join(layout.lacking)
    return [f"Not among the runs of this experiment: {names}."] if names else []


def _states(layout: Layout) -> list[str]:
    """Runs that are not finished, and why."""
    runs = layout.runs
    states = Counter(run.status for run in runs)
    said = []
    if set(states) != {"finished"}:
        numbers = ", ".join(f"{states[name]} {name}" for name in STATES if states[name])
        said.append(f"Of {len(runs)} planned runs: {numbers}. Means are over finished runs.")
    ended = [run for run in runs if run.status in ("failed", "diverged", DAMAGED)]
    for run in ended[:REASONS]:
        said.append(f"{run.status}: {run.planned.name}: {run.reason or 'the reason is not known'}")
    if len(ended) > REASONS:
        said.append(f"... and {len(ended) - REASONS} more that failed, diverged or are damaged.")
    for run in layout.twice:
        said.append(f"Left out as a duplicate of another run: {run.folder.name}.")
    return said


def _without_accuracy(layout: Layout, choice: Choice) -> list[str]:
    """Finished runs that were not evaluated where the tables look."""
    cells = [
        f"{row.title} ({column.line})"
        for column, row, runs in layout.places()
        if len(counted(runs)) < sum(run.status == "finished" for run in runs)
    ]
    where = f"at {choice.point}" if choice.point else "at the method's evaluation point"
    held_out = " on held-out samples" if choice.round == "validation" else ""
    said = f"Finished, but without an accuracy {where}{held_out}: {'; '.join(cells)}."
    return [said] if cells else []


def _evaluation_points(layout: Layout) -> list[str]:
    """Which method is evaluated where, if that differs."""
    found: dict[str, list[str]] = {}
    for _, row, runs in layout.places():
        for run in counted(runs):
            methods = found.setdefault(run.point, [])
            methods += [row.title] if row.title not in methods else []
    if len(found) < 2:
        return []
    points = sorted(found.items())
    said = [f"{POINTS.get(point, point)}: {', '.join(methods)}" for point, methods in points]
    return [f"Evaluated {'; '.join(said)}."]


def _conditions(layout: Layout) -> list[str]:
    """Fields of some columns or methods only, and methods of a column that had other data."""
    said, shared = [], shared_fields(layout)
    for column in layout.columns:
        runs = layout.column(column.key)
        config = runs[0].planned.config
        names = [name for name in unusual(config) if name not in shared]
        own = [name for name in names if phrase(config, [name]) not in column.line]
        if own:
            said.append(f"{column.line}: {phrase(config, own)}.")
        if names := differing([run.planned.config for run in runs]):
            said.append(f"{column.line}: not the same for all methods: {', '.join(names)}.")
        elif _digests_differ(runs):
            said.append(f"{column.line}: the methods were given different partitions of the data.")
    return said


def _digests_differ(runs: Sequence[Numbers]) -> bool:
    started = [run for run in runs if run.about]
    known = {(run.planned.config["seed"], run.about["partition"]["digest"]) for run in started}
    return len(known) > len({seed for seed, _ in known})
