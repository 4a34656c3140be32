"""Runs whose private states do not fit into memory, and runs that are evaluated on a sample of their clients."""

import json
import os
import random
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from pflbench.errors import RunFailed
from pflbench.methods.hyperparameters import make_run
from pflbench.records.run_folder import RunFolder
from pflbench.rng import stream
from pflbench.simulation import runner
from pflbench.simulation.client_states import ClientStates
from pflbench.simulation.engine import Serial
from pflbench.simulation.federation import Federation
from pflbench.sweep.launchers import task
from pflbench.sweep.launchers.task import Task
from pflbench.testing import TOY, toy
from pflbench.testing.problem import toy_setup

from .commands import Call, Started, wait_until

SETTINGS: dict[str, Any] = {**TOY, "clients": 8, "participation": 0.25, "rounds": 20}


def run(out: Path, memory: float = 2.0, **how: Any) -> Path:
    """A whole run, or the rest of it; its folder."""
    setup = runner.prepare(make_run("ditto", SETTINGS, {}), "ditto")
    return runner.execute(setup, out, checkpoint_every=2, state_memory=memory, **how).folder


def numbers(out: Path) -> bytes:
    (file,) = out.glob("*/rounds.jsonl")
    return file.read_bytes()


def lines(out: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in out.glob("*/rounds.jsonl"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The records of a run of a federation without files."""
    federation = toy("ditto", **SETTINGS)
    records = RunFolder(tmp_path_factory.mktemp("whole") / "run", "run")
    records.open({"code": {"plugin": ""}})
    records.append("rounds.jsonl", federation.start()[0])
    for _ in range(20):
        records.append("rounds.jsonl", federation.step()[0])
    return numbers(records.folder.parent)


@pytest.mark.parametrize("memory", [0.0, 5e-6, 2.0])  # none, about two states, all
def test_where_states_are_kept_changes_no_number(tmp_path, whole, memory):
    most = 0

    def watch(*_: Any) -> None:
        nonlocal most
        most = max(most, len(list(tmp_path.glob("*/states/*-*.pt"))))

    folder = run(tmp_path, memory, watch=watch)
    assert numbers(tmp_path) == whole
    assert most >= 5
    assert not (folder / "states").exists()


def test_a_checkpoint_holds_the_states_that_changed_lately_and_names_the_rest(tmp_path):
    many = {
        **SETTINGS,
        "dataset": "synthetic:classes=4,side=8,samples=400",
        "clients": 24,
        "participation": 2 / 24,
    }
    held: list[list[type]] = []

    def watch(record: Any, timing: Any) -> None:
        for path in sorted(tmp_path.glob("*/checkpoint-*.pt"))[-1:]:
            held.append(
                [type(one) for one in torch.load(path, weights_only=True)["clients"].values()]
            )

    setup = runner.prepare(make_run("ditto", many, {}), "ditto")
    runner.execute(setup, tmp_path, checkpoint_every=2, watch=watch)
    assert len(held[-1]) > 16
    # of two clients per round, since the last checkpoint but one
    assert all(0 < each.count(dict) <= 8 for each in held)


class Killed(BaseException):
    """No part of the program handles it: what is on the disk stays as it is, as after kill -9."""


def killed_at(number: int, after: bool, patch: pytest.MonkeyPatch) -> None:
    """Die before or after the n-th time that something on the disk is renamed, deleted or flushed."""
    count = 0

    def deadly(function: Any) -> Any:
        def wrapped(*values: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            fatal = count == number
            if fatal and not after:
                raise Killed
            result = function(*values, **named)
            if fatal:
                raise Killed
            return result

        return wrapped

    for owner, name in ((Path, "replace"), (Path, "unlink"), (os, "fsync")):
        patch.setattr(owner, name, deadly(getattr(owner, name)))


@pytest.mark.parametrize("memory, after", [(0.0, False), (5e-6, True)])
def test_killed_at_any_touch_of_the_disk_and_resumed_equals_the_unbroken_run(
    tmp_path, monkeypatch, whole, memory, after
):
    killed = 0
    for number in range(30, 80):
        with monkeypatch.context() as patch:
            killed_at(number, after, patch)
            try:
                run(tmp_path, memory)
                break
            except Killed:
                killed += 1
    assert killed >= 4
    folder = run(tmp_path, memory)
    assert numbers(tmp_path) == whole
    assert not (folder / "states").exists()


def test_killed_processes_resume_with_other_budgets_and_equal_the_unbroken_run(tmp_path, whole):
    moments, killed = random.Random(1), 0
    for target, memory in ((6, 0.0), (13, 5e-6)):
        process = Started(run, tmp_path, memory)
        wait_until(lambda: lines(tmp_path) >= target, process)  # noqa: B023
        time.sleep(moments.random() * 0.02)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed == 2
    run(tmp_path)
    assert numbers(tmp_path) == whole


def broken_off(
    out: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, call: int
) -> Path:
    """A run without memory for states that Ctrl-C stopped when something was called for the n-th time."""
    function, calls = getattr(owner, name), []

    def breaking(self: object, *values: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return function(self, *values)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, breaking)
        with pytest.raises(KeyboardInterrupt):
            run(out, 0.0)
    (folder,) = out.glob("ditto-*")
    return folder


@pytest.mark.parametrize(
    "owner, name, call",
    [
        (ClientStates, "_write", 25),
        (ClientStates, "_read", 25),
        (ClientStates, "write_unchanged", 4),
        (RunFolder, "_forget_states", 4),
    ],
)
def test_ctrl_c_among_the_states_then_resumed_equals_the_unbroken_run(
    tmp_path, monkeypatch, whole, owner, name, call
):
    folder = broken_off(tmp_path, monkeypatch, owner, name, call)
    assert json.loads((folder / "status.json").read_text())["round"] >= 4
    run(tmp_path)
    assert numbers(tmp_path) == whole


@pytest.mark.parametrize("shared", [False, True])
def test_lost_state_file_falls_back_to_the_checkpoint_before_or_the_start(
    tmp_path, monkeypatch, whole, shared
):
    folder = broken_off(tmp_path, monkeypatch, Federation, "step", 12)
    named = [
        {*torch.load(path, weights_only=True)["clients"].values()}
        for path in sorted(folder.glob("checkpoint-*.pt"))
    ]
    lost = min(named[1] & named[0] if shared else named[1] - named[0])
    (folder / "states" / lost).unlink()
    started = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(tmp_path, 0.0, started=started.append)
    warned = [str(warning.message) for warning in caught if lost in str(warning.message)]
    assert (len(warned), started) == ((2, [0]) if shared else (1, [10]))
    assert numbers(tmp_path) == whole


def test_state_file_that_is_lost_while_the_run_is_at_work_fails_in_one_line_and_resumes(
    tmp_path, monkeypatch, whole
):
    def watch(record: Any, timing: Any) -> None:
        if record["round"] == 9:
            for path in tmp_path.glob("*/states/*"):
                path.unlink()

    with pytest.raises(
        RunFailed, match=r"private state of client \d in \S+ is missing or corrupt; [^\n]*$"
    ):
        run(tmp_path, 0.0, watch=watch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(tmp_path, 0.0)
    assert numbers(tmp_path) == whole


def sample(clients: int, number: int, seed: int = 0) -> list[int]:
    return sorted(
        torch.randperm(clients, generator=stream(seed, "evaluated clients"))[:number].tolist()
    )


def rest_is_null(full: list[Any], wanted: list[int]) -> list[Any]:
    return [found if id in wanted else None for id, found in enumerate(full)]


def without_evaluation(record: dict[str, Any]) -> dict[str, Any]:
    """What a record says apart from the evaluated clients; its notes count those that never trained."""
    blanks = dict.fromkeys({"accuracy", "evaluated"} & record.keys())
    return {name: value for name, value in record.items() if name != "notes"} | blanks


@pytest.mark.parametrize("method", ["ditto", "perfedavg", "pefll", "feddbl"])
def test_a_sample_has_the_accuracies_of_the_whole_and_the_rest_none(method):
    settings = {**SETTINGS, "rounds": 4, "validation": 0.2, "seed": 8}
    full, some = toy(method, **settings), toy(method, **settings, evaluate_clients=2)
    wanted = sample(8, 2, seed=8)
    assert list(some.evaluated) == wanted
    # so that in the first round nobody of the sample has trained
    assert not {*wanted} & {*some.select()}
    seen: set[int] = set()
    for step in ("start", "step", "step", "step", "step"):
        (every, _), (few, _) = getattr(full, step)(), getattr(some, step)()
        assert without_evaluation(few) == without_evaluation(every)
        for part in {"accuracy", "evaluated"} & every.keys():
            assert few[part] == {
                name: rest_is_null(values, wanted) for name, values in every[part].items()
            }
        seen |= {*wanted} & {*every.get("cohort", [])}
    assert seen == {*wanted}


def test_a_sample_of_all_or_more_is_all():
    records = [toy("ditto", **TOY, evaluate_clients=number).step()[0] for number in (None, 4, 5)]
    assert records[0] == records[1] == records[2]
    assert None not in records[0]["accuracy"]["post"]


def test_only_the_sample_is_evaluated():
    jobs = []

    class Noting(Serial):
        def run(self, given: Any) -> Any:
            jobs.extend(given)
            return super().run(given)

    setup = toy_setup("ditto", **{**SETTINGS, "participation": 1.0, "evaluate_clients": 3})
    Federation(setup, Noting(setup)).step()
    wanted = sample(8, 3)
    assert [job.client for job in jobs if job.stage == "personal_model"] == wanted
    assert [job.client for job in jobs if job.stage == "client_update"] == [*range(8)]
    assert [job.client for job in jobs if job.evaluate] == wanted


def test_mean_and_std_are_over_the_sample(call: Call):
    words = (
        f"run ditto --dataset {TOY['dataset']} --model mlp --width 8 --min-samples 8 --clients 8"
        " --rounds 2 --workers 1 --json --evaluate-clients 3 --state-memory 0"
    )
    code, out, err = call(*words.split())
    assert (code, err) == (0, "")
    row = json.loads(out)
    last = json.loads((Path(row["folder"]) / "rounds.jsonl").read_text().splitlines()[-1])[
        "accuracy"
    ]["post"]
    known = [last[id] for id in sample(8, 3)]
    mean = sum(known) / 3
    assert row["accuracy"] == pytest.approx(mean)
    assert row["std"] == pytest.approx((sum((one - mean) ** 2 for one in known) / 3) ** 0.5)


def test_sweep_takes_the_sample_from_a_file_or_its_option(call: Call, tmp_path: Path):
    Path("mine.toml").write_text("algorithms = ['fedavg']\nevaluate_clients = 7\n")
    for more, wanted in (([], 7), (["--evaluate-clients", "5"], 5)):
        code, out, _ = call("sweep", "mine.toml", "--dry-run", "--no-probe", "--json", *more)
        assert code == 0
        assert [run["config"]["evaluate_clients"] for run in json.loads(out)["runs"]] == [wanted]


def test_sweep_hands_the_memory_for_states_to_its_runs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given: list[Task] = []

    class Nowhere:
        def room(self) -> int:
            return 1

        def submit(self, task: Task) -> None:
            given.append(task)
            raise KeyboardInterrupt

        def ended(self, timeout: float) -> dict[str, str | None]:
            return {}

        def stop(self) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr("pflbench.cli.sweep.launcher", lambda *_: Nowhere())
    words = "sweep --algorithms fedavg --datasets digits --state-memory 0.25 --quiet"
    assert call(*words.split())[0] == 130
    used: dict[str, Any] = {}
    monkeypatch.setattr("pflbench.simulation.runner.execute", lambda *_, **how: used.update(how))
    assert task.do(given[0]) is None
    assert used["state_memory"] == 0.25


@pytest.mark.parametrize(
    "words, says",
    [(["--evaluate-clients", "0"], "at least 1"), (["--state-memory", "-1"], "--state-memory")],
)
def test_sample_and_memory_that_make_no_sense_are_refused(call: Call, words: list[str], says: str):
    code, _, err = call("run", "fedavg", *words)
    assert code == 2 and says in err
