"""Stored numbers of three rounds, per method: a change that moves them is seen.

    python -m pflbench.testing.golden [--new-revision] NAME...

compares a method with its numbers in tests/golden/NAME.json and lists its code in
pflbench/methods/revisions.json. Where the numbers are the stored ones, its results stay valid: the
revision stays. Where they are others, they are stored and the revision goes up by one, so that
earlier results are outdated. Where they are others though the method's code is the listed one, the
harness has changed, and its revision goes up too, once: results of other plugins are outdated.
`--new-revision` is for a change that these three rounds at the default hyperparameters do not show.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pflbench.api import State
from pflbench.errors import UserError
from pflbench.methods import registry, versions
from pflbench.simulation.threads import one_thread
from pflbench.testing.compare import tensors
from pflbench.testing.problem import TOY_CNN, network_of, toy

FOLDER = Path("tests/golden")
PROBLEM: dict[str, Any] = {
    **TOY_CNN,
    "dataset": "synthetic:classes=4,side=16,samples=240",
    "width": 32,
}
CLOSE = 1e-4
"""Relative tolerance of losses and norms: more than another CPU's rounding, less than any change of
the method.
"""
LESS_CLOSE = 1e-3
"""The same for what methods log, and for the distance from the start, a small difference of large
numbers.
"""


def numbers(plugin: str) -> dict[str, Any]:
    """What is stored of a method: per round accuracies, loss, bytes and logs; at the end norms of
    the states.

    `moved` is a part's distance from its start, which shows a change of a step that its norm would
    hide.
    """
    with one_thread():
        problem = {**PROBLEM, **network_of(registry.load(plugin))}
        federation = toy(plugin, {"participation": 1.0}, **problem)
        begin, first = federation.server, federation.algorithm.init_client()
        records = [federation.start()[0], *(federation.step()[0] for _ in range(3))]
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
    """Where numbers differ from the stored ones by more than rounding; accuracies by more than one
    sample.
    """
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


def record(plugin: str, folder: Path = FOLDER, new_revision: bool = False) -> "Recorded":
    """Store the numbers of a method where they changed, and list its code with its revision."""
    if not folder.is_dir():
        raise UserError(f"no folder {folder}; run this in the project's folder")
    method = registry.load(plugin)
    name, code = registry.name_of(method), versions.code_hash(registry.file_of(method))
    path, found = folder / f"{name}.json", numbers(plugin)
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    changed = stored is None or any(True for _ in deviations(stored, found))
    if changed:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    listed = versions.read_revisions()
    entry = listed["methods"].get(name, {"revision": 0, "code": ""})
    is_next = changed or new_revision or not entry["revision"]
    revision = entry["revision"] + 1 if is_next else entry["revision"]
    listed["methods"][name] = {"revision": revision, "code": code}
    versions.write_revisions(listed)
    by_harness = changed and stored is not None and entry["code"] == code
    return Recorded(name, revision, changed, by_harness)


@dataclass(frozen=True)
class Recorded:
    """What became of a method's numbers."""

    method: str
    revision: int
    changed: bool  # the numbers
    by_harness: bool  # the numbers changed and the method's code did not

    def __str__(self) -> str:
        numbers = "other numbers, stored" if self.changed else "the stored numbers"
        return f"{self.method}: {numbers}; revision {self.revision}"


def _close(old: Any, new: Any, path: tuple[str, ...], tests: list[int]) -> bool:
    if not (isinstance(old, float) and isinstance(new, float)):
        return bool(old == new)
    if path[0] == "accuracy":
        return abs(old - new) <= 1.001 / tests[int(path[-1])]
    tolerance = LESS_CLOSE if path[-1] == "moved" or path[0] == "logs" else CLOSE
    return abs(old - new) <= tolerance * max(abs(old), abs(new), 1e-6)


def _sizes(state: State, begin: State) -> dict[str, Any]:
    """Of each part of a state: its norm and, where it was there from the beginning, how far it
    moved.
    """
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
    squares = sum(float(t.double().square().sum()) for t in leaves.values())
    return float(_rounded(squares**0.5))


def _rounded(value: Any) -> Any:
    """Floats with six significant digits."""
    if isinstance(value, dict):
        return {key: _rounded(branch) for key, branch in value.items()}
    if isinstance(value, list):
        return [_rounded(branch) for branch in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main(arguments: Sequence[str]) -> None:
    """Record the methods that are named."""
    names = [word for word in arguments if word != "--new-revision"]
    if not names:
        usage = "python -m pflbench.testing.golden [--new-revision] NAME..."
        sys.exit(f"usage: {usage}; known: {', '.join(registry.names())}")
    try:
        found = []
        for name in names:
            found.append(record(name, new_revision="--new-revision" in arguments))
            print(found[-1], flush=True)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    if any(one.by_harness for one in found):
        listed = versions.read_revisions()
        listed["harness"] += 1
        versions.write_revisions(listed)
        print(f"the harness: revision {listed['harness']}")


if __name__ == "__main__":
    main(sys.argv[1:])
