"""Stored numbers of three rounds, per method: a change that moves them is seen.

python -m pflbench.testing.golden NAME...     # records tests/golden/NAME.json anew
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from pflbench.api import State
from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.testing.compare import tensors
from pflbench.testing.problem import TOY_CNN, toy

FOLDER = Path("tests/golden")
PROBLEM: dict[str, Any] = {
    **TOY_CNN,
    "dataset": "synthetic:classes=4,side=16,samples=240",
    "width": 32,
}
CLOSE = 1e-4
"""Relative tolerance of losses and norms: more than another CPU's rounding, less than any change of the method."""
LESS_CLOSE = 1e-3
"""The same for what methods log, and for the distance from the start, a small difference of large numbers."""


def numbers(plugin: str) -> dict[str, Any]:
    """What is stored of a method: per round accuracies, loss, bytes and logs; at the end norms of the states.

    `moved` is a part's distance from where it began, which shows a change of a step that its norm would hide.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        federation = toy(plugin, {"participation": 1.0}, **PROBLEM)
        begin, first = federation.server, federation.algorithm.init_client()
        records = [federation.start()[0], *(federation.step()[0] for _ in range(3))]
    finally:
        torch.set_num_threads(threads)
    kept = {
        name: [record.get(name) for record in records]
        for name in ("accuracy", "loss", "bytes", "logs")
    }
    clients = {str(id): _sizes(state, first) for id, state in sorted(federation.states.items())}
    tests = [len(rows) for rows in federation.partition.test]
    return {
        "tests": tests,
        **_rounded(kept),
        "server": _sizes(federation.server, begin),
        "clients": clients,
    }


def deviations(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Where numbers differ from the stored ones by more than rounding; accuracies by more than one sample."""
    tests = stored["tests"]

    def compared(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
            for key in old:
                yield from compared(old[key], new[key], (*path, key))
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            for place, (a, b) in enumerate(zip(old, new, strict=True)):
                yield from compared(a, b, (*path, str(place)))
        elif not _close(old, new, path, tests):
            yield f"{'.'.join(path)}: {old} is stored, {new} is found"

    yield from compared(dict(stored), dict(now), ())


def record(plugin: str, folder: Path = FOLDER) -> Path:
    """Store the numbers of a method."""
    if not folder.is_dir():
        raise UserError(f"no folder {folder}; run this in the project's folder")
    path = folder / f"{registry.name_of(registry.load(plugin))}.json"
    path.write_text(json.dumps(numbers(plugin), indent=1) + "\n", encoding="utf-8")
    return path


def _close(old: Any, new: Any, path: tuple[str, ...], tests: list[int]) -> bool:
    if not (isinstance(old, float) and isinstance(new, float)):
        return bool(old == new)
    if path[0] == "accuracy":
        return abs(old - new) <= 1.001 / tests[int(path[-1])]
    tolerance = LESS_CLOSE if path[-1] == "moved" or path[0] == "logs" else CLOSE
    return abs(old - new) <= tolerance * max(abs(old), abs(new), 1e-6)


def _sizes(state: State, begin: State) -> dict[str, Any]:
    """Of each part of a state: its norm and, where it was there from the beginning, how far it moved."""
    sizes = {}
    for part in state:
        now, then = dict(tensors(state[part])), dict(tensors(begin.get(part)))
        sizes[part] = {"norm": _norm(now)}
        if now.keys() == then.keys() and all(now[name].shape == then[name].shape for name in now):
            sizes[part]["moved"] = _norm(
                {name: now[name].double() - then[name].double() for name in now}
            )
    return sizes


def _norm(leaves: Mapping[str, torch.Tensor]) -> float:
    return _rounded(sum(float(t.double().square().sum()) for t in leaves.values()) ** 0.5)  # type: ignore[no-any-return]


def _rounded(value: Any) -> Any:
    """Floats with six significant digits."""
    if isinstance(value, dict):
        return {key: _rounded(branch) for key, branch in value.items()}
    if isinstance(value, list):
        return [_rounded(branch) for branch in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main() -> None:
    """Record the methods that are named."""
    if len(sys.argv) < 2:
        sys.exit(
            f"usage: python -m pflbench.testing.golden NAME...; known: {', '.join(registry.names())}"
        )
    for name in sys.argv[1:]:
        try:
            print(f"wrote {record(name)}")
        except UserError as error:
            print(error, file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()
