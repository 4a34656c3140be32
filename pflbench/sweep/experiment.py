"""Experiments: a short TOML file, a scale and options become the list of runs that a sweep makes.

A file has `title`, `algorithms` (a set, as "all", or a list), `seeds` (a number or a list), any
setting of a run, `[hparams]`, and

- `[[scenarios]]`: blocks of settings, one after another; a list in a block means each of its
  values, several lists their product;
- `[[variants]]`: the same for hyperparameters (or settings) to vary, each with every scenario;
  `label` names one in figures;
- `[methods.NAME]`: what is different for one method; in a block (`[scenarios.methods.NAME]`): there
  only;
- `include = "NAME"`: another experiment, whose keys hold where this file has none;
- `proposed`, `published` and `[report]`: how its report looks, see `records.report_options`.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pflbench import config
from pflbench.config import Run
from pflbench.errors import UserError, unknown
from pflbench.methods import registry, sets
from pflbench.methods.files import plain
from pflbench.methods.hyperparameters import make_run
from pflbench.records import published, report_options
from pflbench.records.plan import Plan, Planned
from pflbench.sweep import plugins

SCALES = "scales"  # the file of the tiers, in the folder of the experiments
RUNS = ("title", "include", "algorithms", "seeds", "hparams", "scenarios", "variants", "methods")
KEYS = (*RUNS, *report_options.KEYS)
MOST = 100_000  # runs of an experiment
SETTINGS = tuple(name for name in config.SETTINGS if name != "seed")
Table = dict[str, Any]


def folder() -> Path:
    """Where the experiments are that come with pflbench."""
    here = Path(__file__).parents[1]
    for place in (here / "experiments", here.parent / "experiments"):  # in the wheel, in a checkout
        if place.is_dir():
            return place
    raise UserError("the experiments are not installed")


def names() -> list[str]:
    """The experiments that come with pflbench."""
    return sorted(path.stem for path in folder().glob("*.toml") if path.stem != SCALES)


def read(name: str, above: tuple[Path, ...] = ()) -> Table:
    """The table of an experiment, a name or a file, with what it includes; `above` are the files
    that include it.
    """
    path = Path(name) if name.endswith(".toml") else folder() / f"{name}.toml"
    if not path.suffix == ".toml" or (not name.endswith(".toml") and name not in names()):
        raise unknown("experiment", name, [*names(), "FILE.toml"])
    here = path.resolve()
    if here in above:
        raise UserError(f"{path} includes itself, through {', '.join(one.name for one in above)}")
    table = plugins.from_file(config.read_toml(path), path)
    if "published" in table:
        table["published"] = published.beside(path, table["published"])
    base = table.pop("include", None)
    if base is not None:
        neighbour = path.parent / f"{base}.toml"
        own = neighbour.is_file() and neighbour.resolve() != here  # it may include ours of its name
        included = read(str(neighbour) if own else str(base), (*above, here))
        table = {**plugins.without_others(included, table), **table}
    return table


def overridden(table: Mapping[str, Any], given: Mapping[str, Any]) -> Table:
    """A table in which what is given holds everywhere, also in blocks; hyperparameters are added to
    those there.
    """
    table = plugins.without_others(dict(table), given)
    new = {**table, **given}
    for key in ("scenarios", "variants"):
        if key in table and key not in given:
            new[key] = [_without(block, given) for block in _tables(table, key)]
    new["hparams"] = {**_table(table, "hparams"), **_table(given, "hparams")}
    methods = _methods_without(table, given)
    for name, values in _table(given, "methods").items():
        there = _table(methods, name)
        hparams = {**_table(there, "hparams"), **values["hparams"]}
        methods[name] = {**there, **values, "hparams": hparams}
    return {**new, "methods": methods}


def _without(block: Table, given: Mapping[str, Any]) -> Table:
    """A block but for the settings and hyperparameters that are given."""
    kept = {k: v for k, v in block.items() if k in ("hparams", "methods") or k not in given}
    if "hparams" in kept:
        kept["hparams"] = {
            k: v for k, v in _table(block, "hparams").items() if k not in _table(given, "hparams")
        }
    if "methods" in kept:
        kept["methods"] = _methods_without(block, given)
    return kept


def _methods_without(block: Mapping[str, Any], given: Mapping[str, Any]) -> Table:
    """What a block says of single methods, but for what is given for these or for all methods."""
    for_all, own = _table(given, "hparams"), _table(given, "methods")
    found = {}
    for name, values in _table(block, "methods").items():
        hparams = {**for_all, **_table(_table(own, name), "hparams")}
        found[name] = _without(values, {**_table(own, name), "hparams": hparams})
    return found


def make(
    name: str,
    table: Mapping[str, Any],
    scale: str = "paper",
    command: str = "",
    data_root: Path | None = None,
) -> Plan:
    """The runs that a table describes, at a scale, each of them checked."""
    for key in table:
        if key not in KEYS and key not in SETTINGS:
            raise unknown(f"key of experiment {name}", key, [*KEYS, *SETTINGS])
    tier = _tier(scale)
    methods = {plugin: registry.load(plugin) for plugin in _algorithms(table.get("algorithms"))}
    names = plugins.names(methods)
    seeds = _seeds(table.get("seeds", 1), tier)
    _check_number(
        name, table, len(methods) * (seeds[-1] + 1 if isinstance(seeds, range) else len(seeds))
    )
    runs = []
    for scenario, variant in itertools.product(
        blocks(table, "scenarios"), blocks(table, "variants")
    ):
        own = [_methods(name, layer, [*names.values()]) for layer in (table, scenario, variant)]
        for seed, (plugin, method) in itertools.product(seeds, methods.items()):
            called = plain(names[plugin])
            layers = [table, scenario, variant, *(single.get(called, {}) for single in own)]
            settings, hparams = _merged(layers)
            settings = {**scaled(settings, tier), "seed": seed}
            run = make_run(method, settings, hparams, names[plugin], data_root)
            words = _words([run.dataset, run.partition], scenario), _words([], variant)
            runs.append(Planned(run.id, plugin, *words, run))
    full = name if scale == "paper" else f"{name}-{scale}"
    title = str(table.get("title", name))
    report = report_options.of_experiment(name, table)
    plugins.warn_of_strangers(
        name, runs, [report.proposed, *report.methods, *report.figures.methods]
    )
    return Plan(full, title, scale, command, tuple(runs), report)


def _merged(layers: Iterable[Mapping[str, Any]]) -> tuple[Table, Table]:
    """The settings and the hyperparameters of layers; a later one wins."""
    settings: Table = {}
    hparams: Table = {}
    for layer in layers:
        settings.update({key: value for key, value in layer.items() if key in SETTINGS})
        hparams.update(_table(layer, "hparams"))
    return settings, hparams


def scales() -> Table:
    """The tiers by name: what `--scale` changes, in one place."""
    return config.read_toml(folder() / f"{SCALES}.toml")


def scaled(settings: Mapping[str, Any], tier: Mapping[str, Any]) -> Table:
    """Settings at a scale: at most its rounds and its samples per client, stand-ins for its
    data.
    """
    new = config.checked(settings)
    sized = str(new.get("partition", "")).startswith("file:") or new.get("samples_per_client")
    for name, default in (("rounds", Run.rounds), ("max_samples", None)):
        if name == "max_samples" and sized:
            continue  # sizes that are given are what they are
        if name in tier:
            asked = new.get(name, default)
            new[name] = tier[name] if asked is None else min(asked, tier[name])
    dataset = new.get("dataset", Run.dataset)
    return {**new, "dataset": tier.get("stand_in", {}).get(dataset, dataset)}


def chosen(runs: Iterable[Planned], only: Iterable[str], exclude: Iterable[str]) -> list[Planned]:
    """The runs that match every `only` and no `exclude`: NAME=VALUE[,VALUE], or methods by name,
    title or path; with * and ?.
    """
    every = list(runs)
    wanted = [_condition(text, every) for text in only]
    unwanted = [_condition(text, every) for text in exclude]
    return [
        run
        for run in every
        if all(fits(run) for fits in wanted) and not any(fits(run) for fits in unwanted)
    ]


def check_only(runs: Iterable[Planned], only: Iterable[str]) -> None:
    """Refuse a method in `--only` that none of the runs is of."""
    every = list(runs)
    for pattern in (pattern for text in only if "=" not in text for pattern in listed(text)):
        if not plugins.called(every, pattern):
            raise unknown("method in --only", pattern, {run.run.algorithm for run in every})


def listed(text: str) -> list[str]:
    """A comma-separated list; the commas inside `synthetic:classes=4,side=16` belong to its
    item.
    """
    items: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if items and ":" in items[-1] and "=" in part and ":" not in part:
            items[-1] += f",{part}"
        else:
            items.append(part)
    return items


def _condition(text: str, runs: list[Planned]) -> Callable[[Planned], bool]:
    name, equals, values = text.partition("=")
    if not equals or name == "algorithm":
        meant = {one for pattern in listed(values or text) for one in plugins.called(runs, pattern)}
        return lambda run: run.plugin in meant
    known = [*SETTINGS, "algorithm", "seed", "variant"]
    if name not in known:
        raise unknown("name in --only or --exclude", name, known)
    patterns = listed(values)

    def fits(run: Planned) -> bool:
        value = run.variant if name == "variant" else getattr(run.run, name)
        return any(fnmatchcase(str(value), pattern) for pattern in patterns)

    return fits


def blocks(table: Mapping[str, Any], key: str) -> list[Table]:
    """The blocks of an axis with every list multiplied out; one empty block where there is none."""
    given = _tables(table, key)
    for block in given:
        _check_keys(f"[[{key}]]", block, "label", "methods")
    return [product for block in given for product in _multiplied(block)]


def _methods(name: str, layer: Mapping[str, Any], known: list[str]) -> dict[str, Table]:
    """What a file or a block has for single methods, by their plain names."""
    methods = {
        plain(method): _table(layer["methods"], method) for method in _table(layer, "methods")
    }
    for method, values in methods.items():
        _check_keys(f"[methods.{method}]", values)
    # `--algorithms` or an including file may have left a method out.
    if strangers := set(methods) - {plain(method) for method in [*known, *registry.names()]}:
        raise unknown(f"method in [methods] of experiment {name}", min(strangers), known)
    return methods


def _tables(table: Mapping[str, Any], key: str) -> list[Table]:
    blocks = table.get(key, [{}])
    if (
        not isinstance(blocks, list)
        or not blocks
        or not all(isinstance(block, dict) for block in blocks)
    ):
        raise UserError(f"{key} must be blocks: [[{key}]]")
    return blocks


def _check_keys(where: str, block: Mapping[str, Any], *more: str) -> None:
    for name, value in block.items():
        if name not in (*SETTINGS, "hparams", *more):
            raise unknown(f"key of {where}", name, [*SETTINGS, "hparams", *more])
        if value == []:
            raise UserError(f"{name} = [] in {where}: a list must have at least one value")


def _choices(block: Table) -> dict[tuple[str, ...], list[Any]]:
    """The values of every key of a block; a hyperparameter has two names."""
    flat: dict[tuple[str, ...], Any] = {
        (name,): value for name, value in block.items() if name != "hparams"
    }
    flat |= {("hparams", name): value for name, value in _table(block, "hparams").items()}
    return {path: value if isinstance(value, list) else [value] for path, value in flat.items()}


def _multiplied(block: Table) -> Iterator[Table]:
    choices = _choices(block)
    for values in itertools.product(*choices.values()):
        picked: Table = {}
        for path, value in zip(choices, values, strict=True):
            (picked.setdefault("hparams", {}) if len(path) == 2 else picked)[path[-1]] = value
        yield picked


def _check_number(name: str, table: Mapping[str, Any], of_each: int) -> None:
    """Refuse more runs than anybody can do, before one is made; `of_each` scenario and variant."""
    number = of_each
    for key in ("scenarios", "variants"):
        number *= sum(
            math.prod(map(len, _choices(block).values())) for block in _tables(table, key)
        )
    if number > MOST:
        raise UserError(f"experiment {name} has {number} runs: must be at most {MOST}")


def _words(data: list[str], block: Mapping[str, Any]) -> str:
    """A block by its label, else by what is in it; a scenario by its data first."""
    if "label" in block:
        return str(block["label"])
    said = ("hparams", "methods", "dataset", "partition") if data else ("hparams", "methods")
    flat = {
        **{name: value for name, value in block.items() if name not in said},
        **block.get("hparams", {}),
    }
    return " ".join([*data, *(f"{name}={value}" for name, value in flat.items())])


def _algorithms(given: Any) -> list[str]:
    asked = ["all"] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(asked, list) or not asked or not all(isinstance(name, str) for name in asked):
        raise UserError(f'algorithms = {given!r}: must be a set, e.g. "all", or a list of names')
    return sets.methods(asked)


def _seeds(given: Any, tier: Mapping[str, Any]) -> Sequence[int]:
    whole = given if isinstance(given, list) else [given]
    if given in (0, []) or not all(type(seed) is int and seed >= 0 for seed in whole):
        raise UserError(f"seeds = {given!r}: must be a number of seeds or a list of seeds")
    seeds: Sequence[int] = given if isinstance(given, list) else range(given)
    return seeds[: tier.get("seeds")]


def _tier(scale: str) -> Table:
    tiers = scales()
    if scale not in tiers:
        raise unknown("scale", scale, tiers)
    tier: Table = tiers[scale]
    return tier


def _table(table: Mapping[str, Any], key: str) -> Table:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise UserError(f"{key} must be a table, not {json.dumps(value, default=str)}")
    return value
