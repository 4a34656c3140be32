"""How far runs are, from what their folders hold at any moment, and the time that the rest takes."""

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pflbench.records import leases, run_folder, status
from pflbench.records.leases import Leases
from pflbench.records.status import RunStatus, StatusReader
from pflbench.records.time_left import duration, time_left
from tests.factories.runs import about_run, planned

RUN = planned(id="a-run", scenario="digits iid", rounds=10)


@pytest.fixture
def folder(tmp_path) -> Leases:
    """A folder of results, by its leases."""
    made = Leases(tmp_path)
    made.open()
    return made


@pytest.fixture
def run(folder):
    """The records of a run that has started."""
    made = run_folder.RunFolder(folder.folder / RUN.id, RUN.id)
    made.folder.mkdir()
    about = about_run(RUN.config, RUN.run.clients, point="post")
    (made.folder / "run.json").write_text(json.dumps({"id": RUN.id, **about}))
    return made


def look(folder: Leases) -> RunStatus:
    return StatusReader(folder, lambda plugin: "").status(RUN)


def status_of(folder: Leases, state: str, **more) -> RunStatus:
    return RunStatus(RUN, state, folder.folder / RUN.id, **more)


def play(run, round: int, **record) -> None:
    run.append(
        "timing.jsonl",
        {"round": round, "wall": 1.0 + round} if round else {"round": 0, "evaluation": 9.0},
    )
    played = {"cohort": [0], "bytes": {}} if round else {}
    run.append("rounds.jsonl", {"round": round, **played, **record})


def test_a_run_of_which_nothing_is_there_is_missing(folder):
    assert look(folder) == status_of(folder, "missing")
    assert look(folder).rounds == 10


def test_a_run_with_a_living_lease_is_running(folder, run):
    folder.claim(RUN.id)
    owner = f"process {os.getpid()} on {leases.me().host}"
    assert look(folder) == status_of(folder, "running", owner=owner)
    play(run, 0, accuracy={"pre": [0.9, 0.9], "post": [0.1, 0.2]})
    now = {"owner": owner, "point": "post"}
    assert look(folder) == status_of(folder, "running", accuracy=pytest.approx(0.15), **now)
    play(run, 1, accuracy={"pre": [0.9, 0.9], "post": [0.5, None]})
    assert look(folder) == status_of(
        folder, "running", round=1, evaluated=1, seconds=2.0, accuracy=0.5, **now
    )


def test_a_run_whose_owner_is_dead_is_missing_and_its_rounds_are_not_lost(folder, run):
    path = folder.claim(RUN.id).path
    play(run, 0)
    play(run, 1)
    path.write_text(json.dumps({"token": "x", "owner": {**asdict(leases.me()), "pid": 1 << 23}}))
    assert (look(folder).state, look(folder).round, look(folder).owner) == ("missing", 1, "")


def test_a_run_whose_lease_was_not_touched_for_long_is_missing(folder, run):
    path = folder.claim(RUN.id).path
    past = time.time() - 130
    os.utime(path, (past, past))
    assert look(folder).state == "running"  # its owner is this very process
    path.write_text(
        path.read_text().replace(f'"host": "{leases.me().host}"', '"host": "elsewhere"')
    )
    os.utime(path, (past, past))
    assert look(folder).state == "missing"


@pytest.mark.parametrize("state", ["finished", "diverged", "failed"])
def test_a_run_that_ended_says_how_and_why(folder, run, state):
    play(run, 0, accuracy={"post": [0.25]})
    reason = "" if state == "finished" else "for a reason"
    run.finish(state, 0, reason)
    assert look(folder) == status_of(folder, state, accuracy=0.25, point="post", reason=reason)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("finished", "finished"),
        ("diverged", "diverged"),
        ("failed", "running"),
        ("stopped", "running"),
    ],
)
def test_a_lease_outweighs_an_end_that_can_be_taken_back(folder, run, status, state):
    run.finish(status, 0, "reason")
    folder.claim(RUN.id)
    found = look(folder)
    assert (found.state, bool(found.owner)) == (state, state == "running")
    assert found.reason == ("reason" if state == "diverged" else "")


def test_a_run_that_was_stopped_is_missing_with_its_rounds(folder, run):
    play(run, 0)
    play(run, 1)
    run.finish("stopped", 1, "interrupted")
    assert (look(folder).state, look(folder).round, look(folder).reason) == ("missing", 1, "")


