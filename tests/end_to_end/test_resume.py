"""A run that was killed, interrupted or damaged ends as the run that was not."""

import json
import os
import random
import signal
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pflbench
from pflbench.errors import RunFailed, UserError
from pflbench.records.run_folder import RunFolder
from pflbench.testing import TOY

from .commands import Started, wait_until

SETTINGS: dict[str, Any] = {**TOY, "rounds": 60}


run = partial(pflbench.run, "fedcosr", checkpoint_every=2, **SETTINGS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The records of the unbroken run."""
    folder = tmp_path_factory.mktemp("whole")
    run(out=folder)
    return records(folder)


def lines(out: Path) -> int:
    files = list(out.glob("*/rounds.jsonl"))
    return len(files[0].read_bytes().splitlines()) if files else 0


def records(out: Path) -> bytes:
    (file,) = out.glob("*/rounds.jsonl")
    return file.read_bytes()


def test_killed_ten_times_at_random_moments_equals_the_unbroken_run(tmp_path, whole):
    moments = random.Random(5)
    killed = 0
    for target in range(3, 58, 5):
        process = Started(partial(run, out=tmp_path))
        wait_until(lambda: lines(tmp_path) >= target, process)  # noqa: B023
        time.sleep(moments.random() * 0.05)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 10
    run(out=tmp_path)
    assert records(tmp_path) == whole


def test_killed_parent_leaves_no_worker_behind_and_two_workers_resume_the_same(tmp_path, whole):
    process = Started(partial(run, out=tmp_path, workers=2))
    wait_until(lambda: lines(tmp_path) >= 7, process)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while _group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _group_lives(process.pid)
    run(out=tmp_path)
    assert records(tmp_path) == whole


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def broken_off(out: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Path:
    """A run that stopped in its eighth round."""
    from pflbench.simulation.federation import Federation

    step = Federation.step

    def breaking(self):
        if self.round == 7:
            raise error
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "step", breaking)
        with pytest.raises(type(error)):
            run(out=out)
    (folder,) = out.glob("fedcosr-*")
    return folder


def test_interrupt_saves_the_last_whole_round(tmp_path, monkeypatch, whole):
    folder = broken_off(tmp_path / "broken", monkeypatch, KeyboardInterrupt())
    status = json.loads((folder / "status.json").read_text())
    assert (status["status"], status["round"]) == ("stopped", 7)
    assert any(path.name.startswith("checkpoint-000007") for path in folder.iterdir())
    assert run(out=tmp_path / "broken").status == "finished"
    assert records(tmp_path / "broken") == whole


def test_failure_keeps_its_traceback_and_can_be_resumed(tmp_path, monkeypatch, whole):
    folder = broken_off(tmp_path / "broken", monkeypatch, RunFailed("it broke", "Traceback: here"))
    status = json.loads((folder / "status.json").read_text())
    assert (status["status"], status["reason"], status["details"]) == (
        "failed",
        "it broke",
        "Traceback: here",
    )
    run(out=tmp_path / "broken")
    assert records(tmp_path / "broken") == whole


@pytest.mark.parametrize("damage", ["flipped", "cut", "all"])
def test_corrupt_checkpoint_is_named_and_the_one_before_it_used(
    tmp_path, monkeypatch, whole, damage
):
    folder = broken_off(tmp_path / "broken", monkeypatch, KeyboardInterrupt())
    older, newest = sorted(folder.glob("checkpoint-*.pt"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    if damage == "all":
        older.write_bytes(b"")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(out=tmp_path / "broken")
    named = [str(warning.message) for warning in caught if "corrupt" in str(warning.message)]
    assert newest.name in named[0]
    assert len(named) == (2 if damage == "all" else 1)
    assert records(tmp_path / "broken") == whole


def test_checkpoint_of_another_run_is_refused_and_nothing_is_lost(tmp_path, monkeypatch):
    folder = broken_off(tmp_path / "broken", monkeypatch, KeyboardInterrupt())
    other = RunFolder(tmp_path / "other", "another-run")
    other.open({})
    newest = sorted(folder.glob("checkpoint-*.pt"))[-1]
    (other.folder / newest.name).write_bytes(newest.read_bytes())
    with pytest.raises(UserError, match="of another run"):
        other.restore()
    assert (other.folder / newest.name).exists()


def test_finished_run_is_not_run_again(tmp_path, monkeypatch):
    first = run(out=tmp_path, rounds=2)
    monkeypatch.setattr("pflbench.simulation.federation.Federation.step", None)
    assert run(out=tmp_path, rounds=2).accuracy == first.accuracy
    assert not list(first.folder.glob("checkpoint-*"))


def test_diverged_run_is_recorded_as_such_and_stops(tmp_path):
    result = run(out=tmp_path, rounds=20, hparams={"lr": 1e30})
    assert result.status == "diverged"
    assert len(result.rounds) < 20
    reason = json.loads((result.folder / "status.json").read_text())["reason"]
    assert "not finite" in reason


def test_half_a_line_is_cut_off(tmp_path, monkeypatch, whole):
    folder = broken_off(tmp_path / "broken", monkeypatch, KeyboardInterrupt())
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 8, "accu')
    run(out=tmp_path / "broken")
    assert records(tmp_path / "broken") == whole
