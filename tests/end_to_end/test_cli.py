"""The command line as a user types it."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pflbench import testing
from pflbench.config import Run
from pflbench.interface import run_progress
from pflbench.records.run_folder import RunFolder
from pflbench.simulation import round_record
from pflbench.simulation.federation import Federation

from .commands import PFLBENCH, SMALL, TOY, Call, fine, started, wait_until

IID = ["--partition", "iid"]


def folder_of(out: str) -> Path:
    return Path(out.splitlines()[-1].rpartition("; ")[2])


def numbers(folder: Path) -> bytes:
    return (folder / "rounds.jsonl").read_bytes()


def test_help_comes_up_at_once():
    def seconds() -> float:
        begin = time.perf_counter()
        done = subprocess.run([*PFLBENCH, "--help"], capture_output=True, text=True, check=True)
        assert "Usage: pflbench" in done.stdout
        return time.perf_counter() - begin

    # 0.2 s on a machine with nothing else to do; 0.5 s is promised
    assert min(seconds() for _ in range(3)) < 1.0


def test_help_states_the_defaults_that_a_run_has(call: Call):
    pieces = " ".join(fine(call, "run", "--help").split()).split(" --")
    found = [re.fullmatch(r"([a-z-]+) [A-Z]+ .*?\[(.*?)\].*", piece) for piece in pieces]
    shown = {match[1].replace("-", "_"): match[2] for match in found if match}
    words = {
        "clients": "20, or as in the data or file:PATH",
        "partition_seed": "the seed",
        "scarce_clients": "all",
    }
    words |= {"max_samples": "no limit", "evaluate_clients": "all", "body_weights": "random"}
    left_out = {"algorithm", "hparams", "version", "samples_per_client", "overlap", "standardize"}
    for field in dataclasses.fields(Run):
        if field.name not in left_out:
            assert shown[field.name] == words.get(field.name, str(field.default)), field.name


def test_version(call: Call):
    assert re.fullmatch(r"pflbench \d+\.\d+\.\d+\n", fine(call, "--version"))


def test_without_a_command_there_is_help(call: Call):
    assert "Usage: pflbench" in fine(call)


def test_a_run_prints_plain_lines_and_its_result_and_is_not_done_twice(call: Call):
    words = ["run", "FedAvg", *SMALL, "--rounds", "20"]
    *progress, last = fine(call, *words).splitlines()
    line = r"round +\d+/20  accuracy [\d.]+ % \(pre\)  [\d.]+ MB  (\d+ min )?\d+ s left"
    assert all(re.fullmatch(line, told) for told in progress)
    assert 20 <= len(progress) <= 21 and progress[-1].startswith("round 20/20")
    result = (
        r"FedAvg on Synthetic, dir:0.1: [\d.]+ % \+/- [\d.]+ over 4 clients"
        r" \(pre, round 20\); results/runs/fedavg-\S+"
    )
    assert re.fullmatch(result, last)
    before = {path: path.stat().st_mtime_ns for path in folder_of(last).iterdir()}
    assert fine(call, *words) == f"already finished: {last}\n"
    assert {path: path.stat().st_mtime_ns for path in folder_of(last).iterdir()} == before


def test_progress_on_a_terminal_is_a_bar(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    out = fine(call, "run", "local", *SMALL, "--rounds", "3")
    assert "\x1b" in out and "round 3/3" in out and "(post)" in out and "left" in out
    assert "Local on Synthetic" in out.splitlines()[-1]


def test_lines_come_for_every_twentieth_and_after_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = run_progress.Lines(200, "post")
    lines.start(0, [])
    for number in range(201):
        now += 30.0 if number > 198 else 0.01
        lines.watch(
            {
                "round": number,
                "bytes": {"down": {"theta": 1_000_000}},
                "accuracy": {"post": [0.5, None]},
            },
            {},
        )
    told = capsys.readouterr().out.splitlines()
    assert [int(line.split()[1].split("/")[0]) for line in told] == [*range(10, 200, 10), 199, 200]
    assert told[0] == "round  10/200  accuracy 50.00 % (post)  11.0 MB  2 s left"


def rounds_shown(
    progress: run_progress.Progress, rounds: int, every: int, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """What is shown of rounds, every so many of which are evaluated: 0.01 correct after round 1."""
    progress.start(0, [])
    for number in range(rounds + 1):
        accuracy = {"accuracy": {"post": [number / 100]}} if number % every == 0 else {}
        progress.watch({"round": number, "bytes": {}, **accuracy}, {})
    progress.close()
    return capsys.readouterr().out.splitlines()


def test_a_line_has_an_accuracy_only_if_its_round_was_evaluated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    seconds = iter(range(0, 10**6, 10))  # a line is due after every round
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    told = rounds_shown(run_progress.Lines(40, "post"), 40, 8, capsys)
    shown = {int(line.split()[1].split("/")[0]): "accuracy" in line for line in told}
    assert shown == {number: number % 8 == 0 for number in range(41)}


def test_lines_of_a_quick_run_are_those_of_its_evaluations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    told = rounds_shown(run_progress.Lines(100, "post"), 100, 7, capsys)
    assert [line.split("/")[0] for line in told] == [
        f"round {n:>3}" for n in (*range(7, 99, 7), 100)
    ]
    assert told[0] == "round   7/100  accuracy 7.00 % (post)  0.0 MB  0 s left"
    assert told[-1] == "round 100/100  0.0 MB  0 s left"


def test_a_bar_says_of_which_round_its_accuracy_is(capsys: pytest.CaptureFixture[str]):
    said = []

    class Heard(run_progress.Bar):
        def what(self, accuracy: str) -> str:
            said.append(accuracy)
            return super().what(accuracy)

    rounds_shown(Heard(3, "post"), 3, 2, capsys)
    assert said == [
        "",
        "accuracy 0.00 % (post)",
        "accuracy 0.00 % (post) after round 0",
        "accuracy 2.00 % (post)",
        "accuracy 2.00 % (post) after round 2",
    ]


def test_json_is_all_that_is_on_stdout(call: Call):
    run = json.loads(fine(call, "run", "fedper", *SMALL, "--rounds", "2", "--json"))
    assert (run["status"], run["round"], run["point"], run["clients"]) == ("finished", 2, "pre", 4)
    assert json.loads(fine(call, "run", "fedper", *SMALL, "--rounds", "2", "--json")) == run
    methods = {row["name"]: row for row in json.loads(fine(call, "algorithms", "--json"))}
    assert methods["fedavg"]["title"] == "FedAvg" and methods["local"]["evaluated"] == "post"
    one = json.loads(fine(call, "algorithms", "show", "fedper", "--json"))
    assert one["citation"].startswith("FedPer (Arivazhagan et al.") and one["deviations"] == "none."
    assert one["down"] == {"what": "phi.", "numbers": "phi"} and one["up"]["numbers"] == "phi + 1"
    assert {"name": "lr", "default": 0.01}.items() <= one["hyperparameters"][0].items()
    listed = {row["name"]: row for row in json.loads(fine(call, "data", "list", "--json"))["data"]}
    assert listed["digits"] == {"name": "digits", "title": "Digits", "there": "embedded"}
    assert listed["cifar10"]["there"] == "no" and listed["npz"]["there"] == "npz:PATH"
    assert (
        json.loads(fine(call, "report", "results/runs", "--json"))["rows"][0]["method"] == "FedPer"
    )


def test_settings_from_a_file_are_overridden_by_options(call: Call):
    Path("run.toml").write_text(
        'algorithm = "fedper"\ndataset = "synthetic:classes=4,side=8,samples=160"\nmodel = "mlp"\nclients = 4\n'
        "min_samples = 8\nrounds = 3\nscarce_clients = 2\ndata_fraction = 0.5\n[hparams]\nlr = 0.5\nepochs = 2\n"
    )
    out = fine(
        call,
        "run",
        "--config",
        "run.toml",
        "--rounds",
        "1",
        "--set",
        "lr=0.125",
        "--workers",
        "1",
        "--json",
    )
    config = json.loads((Path(json.loads(out)["folder"]) / "run.json").read_text())["config"]
    assert (
        config["algorithm"],
        config["rounds"],
        config["scarce_clients"],
        config["data_fraction"],
    ) == (
        "fedper",
        1,
        2,
        0.5,
    )
    assert (config["hparams"]["lr"], config["hparams"]["epochs"]) == (0.125, 2)


def test_a_warning_is_one_line(call: Call):
    code, out, err = call(
        "run", "local", *SMALL, "--rounds", "1", "--samples-per-client", "30-35", "--overlap", *IID
    )
    assert code == 0 and out
    assert (
        err
        == "pflbench: warning: overlap: training and test samples of different clients overlap\n"
    )


def test_a_method_that_has_changed_is_run_again_and_the_old_run_stays(call: Call):
    words = ["run", "mine.py", *SMALL, "--rounds", "1", "--quiet"]
    written = Path(fine(call, "new", "Mine").partition(":")[0])
    old = folder_of(fine(call, *words))
    written.write_text(written.read_text() + "\n# a comment\n")
    assert fine(call, *words).startswith("already finished")
    written.write_text(written.read_text() + "\nCODE = 1\n")
    code, out, err = call(*words)
    new = folder_of(out)
    version = new.name.rpartition("-")[2]
    assert (code, old == new) == (0, False)
    assert (
        err
        == f"pflbench: note: {old} is from another version of the method, which is now {version}\n"
    )
    assert numbers(old) == numbers(new)
    assert fine(call, *words).startswith("already finished")


def interrupted_at(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the fourth call of a function; in the fourth round for `append`, which comes twice in a round."""
    owners = {"append": RunFolder, "save": RunFolder, "summary": round_record}
    owner = owners.get(moment, Federation)
    number = 8 if moment == "append" else 4
    whole = getattr(owner, moment)
    calls = []

    def broken_off(*values: object) -> object:
        calls.append(1)
        if len(calls) == number:
            raise KeyboardInterrupt
        return whole(*values)

    monkeypatch.setattr(owner, moment, broken_off)


