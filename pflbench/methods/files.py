"""Where the code of the methods is. Nothing here imports or executes a method."""

import functools
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pflbench.algorithms

GROUP = "pflbench.algorithms"
"""Entry point group under which an installed package offers its own methods."""


def shipped() -> dict[str, Path]:
    """The files of the methods that come with pflbench, by name; a name with `_` in front is no
    method.
    """
    found = [
        path
        for folder in pflbench.algorithms.__path__
        for path in sorted(Path(folder).glob("*.py"))
    ]
    return {path.stem: path for path in found if not path.stem.startswith("_")}


@functools.cache
def installed() -> dict[str, EntryPoint]:
    """Methods of other installed packages; the metadata of all packages are read, so it is done
    once.
    """
    return {point.name: point for point in entry_points(group=GROUP)}


def plain(name: str) -> str:
    """A name without what does not matter in it: case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


def find(plugin: str) -> Path | None:
    """The file of a method, by its name or path; None where there is none or it cannot be known."""
    if plugin.endswith(".py"):
        path = Path(plugin)
        return path if path.is_file() else None
    for name, path in shipped().items():
        if plain(name) == plain(plugin):
            return path
    for name, point in installed().items():
        if plain(name) == plain(plugin):
            return _file_of_entry_point(point)
    return None


def _file_of_entry_point(point: EntryPoint) -> Path | None:
    if point.dist is None:
        return None
    module = point.module.replace(".", "/")
    for file in (f"{module}.py", f"{module}/__init__.py"):
        path = Path(str(point.dist.locate_file(file)))
        if path.is_file():
            return path
    return None
