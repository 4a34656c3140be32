"""Scenarios in words: the headings of columns, in a paper's words where a scenario is one of its
own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pflbench import config as configuration
from pflbench.config import Run
from pflbench.papers import papers
from pflbench.papers.paper import Paper
from pflbench.records.report_options import ReportOptions
from pflbench.report.grouping.selection import scenario_title
from pflbench.report.load.runs import Numbers

Config = Mapping[str, Any]
FIELDS = tuple(name for name in configuration.SETTINGS if name != "seed")
PHRASES = {
    "rounds": "{} rounds",
    "clients": "{} clients",
    "participation": "{} of the clients per round",
    "data_fraction": "{} of the training samples",
    "scarce_clients": "for the last {} clients only",
    "max_samples": "at most {} samples per client",
    "samples_per_client": "{} samples per client",
    "validation": "{} of the training samples held out",
    "eval_every": "evaluated every {} rounds",
    "evaluate_clients": "{} clients evaluated",
    "model": "network {}",
    "width": "representations of {} numbers",
    "head_layers": "a head of {} layers",
    "test_fraction": "{} of the samples for testing",
    "min_samples": "at least {} samples per client",
    "partition_seed": "partitions of seed {}",
    "dropout_rate": "clients fail with probability {}",
    "slow_clients": "{} of the clients slow",
    "new_clients": "{} clients new",
    "new_client_epochs": "new clients train for {} epochs",
    "standardize": "features standardized: {}",
    "slow_work": "slow clients do {} of their batches",
}
AT_ONE = {
    "rounds": "1 round",
    "participation": "all clients in every round",
    "data_fraction": "all training samples",
    "scarce_clients": "for the last client only",
    "eval_every": "evaluated every round",
    "evaluate_clients": "1 client evaluated",
    "head_layers": "a head of 1 layer",
    "new_clients": "1 client new",
    "new_client_epochs": "new clients train for 1 epoch",
}
PERCENT = (
    "participation",
    "data_fraction",
    "validation",
    "test_fraction",
    "slow_clients",
    "slow_work",
)
IN_HEADINGS = ("dataset", "partition", "clients", "rounds")  # every table says these
NO_EFFECT = ("representations",)  # on numbers


@dataclass(frozen=True)
class Heading:
    """Of a column. `line` says all of it at once, for a cell of a plain table."""

    key: str
    title: str
    group: str
    line: str
    data: str
    paper: str = ""  # key of the paper whose scenario and words it is; "" if none's


def in_words(partition: str) -> str:
    """dir:0.1 as people say it."""
    kind, _, argument = partition.partition(":")
    words = {
        "dir": f"Dirichlet {argument}",
        "path": f"{argument} classes per client",
        "iid": "IID",
        "natural": "natural",
        "domains": f"{argument} domains",
    }
    return words.get(kind, f"partition {Path(argument).name}")


def value(config: Config, name: str) -> Any:
    """A field of a run's configuration, as it is in JSON; its default where the configuration lacks
    it.
    """
    found = config.get(name, getattr(Run, name, None))
    return list(found) if isinstance(found, tuple) else found


def differing(configs: Sequence[Config]) -> list[str]:
    """The fields that are not the same in all."""
    first = configs[0]
    return [name for name in FIELDS if any(value(c, name) != value(first, name) for c in configs)]


def phrase(config: Config, names: Sequence[str]) -> str:
    """Fields in words."""
    return ", ".join(_words(name, value(config, name)) for name in names)


def _words(name: str, found: Any) -> str:
    """A field in words: "10 % of the training samples"."""
    if found == 1 and name in AT_ONE:
        return AT_ONE[name]
    shown = f"{100 * found:g} %" if name in PERCENT else found
    return PHRASES.get(name, name + "={}").format(shown)


def unusual(config: Config) -> list[str]:
    """The fields that are not the default, but for those that every table says."""
    known = (*IN_HEADINGS, *NO_EFFECT)
    return [
        name for name in FIELDS if name not in known and value(config, name) != getattr(Run, name)
    ]


def headings(
    columns: Mapping[str, Sequence[Numbers]], options: ReportOptions, paper: Paper | None
) -> tuple[Heading, ...]:
    """The heading of every column from its runs: in a paper's words where its style is asked for,
    with the titles that the options give.
    """
    configs = {key: runs[0].planned.config for key, runs in columns.items()}
    data = _distinct({key: _title(runs, options) for key, runs in columns.items()}, columns)
    words = {key: partition_title(config, options) for key, config in configs.items()}
    extras = _extras(columns, data)
    heads = _heads(configs, data, words)
    if paper:
        heads = {key: paper.heading(configs[key], data[key], words[key]) for key in columns}
    found: list[Heading] = []
    for key, runs in columns.items():
        line = f"{data[key]}, {words[key]}, N={value(configs[key], 'clients')}"
        line = _joined(line, extras[key])
        if any(other.line == line for other in found):
            line, extras[key] = f"{line} ({key})", _joined(extras[key], key)
        title, group = heads[key]
        if paper and configs[key]["partition"] in options.titles.partitions:
            group = words[key]
        title = _joined(title, extras[key])
        if given := scenario_title(options.titles.scenarios, key, runs):
            title, group, line = given, "", given
        own = paper.key if paper and paper.column_of(configs[key]) else ""
        found.append(Heading(key, title, group, line, data[key], own))
    return tuple(found)


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def partition_title(config: Config, options: ReportOptions) -> str:
    """A partition as the options call it, or in words."""
    partition = str(config["partition"])
    return options.titles.partitions.get(partition) or in_words(partition)


def _heads(
    configs: Mapping[str, Config], data: Mapping[str, str], words: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Title and group of every column: of data set and partition, that which changes less often
    from column to column is the group.
    """
    changes = [sum(a != b for a, b in pairwise(parts.values())) for parts in (data, words)]
    groups, titles = (data, words) if changes[0] <= changes[1] else (words, data)
    clients = {key: value(config, "clients") for key, config in configs.items()}
    several = len({*clients.values()}) > 1
    return {
        key: (_joined(titles[key], f"N={clients[key]}" if several else ""), groups[key])
        for key in configs
    }


