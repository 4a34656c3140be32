"""What a call of `pflbench.sweep` asks for, as the table of an experiment."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pflbench.errors import UserError
from pflbench.interface.methods import Method, hparams_of, plugin_of
from pflbench.methods import registry
from pflbench.methods.files import plain
from pflbench.sweep import experiment
from pflbench.sweep.asked import Asked, without_file
from pflbench.sweep.experiment import Table

Blocks = Mapping[str, Any] | Iterable[Mapping[str, Any]]
Experiment = str | Path | Mapping[str, Any]


def asked(
    methods: Method | Iterable[Method] | None,
    base: Experiment | None,
    name: str | None,
    hparams: Mapping[str, Any],
    blocks: Mapping[str, Blocks | None],
    data_root: Path | None,
    **settings: Any,
) -> Asked:
    """The experiment of a call: keys of the table are the settings, lists are axes of it."""
    if name is not None and not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(f"name {name!r}: must be letters, digits, '.', '_' and '-'")
    given = _table(hparams, blocks, settings)
    command = _command(methods, base, {"hparams": hparams, **blocks, **settings})
    if methods is not None:
        _add_methods(given, _listed(methods))
    if base is None:
        if methods is None:
            raise UserError(
                "name methods, or an experiment; pflbench experiments lists what there is"
            )
        return without_file(given, name, command, data_root)
    is_table = isinstance(base, Mapping)
    table = dict(base) if isinstance(base, Mapping) else experiment.read(str(base))
    stem = name or ("experiment" if is_table else Path(str(base)).stem)
    return Asked(stem, experiment.overridden(table, given), command)


def _listed(methods: Method | Iterable[Method]) -> list[Method]:
    if isinstance(methods, Iterable) and not isinstance(methods, (str, Path, type)):
        return list(methods)
    return [methods]


def _table(
    hparams: Mapping[str, Any], blocks: Mapping[str, Blocks | None], settings: Mapping[str, Any]
) -> Table:
    """Settings and hyperparameters; what has a list of values goes into every block."""
    table: Table = {key: value for key, value in settings.items() if value is not None}
    for key, given in blocks.items():
        if given is not None:
            table[key] = [dict(given)] if isinstance(given, Mapping) else [*map(dict, given)]
    several = {key: value for key, value in table.items() if key in experiment.SETTINGS}
    several = {
        key: list(value) for key, value in several.items() if isinstance(value, list | tuple)
    }
    if several:
        table = {key: value for key, value in table.items() if key not in several}
        table["scenarios"] = [{**several, **block} for block in table.get("scenarios", [{}])]
    varied = {name: list(v) for name, v in hparams.items() if isinstance(v, list | tuple)}
    if varied:
        blocks_now = table.get("variants", [{}])
        table["variants"] = [
            {**block, "hparams": {**varied, **block.get("hparams", {})}} for block in blocks_now
        ]
    for full, value in hparams.items():
        method, _, own = full.rpartition(".")
        if full not in varied:
            where = table.setdefault("methods", {}).setdefault(method, {}) if method else table
            where.setdefault("hparams", {})[own] = value
    return table


def _add_methods(table: Table, methods: list[Method]) -> None:
    """Name the methods in a table; hyperparameters of objects hold unless the call says otherwise."""
    plugins = [plugin_of(method) for method in methods]
    table["algorithms"] = plugins
    blocks = [table, *table.get("scenarios", []), *table.get("variants", [])]
    said = {name for block in blocks for name in block.get("hparams", {})}
    files = {plain(Path(one).stem) for one in methods if isinstance(one, (str, Path))}
    named: set[str] = set()
    for method, plugin in zip(methods, plugins, strict=True):
        if isinstance(method, (str, Path)):
            continue  # sets are known by name, and files of one name are told apart
        name = registry.name_of(registry.load(plugin))
        if name in named or plain(name) in files:
            raise UserError(
                f"two methods are called {name!r}: give a class another name, or hparams a list"
            )
        named.add(name)
        own = {key: value for key, value in hparams_of(method, None).items() if key not in said}
        if own:
            where = table.setdefault("methods", {}).setdefault(name, {})
            where["hparams"] = {**own, **where.get("hparams", {})}


def _command(
    methods: Method | Iterable[Method] | None,
    base: Experiment | None,
    given: Mapping[str, Any],
) -> str:
    """The call, for the page of a report."""
    words = []
    if methods is not None:
        words.append(", ".join(_called(method) for method in _listed(methods)).join("[]"))
    if base is not None:
        words.append(f"experiment={str(base) if isinstance(base, Path) else base!r}")
    words += [f"{key}={value!r}" for key, value in given.items() if value not in (None, {})]
    return f"pflbench.sweep({', '.join(words)})"


def _called(method: Method) -> str:
    if isinstance(method, (str, Path)):
        return repr(str(method))
    return method.__name__ if isinstance(method, type) else f"{type(method).__name__}(...)"
