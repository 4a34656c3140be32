"""`pflbench check`: whether a method, a network or a data set follows the contract."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from pflbench.cli import console, options

OUTCOMES = ("ok", "expected", "FAIL")


def check(
    plugin: Annotated[
        str, typer.Argument(help="Name or path of a method or a network, or path of a data set.")
    ],
    as_json: options.Json = False,
) -> None:
    """Check that a method, a network or a data set follows the contract."""
    from pflbench import testing
    from pflbench.data import loader_file
    from pflbench.testing import dataset, network

    found = []
    checks: Callable[[str], Iterator[testing.CheckResult]] = testing.checks
    if network.is_network(plugin):
        checks = network.checks
    elif loader_file.is_loader(plugin):
        checks = dataset.checks
    for result in checks(plugin):
        outcome = "FAIL" if not result.passed else "expected" if result.expected_failure else "ok"
        row = {"check": result.name, "outcome": outcome, "message": result.message}
        found.append({**row, "because_of": result.because_of, "seconds": result.seconds})
        reason = {
            "FAIL": result.message,
            "expected": result.expected_failure,
            "ok": result.message or testing.describe(result.name),
        }
        if not as_json and result.because_of is None:
            print(f"{outcome:<9}{result.name:<32} {reason[outcome]}", flush=True)
    numbers = {name: sum(row["outcome"] == name for row in found) for name in OUTCOMES}
    if as_json:
        console.dump(found)
    else:
        _tell_consequences(found)
        print(", ".join(f"{number} {outcome}" for outcome, number in numbers.items() if number))
    if numbers["FAIL"]:
        raise typer.Exit(1)


def _tell_consequences(found: list[dict[str, Any]]) -> None:
    """A line for every failure that others come of."""
    others: dict[str, list[str]] = {}
    for row in found:
        if row["because_of"] is not None:
            others.setdefault(row["because_of"], []).append(row["check"])
    for cause, names in others.items():
        print(f"{'FAIL':<9}{len(names)} more because of {cause}: {', '.join(names)}")
