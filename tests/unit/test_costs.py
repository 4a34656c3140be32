"""Formulas of what methods send."""

import re

import pytest

from pflbench.methods import costs
from pflbench.testing import toy

NAMES = {"phi": 100, "k": 8, "C_i": 3}


@pytest.mark.parametrize(
    "formula, value",
    [
        ("0", 0),
        ("phi", 100),
        ("phi + C_i*(k + 2) + 1", 131),
        ("k*(k + 1)//2", 36),
        ("phi - C_i - 1", 96),
        (" 2*phi ", 200),
    ],
)
def test_value(formula: str, value: int):
    assert costs.evaluate(formula, NAMES) == value


@pytest.mark.parametrize(
    "formula, told",
    [
        ("ph + 1", "unknown name 'ph'; did you mean 'phi'? known: C_i, k, phi"),
        ("phi +", "formula 'phi +': invalid syntax"),
        ("", "formula ''"),
        ("phi / 2", "'phi / 2' is not allowed"),
        ("phi ** k", "'phi ** k' is not allowed"),
        ("-phi", "'-phi' is not allowed"),
        ("1.5 * phi", "'1.5' is not allowed"),
        ("True + phi", "'True' is not allowed"),
        ("max(phi, k)", "is not allowed"),
        ("__import__('os').getcwd()", "is not allowed"),
        ("phi // (k - 8)", "divides by zero"),
    ],
)
def test_anything_else_is_refused_in_one_line(formula: str, told: str):
    with pytest.raises(ValueError, match=re.escape(told)) as refused:
        costs.evaluate(formula, NAMES)
    assert "\n" not in str(refused.value)


def test_names_of_a_client():
    algorithm = toy("fedavg", clients=3).algorithm
    body, head = 64 * 8 + 8, 8 * 4 + 4  # 8x8 images, k = 8, four classes
    names = {
        "theta": body + head,
        "phi": body,
        "pi": head,
        "C": 4,
        "k": 8,
        "N": 3,
        "C_i": 2,
        "n_i": 7,
    }
    assert costs.names_of(algorithm, [5, 0, 2, 0]) == names
