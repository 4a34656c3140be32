"""TOML that `tomllib` reads back: tables, blocks of tables, and plain values."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any


def dumps(table: Mapping[str, Any]) -> str:
    """The table as TOML text; one that only holds other tables has no line of its own."""
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Plain values first: what follows a header belongs to it."""
    for name, value in table.items():
        if not isinstance(value, Mapping) and not _is_blocks(value):
            yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        here = (*path, _key(name))
        if isinstance(value, Mapping):
            if not value or any(not isinstance(part, Mapping) for part in value.values()):
                yield from ("", f"[{'.'.join(here)}]")
            yield from _lines(value, here)
        elif _is_blocks(value):
            for block in value:
                yield from ("", f"[[{'.'.join(here)}]]")
                yield from _lines(block, here)


def _is_blocks(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(part, Mapping) for part in value)
    )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    """JSON says texts, numbers, truths and lists of them as TOML does."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
