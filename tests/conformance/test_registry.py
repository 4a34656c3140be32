"""Every check of the kit on every method of the registry."""

import pytest

from pflbench import testing
from pflbench.methods import registry

CASES = [
    pytest.param(check, name, id=f"{check}-{name}")
    for name in registry.names()
    for check in testing.names()
]


@pytest.mark.parametrize("check, name", CASES)
def test_method_conforms(check: str, name: str):
    result = testing.run_check(name, check)
    assert result.passed, f"{name}, {check}: {result.message}"
    if result.expected_failure:
        pytest.xfail(result.expected_failure)


def test_every_check_says_what_it_is_about():
    assert all(testing.describe(name).endswith(".") for name in testing.names())