@pytest.mark.parametrize("moment", ["step", "evaluation", "summary", "append", "save", "snapshot"])
def test_ctrl_c_at_any_moment_of_a_round_then_resumed_equals_the_unbroken_run(
    call: Call, monkeypatch: pytest.MonkeyPatch, moment: str
):
    words = [
        "run",
        "fedper",
        *SMALL,
        "--rounds",
        "12",
        "--checkpoint-every",
        "2",
        "--participation",
        "0.5",
    ]
    whole = folder_of(fine(call, *words, "--out", "whole"))
    with monkeypatch.context() as patch:
        interrupted_at(moment, patch)
        code, _, err = call(*words, "--out", "broken")
    assert code == 130
    after = re.fullmatch(r"stopped after round (\d+); the same command resumes\n", err)
    assert after, err
    resumed = fine(call, *words, "--out", "broken")
    assert resumed.startswith(f"resuming after round {after[1]} of 12\n")
    assert numbers(folder_of(resumed)) == numbers(whole)


def test_ctrl_c_before_the_first_round_starts_again(call: Call, monkeypatch: pytest.MonkeyPatch):
    def stop(self: Federation) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "start", stop)
        code, _, err = call("run", "fedper", *SMALL, "--rounds", "2")
    assert (code, err) == (
        130,
        "stopped before the end of the first round; the same command starts again\n",
    )
    assert "FedPer on" in fine(call, "run", "fedper", *SMALL, "--rounds", "2")