def test_a_lease_that_vanishes_while_we_look_does_no_harm(folder):
    lease = folder.claim(RUN.id)
    reader = StatusReader(folder, lambda plugin: "")
    lease.release()
    assert reader.state(RUN).state == "missing"


@pytest.mark.parametrize(
    "half", [b"{", b'{"round":2,"wall', b'{"round":2,"wall":3.0}', b'{"round":2,"wall\n', b"\n"]
)
def test_half_a_line_is_not_read(folder, run, half):
    play(run, 0)
    play(run, 1, accuracy={"post": [0.5]})
    for file in ("timing.jsonl", "rounds.jsonl"):
        with (run.folder / file).open("ab") as lines:
            lines.write(half)
    assert (look(folder).round, look(folder).seconds, look(folder).accuracy) == (1, 2.0, 0.5)


def test_half_a_first_line_is_nothing(folder, run):
    (run.folder / "timing.jsonl").write_bytes(b'{"round":0,"eval')
    (run.folder / "rounds.jsonl").write_bytes(b"")
    assert look(folder) == status_of(folder, "missing")


def test_only_the_end_of_a_long_file_is_read(tmp_path, monkeypatch):
    path = tmp_path / "timing.jsonl"
    path.write_text("".join(f'{{"round":{number},"wall":1}}\n' for number in range(100)))
    monkeypatch.setattr(status, "TAILS", (30,))
    assert status._last(path) == {"round": 99, "wall": 1}
    monkeypatch.setattr(status, "TAILS", (8,))  # less than a line
    assert status._last(path) == {}
    monkeypatch.setattr(status, "TAILS", (8, 30))  # a second look reaches further
    assert status._last(path) == {"round": 99, "wall": 1}


def test_a_run_without_test_samples_has_no_accuracy(folder, run):
    play(run, 0, accuracy={"post": [None, None]})
    assert look(folder).accuracy is None


def test_accuracy_is_that_of_the_newest_evaluation(folder, run):
    play(run, 0, accuracy={"post": [0.25]})
    play(run, 1, loss=0.5)
    assert look(folder).accuracy == 0.25


def stand(
    state: str, round: int, seconds: float | None, method="fedavg", scenario="iid", rounds=10
) -> RunStatus:
    run = planned(method, id="id", scenario=scenario, rounds=rounds)
    return RunStatus(run, state, Path(), round=round, seconds=seconds)


def test_nothing_known_is_no_time():
    assert time_left([], 1) is None
    assert time_left([stand("missing", 0, None), stand("running", 0, None)], 2) is None


def test_the_rounds_left_cost_what_rounds_did_so_far():
    runs = [stand("running", 4, 3.0), stand("running", 6, 5.0)]  # 6 + 4 rounds of 4 s each
    assert time_left(runs, 1) == 40.0
    assert time_left(runs, 2) == 20.0
    assert time_left(runs, 0) == 40.0  # when nobody is at work, as if one was


def test_ended_runs_tell_the_cost_and_have_nothing_left():
    runs = [stand("finished", 10, 2.0), stand("diverged", 3, 4.0), stand("failed", 3, 6.0)]
    assert time_left(runs, 1) == 0.0
    assert time_left([*runs, stand("missing", 0, None)], 1) == 10 * 4.0
    # it was stopped, and tells its own cost too
    assert time_left([*runs, stand("missing", 7, 8.0)], 1) == 3 * 5.0


def test_the_most_similar_runs_tell_the_cost():
    known = [
        stand("finished", 10, 1.0, "fedavg", "iid"),
        stand("finished", 10, 3.0, "fedavg", "path:2"),
        stand("finished", 10, 8.0, "fedcosr", "iid"),
    ]
    cases = {
        ("fedavg", "path:2"): 3.0,
        ("fedavg", "dir:0.1"): 2.0,
        ("fedcosr", "path:2"): 8.0,
        ("local", "iid"): 4.0,
    }
    for (method, scenario), seconds in cases.items():
        new = stand("missing", 0, None, method, scenario, rounds=7)
        assert time_left([*known, new], 1) == pytest.approx(7 * seconds)


def test_outdated_runs_have_nothing_left():
    runs = [stand("finished", 10, 2.0), stand("finished", 10, 4.0)]
    assert time_left([replace(runs[0], outdated=True), runs[1]], 1) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (61, "1 min 1 s"), (3721.4, "1 h 2 min")]
)
def test_a_duration_is_written_as_a_clock_does(seconds, text):
    assert duration(seconds) == text
