"""The methods of an experiment: where the paths in its file lead, what each is called, and which of
them a user means.
"""

import itertools
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pflbench.api import Algorithm
from pflbench.methods import registry
from pflbench.methods.files import plain
from pflbench.records.plan import Planned

Table = dict[str, Any]


def from_file(table: Table, file: Path) -> Table:
    """The table of a file, with paths of plugins as seen from here: in the file they are relative
    to it.
    """
    return _moved(table, lambda path: str(file.parent / path))


def for_file(table: Table, file: Path) -> Table:
    """A table as it is written to a file, with paths of plugins relative to it."""
    return _moved(table, lambda path: os.path.relpath(path, file.parent))


def _moved(table: Table, move: Callable[[str], str]) -> Table:
    given = table.get("algorithms")
    every = [given] if isinstance(given, str) else given
    table = _moved_files(table, move)
    if not isinstance(every, list) or not any(map(_is_path, every)):
        return table
    return {**table, "algorithms": [move(one) if _is_path(one) else one for one in every]}


def _moved_files(layer: Any, move: Callable[[str], str]) -> Any:
    """A table or block, with the paths in `model` and `dataset` moved, also in its blocks and single
    methods.
    """
    if not isinstance(layer, dict):
        return layer
    new = dict(layer)
    for name in ("model", "dataset"):
        given = layer.get(name)
        if isinstance(given, list):
            new[name] = [move(one) if _is_path(one) else one for one in given]
        elif isinstance(given, str) and _is_path(given):
            new[name] = move(given)
    for key in ("scenarios", "variants"):
        if isinstance(layer.get(key), list):
            new[key] = [_moved_files(block, move) for block in layer[key]]
    if isinstance(layer.get("methods"), dict):
        own = layer["methods"].items()
        new["methods"] = {name: _moved_files(values, move) for name, values in own}
    return new


def _is_path(name: Any) -> bool:
    return isinstance(name, str) and name.endswith(".py")


def names(methods: Mapping[str, type[Algorithm]]) -> dict[str, str]:
    """What the methods of an experiment are called: see `file_names` for plugins by their path."""
    own = {plugin: registry.name_of(method) for plugin, method in methods.items()}
    return {**own, **file_names(methods)}


def file_names(plugins: Iterable[Any]) -> dict[str, str]:
    """The names of plugins by their paths, which are those of the files. Different files of one
    name are told apart by their folders: `first/apfl.py` is `first_apfl`.
    """
    files = {plugin: Path(plugin).resolve() for plugin in plugins if _is_path(plugin)}
    found = {plugin: file.stem for plugin, file in files.items()}
    for depth in itertools.count(2):
        owners: dict[str, set[Path]] = {}
        for plugin, file in files.items():
            owners.setdefault(plain(found[plugin]), set()).add(file)
        alike = [plugin for plugin in files if len(owners[plain(found[plugin])]) > 1]
        if not alike or depth > max(len(files[plugin].parts) for plugin in alike):
            break
        for plugin in alike:
            words = files[plugin].with_suffix("").parts[-depth:]
            found[plugin] = re.sub(r"\W+", "_", "_".join(words))
    return found


def without_others(table: Table, given: Mapping[str, Any]) -> Table:
    """A table of which other methods are run than it says: what it has for single plugins of its
    own, by their names, is left out unless they are among them.
    """
    if "algorithms" not in given or not isinstance(table.get("algorithms"), list):
        return table
    chosen = given["algorithms"] if isinstance(given["algorithms"], list) else []
    left = {Path(path).resolve(): name for path, name in file_names(chosen).items()}
    new_names = {
        plain(name): left.get(Path(path).resolve())
        for path, name in file_names(table["algorithms"]).items()
    }
    new: Table = _renamed(table, new_names)
    for key in ("scenarios", "variants"):
        if isinstance(table.get(key), list):
            new[key] = [_renamed(block, new_names) for block in table[key]]
    return new


def _renamed(layer: Any, new_names: Mapping[str, str | None]) -> Any:
    """A table or block whose `methods` have these names; those of None are left out."""
    if not isinstance(layer, dict) or not isinstance(layer.get("methods"), dict):
        return dict(layer) if isinstance(layer, dict) else layer
    methods = {new_names.get(plain(name), name): own for name, own in layer["methods"].items()}
    return {**layer, "methods": {name: own for name, own in methods.items() if name is not None}}


def called(runs: Iterable[Planned], pattern: str) -> set[str]:
    """The plugins of these runs that a pattern with * and ? means: by name, title, file name or
    path.
    """
    return {
        run.plugin for run in {run.plugin: run for run in runs}.values() if _is_called(run, pattern)
    }


def warn_of_strangers(name: str, runs: Iterable[Planned], asked: Iterable[str]) -> None:
    """Warn of methods that a report asks for and nobody knows: a slip of the pen. `--algorithms`
    may have left a method out.
    """
    every = list(runs)
    known = {plain(method) for method in registry.names()}
    for method in dict.fromkeys(asked):
        if method and plain(method) not in known and not called(every, method):
            methods = ", ".join(sorted({run.run.algorithm for run in every}))
            text = f"the report of {name} names {method!r}, which is not one of its methods"
            warnings.warn(f"{text}: {methods}", stacklevel=3)


def _is_called(planned: Planned, pattern: str) -> bool:
    plugin = planned.plugin
    if _is_path(plugin):
        end = Path(pattern)  # without a leading ./
        if Path(plugin).resolve() == end.resolve() or fnmatchcase(f"/{plugin}", f"*/{end}"):
            return True
    own = [planned.run.algorithm, Path(plugin).stem, registry.load(plugin).title]
    return any(fnmatchcase(plain(name), plain(pattern)) for name in own)
