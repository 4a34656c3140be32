"""Settings in words: the headings of columns, in the FedCoSR paper's words where a setting is one of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflbench.config import Run
from pflbench.papers.fedcosr.marks import COLUMNS
from pflbench.report.figures.distribution import in_words
from pflbench.report.load.runs import Numbers
from pflbench.report.render.marks import Column
from pflbench.sweep.experiment import SETTINGS

Config = Mapping[str, Any]
PRINTED = {
    "cifar10": "CIFAR-10",
    "emnist": "EMNIST",
    "cifar100": "CIFAR-100",
}  # as the paper has them
PAPERS: dict[str, Column] = {
    column.key: column for columns in COLUMNS.values() for column in columns
}
SHARES = {20: 1.0, 100: 0.5}  # the paper's participation, by clients
PHRASES = {
    "rounds": "{} rounds",
    "clients": "{} clients",
    "participation": "{} of the clients in a round",
    "data_fraction": "{} of the training samples",
    "scarce_clients": "for the last {} clients only",
    "max_samples": "at most {} samples a client",
    "samples_per_client": "{} samples a client",
    "validation": "{} of the training samples held out",
}
NAMED = (
    "dataset",
    "partition",
    "clients",
    "rounds",
    "representations",
)  # told elsewhere, or of no effect on numbers


@dataclass(frozen=True)
class Heading:
    """Of a column. `line` says all of it at once, for a cell of a plain table."""

    key: str
    title: str
    group: str
    line: str
    data: str
    paper: str = ""  # key of the paper's column; empty where it has none


def value(config: Config, name: str) -> Any:
    """A setting; a plan that is older than it means its default."""
    found = config.get(name, getattr(Run, name, None))
    return list(found) if isinstance(found, tuple) else found


def differing(configs: Sequence[Config]) -> list[str]:
    """The settings that are not the same in all."""
    return [
        name for name in SETTINGS if any(value(c, name) != value(configs[0], name) for c in configs)
    ]


def phrase(config: Config, names: Sequence[str]) -> str:
    """Settings in words."""
    return ", ".join(PHRASES.get(name, name + "={}").format(value(config, name)) for name in names)


def unusual(config: Config) -> list[str]:
    """The settings that are not the default, but for those that every table tells."""
    return [
        name for name in SETTINGS if name not in NAMED and value(config, name) != getattr(Run, name)
    ]


def paper_data(spec: str) -> str:
    """Which of the paper's data sets it is, by name or by the beginning of a file's name; empty if none."""
    kind, _, path = spec.partition(":")
    if kind != "npz":
        return spec if spec in PRINTED else ""
    return max((name for name in PRINTED if Path(path).stem.startswith(name)), key=len, default="")


def paper_key(config: Config) -> str:
    """The paper's column of this setting, as in results/paper/accuracy.csv; empty if it has none."""
    kind, _, number = str(config["partition"]).partition(":")
    words = {"dir": ("practical", "beta"), "path": ("pathological", "classes")}.get(kind)
    clients = value(config, "clients")
    if (
        words is None
        or value(config, "data_fraction") != 1.0
        or value(config, "participation") != SHARES.get(clients)
    ):
        return ""
    try:
        key = f"{words[0]}/{paper_data(config['dataset'])}/{words[1]}={float(number):g}/{clients}"
    except ValueError:
        return ""
    return key if key in PAPERS else ""


def headings(columns: Mapping[str, Sequence[Numbers]]) -> tuple[Heading, ...]:
    """The heading of every column from its runs."""
    data = _data({key: _title(runs) for key, runs in columns.items()}, columns)
    labels = {key: _label(runs[0]) for key, runs in columns.items()}
    extras = _extras(columns, data, labels)
    found: list[Heading] = []
    for key, runs in columns.items():
        config = runs[0].planned.config
        words = f"{data[key]}, {in_words(config['partition'])}, N={value(config, 'clients')}"
        line = ", ".join(filter(None, [words, extras[key]]))
        if any(other.line == line for other in found):
            line, extras[key] = f"{line} ({key})", ", ".join(filter(None, [extras[key], key]))
        title, group = _heads(config, data[key])
        title = ", ".join(filter(None, [title, extras[key]]))
        found.append(Heading(key, title, group, line, data[key], paper_key(config)))
    return tuple(found)


def _heads(config: Config, data: str) -> tuple[str, str]:
    """Title and group: the paper's with the data set's own name in it, or in its manner."""
    if key := paper_key(config):
        column, printed = PAPERS[key], PRINTED[paper_data(config["dataset"])]
        return column.title.replace(printed, data), column.group.replace(printed, data)
    kind, _, number = str(config["partition"]).partition(":")
    clients = value(config, "clients")
    groups = {
        "dir": f"Practical heterogeneous (\u03b2={number}, N={clients})",
        "path": f"Pathological heterogeneous (C/Client={number}, N={clients})",
    }
    return data, groups.get(kind, f"{in_words(config['partition'])} (N={clients})")


def _title(runs: Sequence[Numbers]) -> str:
    """A data set as it calls itself, once one of the runs has begun."""
    spec = str(runs[0].planned.config["dataset"])
    kind, _, argument = spec.partition(":")
    known = (str(run.about["data"]["title"]) for run in runs if run.about)
    return next(known, Path(argument).name if kind == "npz" else PRINTED.get(kind, kind))


def _data(titles: Mapping[str, str], columns: Mapping[str, Sequence[Numbers]]) -> dict[str, str]:
    """Names of data sets that differ where the data sets do: "Synthetic (classes=10)"."""
    specs = {key: str(runs[0].planned.config["dataset"]) for key, runs in columns.items()}
    names = {}
    for key, title in titles.items():
        others = [
            specs[other].partition(":")[2].split(",")
            for other, named in titles.items()
            if named == title
        ]
        own = specs[key].partition(":")[2].split(",")
        apart = [part for part in own if not all(part in other for other in others)]
        names[key] = (
            f"{title} ({','.join(apart or own)})"
            if any(other != own for other in others)
            else title
        )
    return names


def _label(run: Numbers) -> str:
    """The experiment's own words for a setting; empty where they only repeat data, partition and settings."""
    words = run.planned.setting
    repeated = (
        run.planned.config["partition"] in words
        or "=" in words
        or words in (run.planned.config["dataset"], "")
    )
    return "" if repeated else words


def _extras(
    columns: Mapping[str, Sequence[Numbers]], data: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, str]:
    """What else must be said of a column: its label, and what sets it apart from others of the same description."""
    configs = {key: runs[0].planned.config for key, runs in columns.items()}
    alike: dict[tuple[object, ...], list[str]] = {}
    for key, config in configs.items():
        kind = (data[key], config["partition"], value(config, "clients"), labels[key])
        alike.setdefault(kind, []).append(key)
    extras = {}
    for keys in alike.values():
        names = differing([configs[key] for key in keys])
        for key in keys:
            extras[key] = ", ".join(filter(None, [labels[key], phrase(configs[key], names)]))
    return extras
