"""Plugins that are wrong on purpose: the kit must find each of them, at the right check."""

from pathlib import Path

import pytest

from pflbench import testing
from pflbench.errors import UserError

WRONG = Path(__file__).parent / "wrong"

# plugin -> the check that must find it, what it must say, and the checks that fail as a consequence
WHOLE_KIT = {
    # heads of clients that were trained in another process, or before the stop, are not there
    "state_on_self": (
        "no-state-on-self",
        "client_update() changed self.heads",
        {"resume-in-the-middle", "engines-agree"},
    ),
    "parallel_lists": (
        "client-order-irrelevant",
        "key everything by client id, never by position",
        set(),
    ),
    # the harness hands out copies, so nobody else is hurt
    "edits_broadcast": (
        "messages-not-mutated",
        "client_update() changed its argument message in place, at 'theta.",
        set(),
    ),
    # each process has a global generator of its own, and a resumed run starts with a new one
    "global_generator": (
        "no-global-random-generator",
        "client_update() (client 0, round 1) drew from the global generator of torch",
        {"client-order-irrelevant", "resume-in-the-middle", "engines-agree"},
    ),
    # the harness refuses the message, so nothing that plays a round gets anywhere
    "python_float": (
        "messages-are-tensors",
        "the reply of client_update() has a float at 'n'",
        set(testing.names()) - {"hyperparameters-have-ranges"},
    ),
}

# plugin -> the check that must find it, what it must say, and a check that it passes nevertheless
ONE_CHECK = {
    "counts_downloads": ("evaluation-is-pure", "asked differs by up to 4", "deterministic"),
    "counts_everyone": ("partial-participation", "client 3 never took part", "deterministic"),
    "default_outside_range": (
        "hyperparameters-have-ranges",
        "its default, 0.1, is outside",
        "deterministic",
    ),
    "no_deviations": (
        "docstring-has-its-parts",
        "lacks Deviations:",
        "hyperparameters-have-ranges",
    ),
    "participants_only": (
        "unseen-client",
        "KeyError: 0 (participants_only.py, line 20)",
        "deterministic",
    ),
    "post_without_model": (
        "docstring-has-its-parts",
        "trained_model() returns no model",
        "deterministic",
    ),
    "reads_the_clock": ("deterministic", "the same run, done twice differ", "one-class-client"),
    "shared_memory": ("private-state-not-aliased", "are the same memory", "no-state-on-self"),
    "state_in_module": (
        "no-state-on-self",
        "aggregate() changed module state_in_module.MOMENTUM",
        "deterministic",
    ),
    "too_short_formula": (
        "measured-bytes-equal-formula",
        "measured are 259915 (theta 259914, n 1)",
        "deterministic",
    ),
    "two_classes_needed": (
        "one-class-client",
        "round 1, client 1, client_update(): ValueError",
        "one-client-federation",
    ),
    "unknown_name": ("measured-bytes-equal-formula", "did you mean 'theta'?", "deterministic"),
}


def path_of(name: str) -> str:
    return str(WRONG / f"{name}.py")


@pytest.mark.parametrize("name", WHOLE_KIT)
def test_the_kit_finds(name: str):
    right, text, consequences = WHOLE_KIT[name]
    results = {result.name: result for result in testing.checks(path_of(name))}
    assert list(results) == testing.names()
    assert text in results[right].message
    assert {check for check, result in results.items() if not result.passed} == {
        right
    } | consequences


@pytest.mark.parametrize("name", ONE_CHECK)
def test_the_right_check_finds(name: str):
    right, text, fine = ONE_CHECK[name]
    found = testing.run_check(path_of(name), right)
    assert not found.passed
    assert text in found.message
    assert "\n" not in found.message
    passed = testing.run_check(path_of(name), fine)
    assert passed.passed, passed.message


def test_every_wrong_plugin_is_tried():
    assert {path.stem for path in WRONG.glob("*.py")} == WHOLE_KIT.keys() | ONE_CHECK.keys()


def with_exceptions(folder: Path, name: str, exceptions: dict[str, str]) -> str:
    """The path of a copy of a wrong plugin that declares exceptions."""
    source = (WRONG / f"{name}.py").read_text(encoding="utf-8")
    declared = source.rstrip() + f"\n    exceptions = {exceptions!r}\n"
    path = folder / f"{name}.py"
    path.write_text(declared, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("check", ["measured-bytes-equal-formula", "measured_bytes_equal_formula"])
def test_a_declared_exception_is_an_expected_failure(tmp_path: Path, check: str):
    plugin = with_exceptions(tmp_path, "too_short_formula", {check: "n is tiny"})
    result = testing.run_check(plugin, "measured-bytes-equal-formula")
    assert result.passed
    assert result.expected_failure == "n is tiny"
    assert "measured are 259915" in result.message


def test_an_exception_for_a_check_that_passes_is_a_failure(tmp_path: Path):
    plugin = with_exceptions(tmp_path, "too_short_formula", {"deterministic": "we thought so"})
    result = testing.run_check(plugin, "deterministic")
    assert not result.passed
    assert result.expected_failure is None
    assert result.message == "passes unexpectedly; remove the exception (we thought so)"


def test_an_exception_for_an_unknown_check_is_a_failure(tmp_path: Path):
    plugin = with_exceptions(tmp_path, "too_short_formula", {"measured-bites": "a slip"})
    result = testing.run_check(plugin, "docstring-has-its-parts")
    assert not result.passed
    assert "exceptions names 'measured-bites', which is no check" in result.message


def test_what_cannot_be_checked_is_the_users_mistake(tmp_path: Path):
    with pytest.raises(
        UserError, match="unknown check 'deterministc'; did you mean 'deterministic'"
    ):
        testing.run_check("fedavg", "deterministc")
    with pytest.raises(UserError, match="no plugin file"):
        list(testing.checks(str(tmp_path / "missing.py")))
