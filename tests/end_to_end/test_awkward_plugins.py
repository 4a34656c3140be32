"""Plugins that leave, print or declare what nobody expects."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.commands import PFLBENCH, SMALL, TOY, Call

PLUGIN = '''
import sys
from pflbench.api import Algorithm
from pflbench.ops import cross_entropy_loss, local_sgd, weighted_mean

class Mine(Algorithm):
    """Mine."""

    title = "Mine"
    family = "Standard"

    def client_update(self, client, message):
        {in_client}
        theta = local_sgd(cross_entropy_loss, message["theta"], client, self.hp)
        return {{"theta": theta, "n": client.n}}, {{}}

    def aggregate(self, server, replies):
        {on_server}
        return {{"theta": weighted_mean(replies, "theta")}}

    def personal_model(self, client, message):
        return message["theta"]
'''


def write(
    folder: Path, *, at_import: str = "", in_client: str = "pass", on_server: str = "pass"
) -> None:
    text = PLUGIN.format(in_client=in_client, on_server=on_server)
    (folder / "mine.py").write_text(f"{text}\n{at_import}\n")


@pytest.mark.parametrize("leave", ["sys.exit()", "sys.exit(0)", "raise GeneratorExit", "quit()"])
def test_a_plugin_that_leaves_at_import_is_a_mistake_of_one_line(
    call: Call, tmp_path: Path, leave: str
):
    write(tmp_path, at_import=leave)
    for command in ("run", "check"):
        code, out, err = call(command, "mine.py")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("pflbench: error: plugin mine.py cannot be imported: ")


@pytest.mark.parametrize("where", ["in_client", "on_server"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_plugin_that_leaves_in_a_round_fails(
    call: Call, tmp_path: Path, where: str, workers: str
):
    write(tmp_path, **{where: "sys.exit(0)"})
    code, _, err = call(
        "run", "mine.py", *TOY, "--clients", "4", "--workers", workers, "--rounds", "1"
    )
    assert code == 1
    assert "Mine failed in round 1" in err and "SystemExit: 0 (mine.py, line " in err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_a_plugin_prints_is_not_in_the_json(tmp_path: Path, workers: str):
    write(tmp_path, at_import='print("hello")', in_client='print("here I am")')
    words = ["run", "mine.py", *TOY, "--clients", "4", "--workers", workers, "--rounds", "1"]
    done = subprocess.run(
        [*PFLBENCH, *words, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["method"] == "Mine"
    assert "here I am" in done.stderr


def test_what_a_plugin_warns_of_in_a_sweep_is_one_line(tmp_path: Path):
    write(tmp_path, in_client='__import__("warnings").warn("mind\\nthis")')
    toy = ["--datasets", *TOY[1:], "--clients", "4", "--rounds", "1"]
    words = ["sweep", "--algorithms", "mine.py", *toy, "--jobs", "1", "--out", "out"]
    done = subprocess.run(
        [*PFLBENCH, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == "pflbench: warning: mind this\n"


def test_a_plugin_is_executed_once_per_process_until_its_file_changes(call: Call, tmp_path: Path):
    count = 'open("executed", "a").write("x")'
    write(tmp_path, at_import=count)
    for _ in range(2):
        assert call("run", "mine.py", *SMALL, "--rounds", "1")[0] == 0
    assert (tmp_path / "executed").read_text() == "x"
    write(tmp_path, at_import=f"{count}  # again")
    assert call("run", "mine.py", *SMALL, "--rounds", "1")[0] == 0
    assert (tmp_path / "executed").read_text() == "xx"


def test_an_evaluation_point_that_there_is_not_is_a_mistake(call: Call, tmp_path: Path):
    write(tmp_path, at_import='Mine.evaluation_point = "mid"')
    for command in ("run", "check"):
        code, _, err = call(command, "mine.py")
        assert code == 2
        assert "evaluation_point = 'mid': must be pre or post" in err


RETURNS = {
    "init_server(self): return None": "init_server() returned None",
    "init_client(self): return [1]": "init_client() returned a list",
    "download(self, server, ids): return [server for id in ids]": "download() returned a list",
    "download(self, server, ids): return {id: 3 for id in ids}": "download() returned a int",
    "client_update(self, client, message): return message": "client_update() returned a dict",
    "client_update(self, client, message): return 1, 2, 3": "client_update() returned 3 values",
    "client_update(self, client, message): return {'n': 3}, {}": "'n' is a int",
    "aggregate(self, server, replies): pass": "aggregate() returned None",
    "extra_models(self, client, message): return []": "extra_models() returned a list",
    "predict(self, model, x): return [0]": "predict() returned a list",
    "evaluation_messages(self, server, cohort): return {}": "no message for clients",
}


@pytest.mark.parametrize("function", RETURNS)
def test_what_a_function_must_return_is_told_in_one_line(call: Call, tmp_path: Path, function: str):
    write(tmp_path)
    with (tmp_path / "mine.py").open("a") as file:
        file.write(f"\nclass Mine(Mine):\n    def {function}\n")
    code, out, err = call("run", "mine.py", *SMALL, "--rounds", "1", "--quiet")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "Mine failed in " in err and RETURNS[function] in err


@pytest.mark.parametrize(
    "said", ["3", "('theta',)", "('theta', 1)", "None", "'theta', 'n', 'x'", "1 / 0"]
)
@pytest.mark.parametrize("command", ["run", "check", "sweep"])
def test_costs_that_are_not_two_formulas_are_a_mistake_of_one_line(
    call: Call, tmp_path: Path, said: str, command: str
):
    write(tmp_path, at_import=f"Mine.costs = lambda self: ({said})")
    words = {"run": ["mine.py", *SMALL], "sweep": ["--algorithms", "mine.py", "--dry-run"]}
    code, out, err = call(command, *words.get(command, ["mine.py"]))
    told = out + err
    if command != "sweep":
        assert code in (1, 2)
        assert "costs() " in told and "must return two formulas" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "declared, told",
    [
        ("Mine.title = 3", "title = 3: must be a text"),
        ("Mine.family = ''", "family = '': must be a text"),
        ("Mine.one_shot = 'no'", "one_shot = 'no': must be True or False"),
        ("Mine.__annotations__['hp'] = 3", "hp must be annotated"),
        ("Mine.__annotations__['hp'] = 'Nobody'", "hp must be annotated"),
    ],
)
def test_what_a_plugin_declares_wrongly_is_a_mistake_of_one_line(
    call: Call, tmp_path: Path, declared: str, told: str
):
    write(tmp_path, at_import=declared)
    for words in (["run", "mine.py"], ["check", "mine.py"], ["sweep", "--algorithms", "mine.py"]):
        code, out, err = call(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert told in err