def test_signals_to_a_process_which_is_resumed_each_time_and_equals_the_unbroken_run(
    call: Call, tmp_path: Path
):
    words = [
        "run",
        "fedavg",
        *TOY,
        "--clients",
        "4",
        "--rounds",
        "80",
        "--out",
        "broken",
        "--workers",
    ]
    done = 0
    for sent, code, workers in [(signal.SIGINT, 130, "2"), (signal.SIGTERM, 143, "1")]:
        process = started(*words, workers)
        at_work = re.compile("^round +[1-9]", re.MULTILINE)
        wait_until(lambda: at_work.search(process.said()), process)  # noqa: B023
        os.kill(process.pid, sent)
        out, err = process.communicate()
        assert process.returncode == code, (out, err)
        assert re.fullmatch(r"stopped after round \d+; the same command resumes\n", err)
        status = json.loads(next(Path("broken").glob("*/status.json")).read_text())
        assert status["status"] == "stopped" and done < status["round"] < 80
        done = status["round"]
    resumed = fine(call, *words, "1")
    assert resumed.startswith(f"resuming after round {done} of 80\n")
    assert numbers(folder_of(resumed)) == numbers(
        folder_of(fine(call, *words, "1", "--out", "whole"))
    )


def test_a_partition_is_shown_exported_and_used_again(call: Call):
    options = [
        "synthetic:classes=4,side=8,samples=160",
        "--partition",
        "path:2",
        "--clients",
        "5",
        "--seed",
        "3",
    ]
    out = fine(call, "data", "show", *options, "--out", "picture.png")
    assert re.search(r"^classes +2 +2.0 +2$", out, re.MULTILINE)
    (digest,) = re.findall(r"digest (\w{16}); drawn in picture.png", out)
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")
    counts = np.array(json.loads(fine(call, "data", "show", *options, "--json"))["counts"]["train"])
    assert counts.shape == (5, 4) and ((counts > 0).sum(1) == 2).all()

    assert f"digest {digest}" in fine(call, "data", "export", *options, "split.npz")
    out = fine(
        call,
        "run",
        "local",
        *TOY,
        "--partition",
        "file:split.npz",
        "--rounds",
        "1",
        "--workers",
        "1",
    )
    about = json.loads((folder_of(out) / "run.json").read_text())
    assert about["config"]["clients"] == 5 and about["partition"]["digest"] == digest
    same = fine(call, "run", "local", *TOY, *options[1:], "--rounds", "1", "--workers", "1")
    assert json.loads((folder_of(same) / "run.json").read_text())["partition"]["digest"] == digest


