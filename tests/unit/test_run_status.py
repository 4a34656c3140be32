"""How far runs are, from what their folders hold at any moment, and the time that the rest takes."""

import json
import os
import time
from dataclasses import asdict

import pytest

from pflbench.records import leases as ledger
from pflbench.records import run_folder
from pflbench.records import status as standing
from pflbench.records.leases import Leases
from pflbench.records.plan import Planned
from pflbench.records.status import RunStatus

RUN = Planned("a-run", "fedavg", "digits iid", "", {"algorithm": "fedavg", "rounds": 10, "seed": 0})


@pytest.fixture
def book(tmp_path):
    made = Leases(tmp_path)
    made.open()
    return made


@pytest.fixture
def run(book):
    """The records of a run that has begun."""
    made = run_folder.RunFolder(book.folder / RUN.id, RUN.id)
    made.folder.mkdir()
    (made.folder / "run.json").write_text(
        json.dumps({"id": RUN.id, "method": {"evaluation_point": "post"}})
    )
    return made


def look(book) -> RunStatus:
    return standing.look(book, RUN, book.leases())


def play(run, round: int, **record) -> None:
    run.append(
        "timing.jsonl",
        {"round": round, "wall": 1.0 + round} if round else {"round": 0, "evaluation": 9.0},
    )
    run.append("rounds.jsonl", {"round": round, **record})


def test_a_run_of_which_nothing_is_there_is_missing(book):
    assert look(book) == RunStatus(RUN, "missing")
    assert look(book).rounds == 10


def test_a_run_with_a_living_lease_is_running(book, run):
    book.claim(RUN.id)
    owner = f"process {os.getpid()} on {ledger.me().host}"
    assert look(book) == RunStatus(RUN, "running", owner=owner)
    play(run, 0, accuracy={"pre": [0.9, 0.9], "post": [0.1, 0.2]})
    assert look(book) == RunStatus(
        RUN, "running", 0, None, pytest.approx(0.15), "post", owner=owner
    )
    play(run, 1, accuracy={"pre": [0.9, 0.9], "post": [0.5, None]})
    assert look(book) == RunStatus(RUN, "running", 1, 2.0, 0.5, "post", owner=owner)


def test_a_run_whose_owner_is_dead_is_missing_and_its_rounds_are_not_lost(book, run):
    path = book.claim(RUN.id).path
    play(run, 0)
    play(run, 1)
    path.write_text(json.dumps({"token": "x", "owner": {**asdict(ledger.me()), "pid": 1 << 23}}))
    assert (look(book).state, look(book).round, look(book).owner) == ("missing", 1, "")


def test_a_run_whose_lease_was_not_touched_for_long_is_missing(book, run):
    path = book.claim(RUN.id).path
    past = time.time() - 130
    os.utime(path, (past, past))
    assert look(book).state == "running"  # its owner is this very process
    path.write_text(
        path.read_text().replace(f'"host": "{ledger.me().host}"', '"host": "elsewhere"')
    )
    os.utime(path, (past, past))
    assert look(book).state == "missing"


@pytest.mark.parametrize("state", ["finished", "diverged", "failed"])
def test_a_run_that_ended_says_how_and_why(book, run, state):
    play(run, 0, accuracy={"post": [0.25]})
    reason = "" if state == "finished" else "for a reason"
    run.finish(state, 0, reason)
    assert look(book) == RunStatus(RUN, state, 0, None, 0.25, "post", reason)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("finished", "finished"),
        ("diverged", "diverged"),
        ("failed", "running"),
        ("stopped", "running"),
    ],
)
def test_a_lease_outweighs_an_end_that_can_be_taken_back(book, run, status, state):
    run.finish(status, 0, "reason")
    book.claim(RUN.id)
    found = look(book)
    assert (found.state, bool(found.owner)) == (state, state == "running")
    assert found.reason == ("reason" if state == "diverged" else "")


