"""The version of a method: which code its numbers come from. Files are parsed, never executed.

A shipped method has a revision, r1, r2, ...: it counts how often the method's numbers changed.
`revisions.json` lists the revision of every shipped method and the hash of its code; `python -m
pflbench.testing.golden NAME` maintains it. Code that is not in the list (an edited method, a plugin
of your own) has a hash as its version, of its code and of the harness's revision, which counts how
often the harness changed the numbers of methods whose code stayed the same.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pflbench.algorithms
from pflbench.methods import files

REVISIONS = Path(__file__).with_name("revisions.json")
DIGITS = 10  # of a hash
OURS = "pflbench.algorithms."


def current(plugin: str) -> str:
    """The version of a method's code as it is now, by name or path; "" where its file cannot be
    found or parsed.
    """
    path = files.find(plugin)
    try:
        return version_of(path) if path is not None else ""
    except (OSError, SyntaxError, ValueError):
        return ""


def version_of(path: Path) -> str:
    """The version of the method in a file."""
    code, listed = code_hash(path), read_revisions()
    entry = listed["methods"].get(path.stem, {})
    if is_shipped(path) and entry.get("code") == code:
        return f"r{entry['revision']}"
    return digest([str(listed["harness"]), code])


def is_shipped(path: Path) -> bool:
    """Whether a file is one of the methods that come with pflbench."""
    folders = [Path(folder).resolve() for folder in pflbench.algorithms.__path__]
    return path.resolve().parent in folders


def read_revisions() -> dict[str, Any]:
    """`revisions.json`: {"harness": number, "methods": {name: {"revision": number, "code":
    hash}}}.
    """
    listed: dict[str, Any] = json.loads(REVISIONS.read_text(encoding="utf-8"))
    return listed


def write_revisions(listed: Mapping[str, Any]) -> None:
    """Write `revisions.json`, a line for every method."""
    lines = [
        f"  {json.dumps(name)}: {json.dumps(entry)}"
        for name, entry in sorted(listed["methods"].items())
    ]
    methods = ",\n".join(lines)
    text = f'{{"harness": {listed["harness"]}, "methods": {{\n{methods}\n}}}}\n'
    REVISIONS.write_text(text, encoding="utf-8")


def code_hash(path: Path) -> str:
    """The hash of a file's code without comments and docstrings, and of the files next to it that
    it imports.
    """
    own, *others = _closure(path.resolve())
    return digest([_code(own), *sorted(_code(other) for other in others)])


def code_text(source: str) -> str:
    """The code of a source without comments and docstrings, as a text."""
    return repr(_plain(ast.parse(source)))


def _closure(path: Path) -> list[Path]:
    """A file and all that it imports from its folder, directly or not."""
    found = [path]
    for file in found:  # it grows on the way
        for other in _parsed(file, file.read_bytes())[1]:
            if other not in found:
                found.append(other)
    return found


def _code(path: Path) -> str:
    return _parsed(path, path.read_bytes())[0]


@functools.cache
def _parsed(path: Path, content: bytes) -> tuple[str, tuple[Path, ...]]:
    """A file's code as text, and the files next to it that it imports."""
    tree = ast.parse(content)
    return repr(_plain(tree)), tuple(dict.fromkeys(_imported_files(tree, path)))


def _plain(node: Any) -> Any:
    """A syntax tree as nested tuples, the same in every version of Python; strings that are no
    value are left out.
    """
    if isinstance(node, ast.AST):
        fields = [
            (name, _plain(value))
            for name, value in ast.iter_fields(node)
            if name not in ("kind", "type_comment", "type_ignores") and value not in (None, [])
        ]
        return (type(node).__name__, *fields)
    if isinstance(node, list):
        return tuple(_plain(part) for part in node if not _is_docstring(part))
    return repr(node)


def _is_docstring(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _imported_files(tree: ast.Module, path: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(alias.name, path.parent)
        elif isinstance(node, ast.ImportFrom):
            up = min(max(node.level - 1, 0), len(path.parents) - 1)
            folder = path.parents[up]
            for alias in node.names:
                module = ".".join(filter(None, [node.module, alias.name]))
                yield from _files_of(module, folder)


def _files_of(module: str, folder: Path) -> Iterator[Path]:
    """The files of a module and of the packages that it is in, as far as they are in a folder."""
    if module.startswith(OURS):
        module = module.removeprefix(OURS)
        folders = [Path(ours) for ours in pflbench.algorithms.__path__]
    elif module.partition(".")[0] == "pflbench":
        return  # the harness has its own revision
    else:
        folders = [folder]
    names = module.split(".")
    for place in folders:
        for depth in range(1, len(names) + 1):
            stem = place.joinpath(*names[:depth])
            for file in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
                if file.is_file():
                    yield file.resolve()


def digest(parts: list[str]) -> str:
    """A hash of texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
