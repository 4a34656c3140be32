"""Which methods and scenarios a report shows, and how an experiment's names find them."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath

from pflbench.methods.files import plain
from pflbench.records.report_options import ReportOptions
from pflbench.report.load.runs import Numbers

Columns = Mapping[str, Sequence[Numbers]]


def method_names(run: Numbers) -> set[str]:
    """What a method may be called, as plain text: its name, its title, its file by the end of its
    path.
    """
    planned = run.planned
    parts = PurePath(planned.plugin).parts if planned.plugin.endswith(".py") else ()
    ends = ["/".join(parts[place:]) for place in range(len(parts))]
    return {plain(name) for name in (planned.config["algorithm"], run.method, *ends)}


def is_called(name: str, names: Iterable[str]) -> bool:
    """Whether a name that a user gave is one of the plain names of something."""
    return bool(name) and plain(str(PurePath(name))) in set(names)


def title_for(titles: Mapping[str, str], names: Iterable[str]) -> str:
    """The title that a user gave to what has these plain names; "" where there is none."""
    return next((title for name, title in titles.items() if is_called(name, names)), "")


def scenario_names(key: str, runs: Sequence[Numbers]) -> tuple[str, ...]:
    """What a scenario may be called, the surest first."""
    planned = runs[0].planned
    config = planned.config
    return key, planned.scenario, f"{config['dataset']} {config['partition']}"


def matching(columns: Columns, pattern: str) -> list[str]:
    """The keys of the scenarios that a name or a pattern with * means."""
    names = {key: scenario_names(key, runs) for key, runs in columns.items()}
    for place in range(3):
        called = {key: known[place] for key, known in names.items()}
        found = [key for key, name in called.items() if name == pattern]
        found = found or [key for key, name in called.items() if fnmatchcase(name, pattern)]
        if found:
            return found
    return []


def scenario_title(titles: Mapping[str, str], key: str, runs: Sequence[Numbers]) -> str:
    """The title that a user gave to a scenario; "" where there is none."""
    found = (title for name, title in titles.items() if matching({key: runs}, name))
    return next(found, "")


def chosen_columns(columns: Columns, options: ReportOptions) -> dict[str, Sequence[Numbers]]:
    """The scenarios to show, in their order: all, where none is named."""
    if not options.scenarios:
        return dict(columns)
    keys = [key for name in options.scenarios for key in matching(columns, name)]
    return {key: columns[key] for key in dict.fromkeys(keys)}


def is_shown(run: Numbers, options: ReportOptions) -> bool:
    """Whether a report shows the run's method; the proposed one always."""
    names = method_names(run)
    wanted = (*options.methods, options.proposed)
    return not options.methods or any(is_called(name, names) for name in wanted)


def not_there(runs: Sequence[Numbers], columns: Columns, options: ReportOptions) -> list[str]:
    """What options name and no run has."""
    called = [method_names(run) for run in runs]
    asked = dict.fromkeys([*filter(None, [options.proposed]), *options.methods])
    lacking = [f"method {n!r}" for n in asked if not any(is_called(n, known) for known in called)]
    return [
        *lacking,
        *(f"scenario {name!r}" for name in options.scenarios if not matching(columns, name)),
    ]