def test_a_run_that_was_stopped_is_missing_with_its_rounds(book, run):
    play(run, 0)
    play(run, 1)
    run.finish("stopped", 1, "interrupted")
    assert (look(book).state, look(book).round, look(book).reason) == ("missing", 1, "")


def test_a_lease_that_vanishes_while_we_look_does_no_harm(book):
    lease = book.claim(RUN.id)
    leases = book.leases()
    lease.release()
    assert standing.look(book, RUN, leases).state == "missing"


@pytest.mark.parametrize(
    "half", [b"{", b'{"round":2,"wall', b'{"round":2,"wall":3.0}', b'{"round":2,"wall\n', b"\n"]
)
def test_half_a_line_is_not_read(book, run, half):
    play(run, 0)
    play(run, 1, accuracy={"post": [0.5]})
    for file in ("timing.jsonl", "rounds.jsonl"):
        with (run.folder / file).open("ab") as lines:
            lines.write(half)
    assert (look(book).round, look(book).seconds, look(book).accuracy) == (1, 2.0, 0.5)


def test_half_a_first_line_is_nothing(book, run):
    (run.folder / "timing.jsonl").write_bytes(b'{"round":0,"eval')
    (run.folder / "rounds.jsonl").write_bytes(b"")
    assert look(book) == RunStatus(RUN, "missing")


def test_only_the_end_of_a_long_file_is_read(tmp_path, monkeypatch):
    path = tmp_path / "timing.jsonl"
    path.write_text("".join(f'{{"round":{number}}}\n' for number in range(100)))
    monkeypatch.setattr(standing, "TAILS", (20,))
    assert standing._last(path) == {"round": 99}
    monkeypatch.setattr(standing, "TAILS", (8,))  # less than a line
    assert standing._last(path) == {}
    monkeypatch.setattr(standing, "TAILS", (8, 20))  # a second look reaches further
    assert standing._last(path) == {"round": 99}


def test_a_run_without_test_samples_has_no_accuracy(book, run):
    play(run, 0, accuracy={"post": [None, None]})
    assert look(book).accuracy is None


def test_accuracy_is_that_of_the_newest_evaluation(book, run):
    play(run, 0, accuracy={"post": [0.25]})
    play(run, 1, loss=0.5)
    assert look(book).accuracy == 0.25


def stand(
    state: str, round: int, seconds: float | None, method="fedavg", setting="iid", rounds=10
) -> RunStatus:
    run = Planned("id", method, setting, "", {"algorithm": method, "rounds": rounds, "seed": 0})
    return RunStatus(run, state, round, seconds)


def test_nothing_known_is_no_time():
    assert standing.left([], 1) is None
    assert standing.left([stand("missing", 0, None), stand("running", 0, None)], 2) is None


def test_the_rounds_left_cost_what_rounds_did_so_far():
    runs = [stand("running", 4, 3.0), stand("running", 6, 5.0)]  # 6 + 4 rounds of 4 s each
    assert standing.left(runs, 1) == 40.0
    assert standing.left(runs, 2) == 20.0
    assert standing.left(runs, 0) == 40.0  # when nobody is at work, as if one was


def test_ended_runs_tell_the_cost_and_have_nothing_left():
    runs = [stand("finished", 10, 2.0), stand("diverged", 3, 4.0), stand("failed", 3, 6.0)]
    assert standing.left(runs, 1) == 0.0
    assert standing.left([*runs, stand("missing", 0, None)], 1) == 10 * 4.0
    assert (
        standing.left([*runs, stand("missing", 7, 8.0)], 1) == 3 * 5.0
    )  # it was stopped, and tells its own cost too


def test_the_closest_kin_tells_the_cost():
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
    for (method, setting), seconds in cases.items():
        new = stand("missing", 0, None, method, setting, rounds=7)
        assert standing.left([*known, new], 1) == pytest.approx(7 * seconds)
