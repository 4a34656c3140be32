"""What captions of tables say of an experiment: how its numbers came about."""

from pflbench.output import plural
from pflbench.report.grouping.headings import differing, phrase, unusual, value
from pflbench.report.grouping.layout import Layout, counted
from pflbench.report.load.runs import Choice
from pflbench.report.words import POINTS, ROUND, span


def how(layout: Layout, choice: Choice) -> str:
    """Scale, data, round, evaluation point and what else is not as usual in all scenarios."""
    data = f"Data: {', '.join(_data(layout))}{_clients(layout)}."
    shared = shared_fields(layout)
    said = f"In all scenarios: {phrase(layout.runs[0].planned.config, shared)}." if shared else ""
    parts = [scale(layout), data, chosen_round(layout, choice), _point(layout, choice), said]
    return " ".join(filter(None, parts))


def _clients(layout: Layout) -> str:
    """How many clients share the data, where headings do not say it."""
    if layout.style.full_captions:
        return ""
    numbers = {value(run.planned.config, "clients") for run in layout.runs}
    return f"; {plural(numbers.pop(), 'client')}" if len(numbers) == 1 else ""


def title(layout: Layout) -> str:
    """The experiment's title as a sentence; nothing where it only repeats its command or name."""
    plan = layout.plan
    words = plan.title.strip().rstrip(".")
    repeated = words in ("", plan.command, plan.name) or words.startswith("pflbench ")
    return "" if repeated else f"{words}."


def scale(layout: Layout) -> str:
    """The scale; `paper` only means that it changes nothing."""
    name = layout.plan.scale
    if name == "paper" and not layout.style.full_captions:
        return ""
    as_it_is = " (the full experiment)" if name == "paper" else ""
    return f"Scale: {name}{as_it_is}." if name else ""


def chosen_round(layout: Layout, choice: Choice) -> str:
    """ "In the last round (of 200)." """
    words = ROUND[choice.round]
    rounds = span(run.planned.config["rounds"] for run in layout.runs)
    if layout.style.full_captions:
        return f"{words[0].upper()}{words[1:]} (of {rounds})."
    return f"Measured {words} (of {rounds})."


def over_seeds(layout: Layout) -> str:
    """How many seeds are behind the numbers, of how many: "5 seeds", "1 to 3 of 3 seeds"."""
    found = [len(counted(runs)) for _, _, runs in layout.places()]
    planned = span(len(runs) for _, _, runs in layout.places())
    done = span(number for number in found if number)
    seeds = plural(planned, "seed")
    return seeds if done == planned else f"{done} of {seeds}"


def shared_fields(layout: Layout) -> list[str]:
    """Unusual fields of the configuration that are the same in all runs."""
    configs = [run.planned.config for run in layout.runs]
    return [name for name in unusual(configs[0]) if name not in differing(configs)]


def _data(layout: Layout) -> list[str]:
    """The data sets, each with the number of samples that the clients of a run have."""
    sizes: dict[str, set[int]] = {column.data: set() for column in layout.columns}
    for column in layout.columns:
        for run in layout.column(column.key):
            partition = run.about.get("partition", {})
            parts = [name for name in ("train", "validation", "test") if f"n_{name}" in partition]
            if parts:
                sizes[column.data].add(sum(int(run.sizes(part).sum()) for part in parts))
    return [f"{name} ({span(found)} samples)" if found else name for name, found in sizes.items()]


def _point(layout: Layout, choice: Choice) -> str:
    points = {run.point for run in counted(layout.runs)}
    if choice.point or len(points) == 1:
        point = choice.point or points.pop()
        return f"All methods are evaluated {POINTS.get(point, point)}."
    return "Each method has its own evaluation point: before local training, or right after it."