def test_data_that_are_there_are_not_fetched(call: Call):
    assert fine(call, "data", "get", "digits").startswith(
        "Digits is already available: 1797 images of 10 classes"
    )


def test_a_new_method_passes_the_check_and_equals_fedavg(call: Call):
    told = fine(call, "new", "FedMine")
    assert (
        told == "fedmine.py: FedAvg for now; make it your method, then: pflbench check fedmine.py\n"
    )
    checks = json.loads(fine(call, "check", "fedmine.py", "--json"))
    assert [row["check"] for row in checks] == testing.names()
    assert {row["outcome"] for row in checks} == {"ok"}
    mine = fine(call, "run", "--plugin", "fedmine.py", *SMALL, "--rounds", "2")
    fedavg = fine(call, "run", "fedavg", *SMALL, "--rounds", "2")
    assert numbers(folder_of(mine)) == numbers(folder_of(fedavg))


def test_where_a_new_method_goes_and_that_nothing_is_overwritten(call: Call, tmp_path: Path):
    for name in ("pflbench", "algorithms"):
        (tmp_path / name).mkdir()
    (tmp_path / "pflbench" / "api.py").touch()
    (tmp_path / "pyproject.toml").touch()
    fine(call, "new", "my_method")
    assert "class MyMethod(Algorithm)" in Path("algorithms/my_method.py").read_text()
    fine(call, "new", "my_method", "--out", "elsewhere")
    Path("elsewhere/my_method.py").write_text("mine")
    code, _, err = call("new", "my_method", "--out", "elsewhere")
    assert (code, err) == (
        2,
        "pflbench: error: elsewhere/my_method.py already exists and is not overwritten\n",
    )
    assert Path("elsewhere/my_method.py").read_text() == "mine"


def test_a_check_that_fails_and_one_that_is_declared(call: Call, monkeypatch: pytest.MonkeyPatch):
    first, second, third, *_ = testing.names()
    results = [
        testing.CheckResult(first, True, None, "", 0.1),
        testing.CheckResult(second, True, "it cannot", "it did not", 0.1),
        testing.CheckResult(third, False, None, "client 3 differs", 0.1),
    ]
    monkeypatch.setattr(testing, "checks", lambda plugin: iter(results))
    code, out, _ = call("check", "fedavg")
    lines = [line.split() for line in out.splitlines()]
    assert code == 1
    assert [line[:2] for line in lines[:3]] == [
        ["ok", first],
        ["expected", second],
        ["FAIL", third],
    ]
    assert out.splitlines()[1].endswith("it cannot") and out.splitlines()[2].endswith(
        "client 3 differs"
    )
    assert out.splitlines()[3] == "1 ok, 1 expected, 1 FAIL"
    code, out, _ = call("check", "fedavg", "--json")
    assert code == 1 and [row["outcome"] for row in json.loads(out)] == ["ok", "expected", "FAIL"]


def test_a_broken_method_does_not_hide_the_others(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    import pflbench.algorithms

    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "brokenone.py").write_text("1 / 0\n")
    monkeypatch.setattr(
        pflbench.algorithms, "__path__", [*pflbench.algorithms.__path__, str(tmp_path / "plugins")]
    )
    code, out, err = call("algorithms")
    assert code == 0 and re.search(r"^Standard +fedavg +pre +clients train", out, re.MULTILINE)
    assert err.startswith(
        "pflbench: warning: plugin algorithms/brokenone.py cannot be imported: ZeroDivisionError"
    )


def test_a_method_is_shown_in_full(call: Call):
    out = fine(call, "algorithms", "show", "FedPer")
    assert out.startswith("fedper: FedPer (Arivazhagan et al.")
    assert re.search(r"^down +phi. \[phi numbers of 4 bytes\]$", out, re.MULTILINE)
    assert re.search(
        r"^evaluated +pre: the new global body with the client's own head", out, re.MULTILINE
    )
    assert re.search(r"^deviations +none.$", out, re.MULTILINE)
    assert re.search(r"^lr +0.01 +0.0001 .. 1.0 +eta, learning rate", out, re.MULTILINE)


def test_shells_complete_commands(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("_PFLBENCH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "pflbench s")
    monkeypatch.setenv("COMP_CWORD", "1")
    code, out, _ = call()
    assert (code, out.split()) == (0, ["sweep", "status"])