def _title(runs: Sequence[Numbers], options: ReportOptions) -> str:
    """A data set as the options call it, or as it calls itself, once one of the runs has
    started.
    """
    spec = str(runs[0].planned.config["dataset"])
    path = Path(spec if spec.endswith(".py") else spec.partition(":")[2])
    for name in (spec, path.name, path.stem):
        if name in options.titles.datasets:
            return options.titles.datasets[name]
    for run in runs:
        if run.about:
            return str(run.about["data"]["title"])
    kind, _, argument = spec.partition(":")
    if spec.endswith(".py"):
        return path.stem
    if kind == "npz":
        return Path(argument).name
    return next((p.datasets[kind] for p in papers() if kind in p.datasets), kind)


def _distinct(
    titles: Mapping[str, str], columns: Mapping[str, Sequence[Numbers]]
) -> dict[str, str]:
    """Names of data sets that differ where the data sets do: "Synthetic (classes=10)"."""
    specs = {
        key: str(runs[0].planned.config["dataset"]).partition(":")[2].split(",")
        for key, runs in columns.items()
    }
    names = {}
    for key, title in titles.items():
        own = specs[key]
        others = [specs[other] for other, named in titles.items() if named == title]
        if all(other == own for other in others):
            names[key] = title
            continue
        apart = [part for part in own if not all(part in other for other in others)]
        names[key] = f"{title} ({','.join(apart or own)})"
    return names


def _label(run: Numbers) -> str:
    """The experiment's own words for a scenario; empty where they only repeat its configuration."""
    words = run.planned.scenario
    config = run.planned.config
    repeated = config["partition"] in words or "=" in words or words in (config["dataset"], "")
    return "" if repeated else words


def _extras(columns: Mapping[str, Sequence[Numbers]], data: Mapping[str, str]) -> dict[str, str]:
    """What else must be said of a column: its label, and how it differs from others of the same
    description.
    """
    labels = {key: _label(runs[0]) for key, runs in columns.items()}
    configs = {key: runs[0].planned.config for key, runs in columns.items()}
    alike: dict[tuple[object, ...], list[str]] = {}
    for key, config in configs.items():
        kind = (data[key], config["partition"], value(config, "clients"), labels[key])
        alike.setdefault(kind, []).append(key)
    extras = {}
    for keys in alike.values():
        names = differing([configs[key] for key in keys])
        for key in keys:
            extras[key] = _joined(labels[key], phrase(configs[key], names))
    return extras
