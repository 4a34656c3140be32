"""Names to plugins: files of `algorithms/`, then entry points of installed packages, then a path to
a file.
"""

import dataclasses
import hashlib
import importlib
import importlib.util
import sys
import traceback
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pflbench.algorithms
from pflbench.api import Algorithm, Hparams
from pflbench.errors import UserError, hint, unknown
from pflbench.methods import files
from pflbench.methods.files import plain

EVALUATION_POINTS = ("pre", "post")


def names() -> list[str]:
    """All methods known by name, sorted."""
    return sorted(files.shipped().keys() | files.installed().keys())


def load(plugin: str, *, anew: bool = False) -> type[Algorithm]:
    """The class of a method, by its name (case and hyphens do not matter) or by the path of its
    file, which is executed once per process unless it has changed, or `anew` is asked for.
    """
    if plugin.endswith(".py"):
        return _only_algorithm(_from_path(Path(plugin), anew), plugin)
    known = {plain(name): name for name in names()}
    if plain(plugin) not in known:
        raise unknown("method", plugin, names(), files.near(plugin))
    name = known[plain(plugin)]
    if name in files.shipped():
        return _only_algorithm(_imported(name), f"algorithms/{name}.py")
    point = files.installed()[name]
    with _naming_failures(point.value):
        loaded: type[Algorithm] = point.load()
    return loaded


def name_of(cls: type[Algorithm]) -> str:
    """The name by which users call a method: its file's."""
    return cls.__module__.rpartition(".")[2]


def file_of(cls: type[Algorithm]) -> Path:
    """The file that a method is in."""
    return Path(sys.modules[cls.__module__].__file__ or "")


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
            raise UserError(f"{where} must be declared as hparam(default, range, meaning)")
    return found


def _no_hparams(cls: type[Algorithm], reason: str) -> UserError:
    wanted = "hp must be annotated with a dataclass of Hparams, as in: hp: Hparams"
    return UserError(f"plugin {name_of(cls)}: {wanted} ({reason})")


def _imported(name: str) -> ModuleType:
    with _naming_failures(f"algorithms/{name}.py"):
        return importlib.import_module(f"pflbench.algorithms.{name}")


def _from_path(path: Path, anew: bool) -> ModuleType:
    if not path.is_file():
        raise UserError(f"no plugin file {str(path)!r}{hint(path.stem, names(), files.near(path))}")
    for folder in pflbench.algorithms.__path__:
        ours = Path(folder) / path.name
        if ours.is_file() and not ours.samefile(path):
            raise UserError(
                f"plugin {path} has the name of a method of pflbench;"
                " give its file a name of its own"
            )
    about = path.stat()
    state = about.st_mtime_ns, about.st_size
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:10]
    name = f"pflbench_plugins.{place}.{path.stem}"  # two files of one name are two modules
    if _executed.get(name) == state and not anew:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    _executed.pop(name, None)
    try:
        with _naming_failures(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _executed[name] = state
    return module


_executed: dict[str, tuple[int, int]] = {}
"""Modules of plugins in files: when the file that was executed was written, and its size."""


@contextmanager
def _naming_failures(path: str) -> Iterator[None]:
    """Whatever a plugin raises while it is imported, also an exit, is a mistake in that file."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _broken(path, error) from error


def _broken(path: str, error: BaseException) -> UserError:
    if isinstance(error, SyntaxError):
        return UserError(f"plugin {error.filename or path}, line {error.lineno}: {error.msg}")
    last = traceback.extract_tb(error.__traceback__)[-1]
    cause = f"{type(error).__name__}: {error}"
    return UserError(
        f"plugin {path} cannot be imported: {cause} ({last.filename}, line {last.lineno})"
    )


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
    for name in ("title", "family"):
        if not hasattr(own[0], name):
            raise UserError(f"plugin {path}: class {own[0].__name__} has no {name}")
    if own[0].evaluation_point not in EVALUATION_POINTS:
        point = f"evaluation_point = {own[0].evaluation_point!r}"
        raise UserError(f"plugin {path}: {point}: must be {' or '.join(EVALUATION_POINTS)}")
    return own[0]
