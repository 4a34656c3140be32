"""Names to plugins: files of `algorithms/`, then entry points of installed packages, then a path to
a file.
"""

import dataclasses
import importlib
import sys
import typing
from pathlib import Path
from types import ModuleType

import pflbench.algorithms
from pflbench import plugin_file
from pflbench.api import Algorithm, Hparams
from pflbench.errors import UserError, hint, unknown
from pflbench.methods import files, given, versions
from pflbench.methods.files import plain
from pflbench.methods.given import Given
from pflbench.plugin_file import naming_failures, near

EVALUATION_POINTS = ("pre", "post")


def names() -> list[str]:
    """All methods known by name, sorted."""
    return sorted(files.shipped().keys() | files.installed().keys())


def load(plugin: str, *, anew: bool = False) -> type[Algorithm]:
    """The class of a method, by its name (case and hyphens do not matter) or by the path of its
    file, which is executed once per process unless it has changed, or `anew` is asked for. A class
    that was handed over is itself.
    """
    if isinstance(plugin, Given):
        return plugin.method
    if plugin.endswith(".py"):
        return _only_algorithm(_from_path(Path(plugin), anew), plugin)
    known = {plain(name): name for name in names()}
    if plain(plugin) not in known:
        raise unknown("method", plugin, names(), near(plugin))
    name = known[plain(plugin)]
    if name in files.shipped():
        return _only_algorithm(_imported(name), f"algorithms/{name}.py")
    point = files.installed()[name]
    with naming_failures(point.value):
        loaded: type[Algorithm] = point.load()
    return loaded


def name_of(cls: type[Algorithm]) -> str:
    """The name by which users call a method: its file's, or that of a class that was handed over."""
    if given.version_of(cls):
        return given.name_of(cls)
    return cls.__module__.rpartition(".")[2]


def file_of(cls: type[Algorithm]) -> Path:
    """The file that a method is in."""
    return Path(sys.modules[cls.__module__].__file__ or "")


def version_of(cls: type[Algorithm]) -> str:
    """The version of a method's code, see `versions`."""
    return given.version_of(cls) or versions.version_of(file_of(cls))


def hparams_type(cls: type[Algorithm]) -> type[Hparams]:
    """The dataclass that a method's `hp:` annotation names."""
    try:
        found = typing.get_type_hints(cls)["hp"]
    except Exception as error:  # of a name that is not defined
        raise _no_hparams(cls, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, Hparams):
        raise _no_hparams(cls, f"it is {found!r}")
    for f in dataclasses.fields(found):
        if "allowed" not in f.metadata:
            where = f"plugin {name_of(cls)}: hyperparameter {f.name}"
            raise UserError(f"{where} must be declared with hparam(default, range, meaning)")
    return found


def _no_hparams(cls: type[Algorithm], reason: str) -> UserError:
    wanted = "hp must be annotated with a dataclass of Hparams, as in: hp: Hparams"
    return UserError(f"plugin {name_of(cls)}: {wanted} ({reason})")


def _imported(name: str) -> ModuleType:
    with naming_failures(f"algorithms/{name}.py"):
        return importlib.import_module(f"pflbench.algorithms.{name}")


def _from_path(path: Path, anew: bool) -> ModuleType:
    if not path.is_file():
        raise UserError(f"no plugin file {str(path)!r}{hint(path.stem, names(), near(path))}")
    for folder in pflbench.algorithms.__path__:
        ours = Path(folder) / path.name
        if ours.is_file() and not ours.samefile(path):
            raise UserError(
                f"plugin {path} has the name of a method that ships with pflbench; rename the file"
            )
    return plugin_file.execute(path, anew=anew)


def _only_algorithm(module: ModuleType, path: str) -> type[Algorithm]:
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Algorithm)
        and value.__module__ == module.__name__
    ]
    if len(own) != 1:
        wanted = "must define one subclass of pflbench.api.Algorithm"
        raise UserError(f"plugin {path} {wanted}; it defines {len(own)}")
    return checked(own[0], f"plugin {path}")


def checked(cls: type[Algorithm], where: str) -> type[Algorithm]:
    """The class of a method that says what tables need to know of it."""
    for name in ("title", "family"):
        if not hasattr(cls, name):
            raise UserError(f"{where}: class {cls.__name__} has no {name}")
        if not isinstance(getattr(cls, name), str) or not getattr(cls, name):
            raise UserError(f"{where}: {name} = {getattr(cls, name)!r}: must be a text")
    if not isinstance(cls.one_shot, bool):
        raise UserError(f"{where}: one_shot = {cls.one_shot!r}: must be True or False")
    if cls.evaluation_point not in EVALUATION_POINTS:
        point = f"evaluation_point = {cls.evaluation_point!r}"
        raise UserError(f"{where}: {point}: must be {' or '.join(EVALUATION_POINTS)}")
    hparams_type(cls)
    return cls
