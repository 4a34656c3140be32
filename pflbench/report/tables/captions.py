"""What captions and notes of tables say of an experiment: how its numbers came about, and which are not there."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pflbench.records.status import STATES
from pflbench.report.grouping.headings import differing, phrase, unusual
from pflbench.report.grouping.layout import Layout, counted
from pflbench.report.load.runs import Choice, Numbers

POINTS = {"pre": "before local training (pre)", "post": "right after local training (post)"}
REASONS = 10  # runs that failed or diverged of which a note tells why


def how(layout: Layout, choice: Choice) -> str:
    """Scale, data, round, point and what else is not as usual in all settings."""
    data = f"Data: {', '.join(_data(layout))}."
    shared = _shared(layout)
    said = f"In all settings: {phrase(layout.runs[0].planned.config, shared)}." if shared else ""
    return " ".join(
        filter(
            None, [scale(layout), data, chosen_round(layout, choice), _point(layout, choice), said]
        )
    )


def scale(layout: Layout) -> str:
    """The tier; `paper` only means that it changes nothing."""
    tier = layout.plan.scale
    return (
        f"Scale: {tier}{' (the experiment as it stands)' if tier == 'paper' else ''}."
        if tier
        else ""
    )


def chosen_round(layout: Layout, choice: Choice) -> str:
    rounds = span(run.planned.config["rounds"] for run in layout.runs)
    return {
        "last": f"After the last round ({rounds}).",
        "last10": f"Mean of the last ten evaluated rounds (of {rounds}).",
        "best": f"At each run's best round on the test samples (of {rounds}), which is optimistic.",
        "validation": f"At each run's best round on held-out training samples (of {rounds}).",
    }[choice.round]


def over_seeds(layout: Layout) -> str:
    """How many seeds are behind the numbers, and were meant to be: "5 seeds", "1 to 3 of 3 seeds"."""
    found = [len(counted(runs)) for _, _, runs in layout.places()]
    planned = span(len(runs) for _, _, runs in layout.places())
    done = span(number for number in found if number)
    return f"{planned if done == planned else f'{done} of {planned}'} seed{'' if planned == '1' else 's'}"


def span(numbers: Iterable[int]) -> str:
    """ "5", "1 to 5", "6,000"."""
    found = sorted(set(numbers)) or [0]
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def notes(layout: Layout, choice: Choice) -> list[str]:
    """What a reader of all tables must know."""
    return [
        *_standing(layout),
        *_without_number(layout, choice),
        *_points(layout),
        *_conditions(layout),
    ]


def _standing(layout: Layout) -> list[str]:
    """Runs that are not done, and why."""
    runs = layout.runs
    states = Counter(run.status for run in runs)
    said = []
    if set(states) != {"finished"}:
        numbers = ", ".join(
            f"{states.pop(state)} {state}" for state in [*STATES, *states] if state in states
        )
        said.append(f"Of {len(runs)} planned runs: {numbers}. Means are of those that are done.")
    ended = [run for run in runs if run.status in ("failed", "diverged")]
    said += [
        f"{run.status}: {run.planned.name}: {run.reason or 'no reason is known'}"
        for run in ended[:REASONS]
    ]
    if len(ended) > REASONS:
        said.append(f"... and {len(ended) - REASONS} more that failed or diverged.")
    return said + [
        f"Left out, as it is the same run as another: {run.folder.name}." for run in layout.twice
    ]


def _without_number(layout: Layout, choice: Choice) -> list[str]:
    silent = [
        f"{row.title} ({column.line})"
        for column, row, runs in layout.places()
        if len(counted(runs)) < sum(run.status == "finished" for run in runs)
    ]
    where = f"at {choice.point}" if choice.point else "at the method's point"
    held = " on held-out samples" if choice.round == "validation" else ""
    return [f"Done, but without an accuracy {where}{held}: {'; '.join(silent)}."] if silent else []


def _points(layout: Layout) -> list[str]:
    """Which method is scored where."""
    found: dict[str, list[str]] = {}
    for _, row, runs in layout.places():
        for run in counted(runs):
            methods = found.setdefault(run.point, [])
            methods += [row.title] if row.title not in methods else []
    if len(found) < 2:
        return []
    said = "; ".join(
        f"{POINTS.get(point, point)}: {', '.join(methods)}"
        for point, methods in sorted(found.items())
    )
    return [f"Scored {said}."]


def _conditions(layout: Layout) -> list[str]:
    """Settings of some columns or methods only, and methods of a column that were given other data."""
    said, shared = [], _shared(layout)
    for column in layout.columns:
        runs = layout.column(column.key)
        config = runs[0].planned.config
        own = [
            name
            for name in unusual(config)
            if name not in shared and phrase(config, [name]) not in column.line
        ]
        if own:
            said.append(f"{column.line}: {phrase(config, own)}.")
        if names := differing([run.planned.config for run in runs]):
            said.append(f"{column.line}: not the same for all methods: {', '.join(names)}.")
        elif _digests_differ(runs):
            said.append(
                f"{column.line}: the methods were not given the same partition of the data."
            )
    return said


def _digests_differ(runs: Sequence[Numbers]) -> bool:
    known = {
        (run.planned.config["seed"], run.about["partition"]["digest"]) for run in runs if run.about
    }
    return len(known) > len({seed for seed, _ in known})


def _shared(layout: Layout) -> list[str]:
    """Unusual settings that are the same in all runs."""
    configs = [run.planned.config for run in layout.runs]
    return [name for name in unusual(configs[0]) if name not in differing(configs)]


def _data(layout: Layout) -> list[str]:
    """The data sets, each with the number of samples that the clients of a run have between them."""
    sizes: dict[str, set[int]] = {column.data: set() for column in layout.columns}
    for column in layout.columns:
        for run in layout.column(column.key):
            if run.about:
                parts = [
                    name
                    for name in ("train", "validation", "test")
                    if f"n_{name}" in run.about["partition"]
                ]
                sizes[column.data].add(sum(int(run.sizes(part).sum()) for part in parts))
    return [f"{name} ({span(found)} samples)" if found else name for name, found in sizes.items()]


def _point(layout: Layout, choice: Choice) -> str:
    points = {run.point for run in counted(layout.runs)}
    if choice.point or len(points) == 1:
        point = choice.point or points.pop()
        return f"All are scored {POINTS.get(point, point)}."
    return "Each method is scored at its own point: before local training, or right after it."
