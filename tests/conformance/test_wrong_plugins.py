"""Plugins that are wrong on purpose: the kit must find each of them, at the right check."""

from pathlib import Path

import pytest

from pflbench import testing
from pflbench.cli import main
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
        set(testing.names()) - {"hyperparameters-have-ranges", "docstring-has-its-parts"},
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
    "own_steps": (
        "training-options",
        "local_momentum = 0.9 changes nothing; train by ops.local_sgd, or refuse it: local_momentum: float",
        "deterministic",
    ),
    "participants_only": (
        "unseen-client",
        "participants_only.py, line 20)",
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
        "messages-are-tensors",
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
    "waits_for_all": (
        "failing-and-slow-clients",
        "round 1, on the server: KeyError: 2 (",
        "partial-participation",
    ),
}


def path_of(name: str) -> str:
    return str(WRONG / f"{name}.py")


@pytest.mark.parametrize("name", WHOLE_KIT)
def test_the_kit_finds(name: str):
    right, text, consequences = WHOLE_KIT[name]
    results = {result.name: result for result in testing.checks(path_of(name))}
    assert list(results) == testing.names()
    assert text in results[right].message
    failed = {check: result.because_of for check, result in results.items() if not result.passed}
    assert failed == {right: None, **dict.fromkeys(consequences - {right}, right)}


@pytest.mark.parametrize("name", ONE_CHECK)
def test_the_right_check_finds(name: str):
    right, text, fine = ONE_CHECK[name]
    found = testing.run_check(path_of(name), right)
    assert not found.passed
    assert text in found.message
    assert "\n" not in found.message
    passed = testing.run_check(path_of(name), fine)
    assert passed.passed, passed.message


BROKEN = """
from pflbench.api import Algorithm

class Broken(Algorithm):
    title, family = "Broken", "none"

    def client_update(self, client, message):
        return {"theta": message["theta"]}, self._state(client)

    def _state(self, client):
        raise ValueError(f"client {client.id} in round {client.round}")

    def aggregate(self, server, replies):
        return server

    def personal_model(self, client, message):
        return message["theta"]
"""


def test_an_error_is_told_once_with_its_line_and_what_fails_with_it(tmp_path: Path, capsys):
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    with pytest.raises(SystemExit) as end:
        main.main(["check", str(path)])
    assert end.value.code == 1
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    docstring, error, more = told
    assert docstring.split()[:2] == ["FAIL", "docstring-has-its-parts"]
    said = f"client_update(): ValueError: client 0 in round 0 ({path}, line 11)"
    assert error.split()[1] == "messages-are-tensors" and error.endswith(said)
    others = more.partition(": ")[2].split(", ")
    assert more.startswith(f"FAIL     {len(others)} more because of messages-are-tensors: ")
    assert {"unseen-client", "engines-agree", "resume-in-the-middle"} <= set(others)


TWO_ERRORS = """
        if client.n < 2:
            raise ValueError("one sample")
        if len(client.y.unique()) < 2:
            raise ValueError("one class")
        return {}
"""


def test_two_errors_are_told_apart(tmp_path: Path):
    path = tmp_path / "broken.py"
    raised = '        raise ValueError(f"client {client.id} in round {client.round}")\n'
    assert raised in BROKEN
    path.write_text(BROKEN.replace(raised, TWO_ERRORS))
    found = {one.name: one.because_of for one in testing.checks(str(path)) if not one.passed}
    failed = ("one-class-client", "one-sample-client", "one-client-cohort")
    assert [found[name] for name in failed] == [None, None, "one-class-client"]


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
    assert "exceptions names 'measured-bites', which is not a check" in result.message


def test_what_cannot_be_checked_is_the_users_mistake(tmp_path: Path):
    with pytest.raises(
        UserError, match="unknown check 'deterministc'; did you mean 'deterministic'"
    ):
        testing.run_check("fedavg", "deterministc")
    with pytest.raises(UserError, match="no plugin file"):
        list(testing.checks(str(tmp_path / "missing.py")))
