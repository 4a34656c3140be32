"""`pflbench new`: the file of a new method, network or data set, which works as it is and explains
itself.
"""

import contextlib
import keyword
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from string import Template

from pflbench.errors import UserError
from pflbench.methods import registry, skeletons
from pflbench.methods.files import plain

TEXTS = {
    "method": skeletons.METHOD,
    "network": skeletons.NETWORK,
    "data set": skeletons.DATASET,
}


def new(
    name: str, folder: Path | None = None, kind: str = "method", others: Iterable[str] = ()
) -> Path:
    """Write the file of a method, a network or a data set and return its path; `others` of its kind
    are there already.
    """
    if (
        not name.isidentifier()
        or not name.isascii()
        or keyword.iskeyword(name.lower())
        or name.startswith("_")
    ):
        raise UserError(
            f"{name!r} cannot be the name of a {kind}: use letters, digits and underscores,"
            f" e.g. my_{kind.replace(' ', '_')}"
        )
    taken = {plain(known): known for known in others or registry.names()}
    if plain(name) in taken:
        raise UserError(f"the name {name!r} is taken by the {kind} {taken[plain(name)]!r}")
    if folder is None:
        folder = Path("algorithms") if kind == "method" and is_checkout(Path()) else Path()
    path = folder / f"{name.lower()}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text(name, kind))
    except FileExistsError as error:
        there = path if path.exists() else folder
        raise UserError(f"{there} already exists and is not overwritten") from error
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()  # an empty file, of a full disk
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    return path


def text(name: str, kind: str = "method") -> str:
    """What is in the file."""
    return Template(TEXTS[kind]).substitute(title=class_name(name), year=date.today().year)


def is_checkout(folder: Path) -> bool:
    """Whether a folder is the top of a checkout of pflbench, where methods are in `algorithms/`."""
    return all(
        (folder / name).exists() for name in ("pflbench/api.py", "algorithms", "pyproject.toml")
    )


def class_name(name: str) -> str:
    """FedALA as it is; my_method as MyMethod."""
    return name if name != name.lower() else "".join(word.capitalize() for word in name.split("_"))
