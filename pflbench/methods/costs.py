"""What a method sends, as a formula: `phi + C_i*(k + 2) + 1` numbers of 4 bytes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pflbench.errors import UserError, unknown
from pflbench.methods.registry import hparams_type

if TYPE_CHECKING:
    from pflbench.api import Algorithm

NUMBER = 4
"""Bytes of a number on the wire (float32, int32)."""

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def evaluate(formula: str, names: Mapping[str, int]) -> int:
    """The value of a formula of whole numbers, names, `+ - * //` and parentheses; anything else is
    a ValueError.
    """
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"formula {formula!r}: {error.msg}") from None

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Name):
            if node.id not in names:
                raise ValueError(f"formula {formula!r}: {unknown('name', node.id, names)}")
            return names[node.id]
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        part = ast.get_source_segment(formula.strip(), node)
        raise ValueError(
            f"formula {formula!r}: {part!r} is not allowed;"
            " allowed are names, whole numbers, + - * // ( )"
        )

    try:
        return value(tree)
    except ZeroDivisionError:
        raise ValueError(f"formula {formula!r}: divides by zero") from None


def by_default(cls: type[Algorithm]) -> tuple[str, str]:
    """The formulas of a method at its default hyperparameters; no task is needed, since they depend
    on these alone.
    """
    unbound = object.__new__(cls)
    unbound.hp = hparams_type(cls)()
    return stated(unbound)


def stated(method: Algorithm) -> tuple[str, str]:
    """What a method says that it sends, down and up, if it is two formulas."""
    wanted = "it must return two formulas, as in: return 'theta', 'theta + 1'"
    try:
        found = method.costs()
    except Exception as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UserError(f"{method.title}: costs() failed ({said}); {wanted}") from error
    if not isinstance(found, tuple) or [*map(type, found)] != [str, str]:
        raise UserError(f"{method.title}: costs() returned {found!r}; {wanted}")
    return found


def names_of(algorithm: Algorithm, counts: Iterable[int]) -> dict[str, int]:
    """The names in the formulas of a method, for a client that has `counts[c]` training samples of
    class c.

    theta, phi, pi: parameters of the network, its body and its head; C classes; k entries of a
    representation; N clients; C_i classes and n_i training samples of the client; and the method's
    own, `algorithm.sizes()`.
    """
    task, counts = algorithm.task, [int(n) for n in counts]
    parts = {"theta": "", "phi": "body.", "pi": "head."}
    sizes = {
        part: sum(p.numel() for name, p in task.initial.items() if name.startswith(prefix))
        for part, prefix in parts.items()
    }
    of_run = {"C": task.classes, "k": task.width, "N": task.clients}
    of_client = {"C_i": sum(n > 0 for n in counts), "n_i": sum(counts)}
    return {**sizes, **of_run, **of_client, **algorithm.sizes()}
