"""Leases: one winner among many, whoever dies, sleeps or has a wrong clock."""

import errno
import io
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pflbench.errors import UserError
from pflbench.records import leases, run_folder
from pflbench.records.leases import Lease, LeaseLost, Leases

RUN = "fedavg-digits-dir0.1-s0-cf1258bd21"
ME = asdict(leases.me())
STRANGER = {**ME, "host": "another machine"}  # whether it lives cannot be known here
NOBODY = (1 << 22) + 1  # above the largest number that Linux gives a process

on_linux = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the system does not tell when it began"
)


@pytest.fixture
def book(tmp_path: Path) -> Leases:
    made = Leases(tmp_path)
    made.open()
    return made


@pytest.fixture
def clock(monkeypatch):
    """The clock of the one who looks, to be set."""

    class Clock:
        now = 5000.0

    monkeypatch.setattr(leases.time, "monotonic", lambda: Clock.now)
    return Clock


def stored(book: Leases, owner: dict[str, Any] | None, generation: int = 1) -> Path:
    """A lease as another process would have left it."""
    path = book.folder / "leases" / f"{RUN}.{generation:06d}"
    path.write_text(json.dumps({"token": "theirs", "owner": owner, "time": 0.0}) if owner else "")
    return path


def names(book: Leases) -> list[str]:
    return sorted(path.name for path in (book.folder / "leases").iterdir())


def claimed(book: Leases, run: str = RUN) -> Lease:
    lease = book.claim(run)
    assert lease is not None
    return lease


def test_a_run_is_claimed_once_and_again_when_it_is_given_back(book):
    lease = claimed(book)
    assert lease.held()
    assert book.claim(RUN) is None
    assert Leases(book.folder).claim(RUN) is None
    assert book.leases() == {RUN: book.folder / "leases" / f"{RUN}.000001"}
    assert book.owner(lease.path) == f"process {os.getpid()} on {ME['host']}"
    lease.release()
    assert not lease.held()
    assert names(book) == []
    assert claimed(book).token != lease.token


def test_leases_of_other_runs_do_not_matter(book):
    first, second = claimed(book, "fedavg-digits-dir0.1"), claimed(book, "fedavg-digits-dir0.12")
    assert claimed(book, "fedavg-digits-dir0").held()
    first.release()
    assert second.held()
    assert set(book.leases()) == {"fedavg-digits-dir0", "fedavg-digits-dir0.12"}


def test_giving_back_what_is_not_ours_any_more_does_no_harm(book):
    lease = claimed(book)
    lease.path.unlink()
    taken = claimed(book)
    assert taken.path == lease.path  # the same name, another token
    lease.release()
    lease.touch()
    assert taken.held()
    taken.release()
    lease.release()
    lease.touch()
    assert names(book) == []


def raced(count: int, work) -> list[list[str]]:
    """What every one of `count` threads brings home that begin at one moment."""
    start = threading.Barrier(count)
    won: list[list[str]] = [[] for _ in range(count)]

    def run(number: int) -> None:
        start.wait()
        won[number] += work()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


@pytest.mark.parametrize("before", [None, {**ME, "pid": NOBODY}], ids=["free", "of a dead owner"])
def test_one_of_many_threads_wins(book, before):
    runs = [f"run-{number}" for number in range(20)]
    if before:
        for run in runs:
            stored(book, before).rename(book.folder / "leases" / f"{run}.000007")

    def work() -> list[str]:
        mine = Leases(book.folder)
        return [run for run in runs if mine.claim(run)]

    won = raced(8, work)
    assert sorted(chain(*won)) == sorted(runs)
    assert names(book) == sorted(f"{run}.{8 if before else 1:06d}" for run in runs)


RACER = """
import sys, time
from pathlib import Path
from pflbench.records.leases import Leases
folder, number = Path(sys.argv[1]), int(sys.argv[2])
book = Leases(folder)
(folder / f"ready-{number}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
print(*[run for run in map(str, range(number)) if book.claim(run)])
sys.stdin.read()
"""


def test_one_of_several_processes_wins_and_the_dead_give_way_at_once(book):
    counts = [50, 51, 52, 53]
    commands = [[sys.executable, "-c", RACER, str(book.folder), str(count)] for count in counts]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, **pipes) for command in commands]
    try:
        while len(list(book.folder.glob("ready-*"))) < len(counts):
            assert all(racer.poll() is None for racer in racers)
            time.sleep(0.01)
        (book.folder / "go").touch()
        won = [racer.stdout.readline().split() for racer in racers]
        assert sorted(chain(*won), key=int) == [str(run) for run in range(53)]
        assert [book.claim(str(run)) for run in range(53)] == [None] * 53  # all four live
        racers[0].kill()
        racers[0].wait()
        free = [str(run) for run in range(53) if book.claim(str(run))]
        assert free == won[0]
        assert set(names(book)) == {
            f"{run}.{2 if run in free else 1:06d}" for run in map(str, range(53))
        }
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def test_the_lease_of_a_dead_owner_is_taken_over_at_once(book):
    theirs = stored(book, {**ME, "pid": NOBODY}, generation=41)
    lease = claimed(book)
    assert names(book) == [f"{RUN}.000042"]
    assert lease.held()
    assert not Lease(RUN, theirs, "theirs").held()


@on_linux
def test_another_process_of_the_same_number_is_not_the_owner(book):
    stored(book, {**ME, "started": "12"})
    assert claimed(book).path.suffix == ".000002"


@on_linux
def test_a_process_that_ended_and_waits_for_its_parent_is_dead(book):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = leases._started(child.pid)
    stored(book, {**ME, "pid": child.pid, "started": began})
    assert book.claim(RUN) is None
    assert child.stdin is not None
    child.stdin.close()
    # its end is seen, and it is left as it is
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert claimed(book).held()
    child.wait()


@pytest.mark.parametrize("change", [{"host": "another machine"}, {"space": "another container"}])
def test_numbers_of_processes_mean_nothing_elsewhere(book, change):
    stored(book, {**ME, "pid": NOBODY, **change})
    assert book.claim(RUN) is None


def test_where_the_system_does_not_tell_when_a_process_began_it_is_taken_for_the_same(
    book, monkeypatch
):
    stored(book, {**ME, "started": ""})
    monkeypatch.setattr(leases, "_started", lambda pid: None)
    assert book.claim(RUN) is None


def test_a_silent_lease_is_free_only_after_we_have_watched_it_for_long(book, clock):
    theirs = stored(book, STRANGER)
    assert book.claim(RUN) is None
    clock.now += 119.9
    assert book.claim(RUN) is None
    assert Leases(book.folder).claim(RUN) is None  # who looks for the first time knows nothing
    clock.now += 0.2
    lease = claimed(book)
    assert not theirs.exists()
    assert lease.path.suffix == ".000002"


def test_every_touch_begins_a_new_wait(book, clock):
    theirs = Lease(RUN, stored(book, STRANGER), "theirs")
    for _ in range(5):
        assert book.claim(RUN) is None
        clock.now += 100
        # the least that a touch can change
        os.utime(theirs.path, ns=(0, theirs.path.stat().st_mtime_ns + 1))
    assert theirs.held()
    assert book.claim(RUN) is None
    clock.now += 120.1
    assert claimed(book).held()
    assert not theirs.held()


@pytest.mark.parametrize("hours", [-1000, 1000])
def test_the_clocks_of_machines_need_not_agree(book, clock, hours):
    theirs = stored(book, STRANGER)
    then = time.time() + 3600 * hours
    os.utime(theirs, (then, then))
    assert book.claim(RUN) is None
    clock.now += 100
    os.utime(theirs, (then + 10, then + 10))  # it lives, by its own clock
    assert book.claim(RUN) is None
    clock.now += 100
    os.utime(theirs, (then - 3600, then - 3600))  # and it sets its clock
    assert book.claim(RUN) is None
    clock.now += 119
    assert book.claim(RUN) is None
    clock.now += 2
    assert claimed(book).held()


def test_how_long_is_for_the_one_who_looks_to_say(tmp_path, clock):
    book = Leases(tmp_path, expires=7.0)
    book.open()
    stored(book, STRANGER)
    assert book.claim(RUN) is None
    clock.now += 7.5
    assert book.claim(RUN) is not None


def test_a_lease_that_is_being_written_is_not_taken_but_one_whose_writer_was_killed_is(book, clock):
    stored(book, None)
    assert book.claim(RUN) is None
    assert not book.abandoned(book.leases()[RUN])
    assert book.owner(book.leases()[RUN]) == "process ? on ?"
    clock.now += 121
    assert claimed(book).path.suffix == ".000002"


def test_an_owner_that_slept_finds_out_that_it_was_taken_over(book, clock):
    mine = claimed(book)
    text = json.loads(mine.path.read_text())
    mine.path.write_text(json.dumps({**text, "owner": STRANGER}))  # as another machine sees it
    other = Leases(book.folder)
    assert other.claim(RUN) is None
    clock.now += 121
    theirs = claimed(other)
    assert (mine.held(), theirs.held()) == (False, True)
    with pytest.raises(LeaseLost, match=rf"{RUN} was taken over by another process"):
        mine.keep()
    mine.touch()
    mine.release()
    assert theirs.held()
    assert names(book) == [f"{RUN}.000002"]


@pytest.mark.parametrize("touch", [Lease.touch, Lease.keep])
def test_a_touch_is_seen(book, touch):
    lease = claimed(book)
    os.utime(lease.path, (1, 1))
    before = time.time()
    touch(lease)
    assert lease.path.stat().st_mtime >= before - 1


def meanwhile(monkeypatch, book: Leases, events) -> None:
    """Let others do something after `book` has looked at a lease and before it claims it."""
    look, due = Leases.expired, [events]

    def slow(self: Leases, path: Path) -> bool:
        found = look(self, path)
        if self is book and due:
            due.pop()()
        return found

    monkeypatch.setattr(Leases, "expired", slow)


def test_a_slow_process_does_not_get_a_lease_that_was_taken_over_twice_meanwhile(book, monkeypatch):
    stored(book, {**ME, "pid": NOBODY}, generation=1)
    others = []

    def events() -> None:
        second = claimed(Leases(book.folder))
        second.path.write_text(json.dumps({"token": "dies", "owner": {**ME, "pid": NOBODY}}))
        others.append(claimed(Leases(book.folder)))

    meanwhile(monkeypatch, book, events)
    lease = book.claim(RUN)
    assert others[0].held()
    assert lease is None or not lease.held()


def test_a_slow_process_does_not_end_a_lease_that_is_newer_than_what_it_saw(book, monkeypatch):
    stored(book, {**ME, "pid": NOBODY}, generation=1)
    others = []

    def events() -> None:
        claimed(Leases(book.folder)).release()
        others.append(claimed(Leases(book.folder)))

    meanwhile(monkeypatch, book, events)
    lease = book.claim(RUN)
    assert others[0].held()
    assert lease is None or not lease.held()


def test_a_lease_given_back_while_we_look_is_left_for_the_next_look(book):
    theirs = stored(book, STRANGER)
    theirs.unlink()
    assert not book.expired(theirs)
    assert claimed(book).path == theirs


def test_hidden_files_of_a_network_file_system_are_no_leases(book):
    (book.folder / "leases" / ".nfs000000000001").touch()
    assert book.leases() == {}
    assert claimed(book).path.suffix == ".000001"


def test_abandoned_goes_by_the_clocks_and_by_the_owner(book):
    theirs = stored(book, STRANGER)
    assert not book.abandoned(theirs)
    past = time.time() - 200
    os.utime(theirs, (past, past))
    assert book.abandoned(theirs)
    assert book.abandoned(stored(book, {**ME, "pid": NOBODY}, 2))
    theirs.unlink()
    assert book.abandoned(theirs)


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        run_folder.Unwritable,
        match=r"cannot write to .*file/out: Not a directory; choose another --out",
    ):
        Leases(tmp_path / "file" / "out").open()


def test_a_folder_that_has_gone_is_told_in_one_line(tmp_path):
    with pytest.raises(
        UserError,
        match=rf"cannot write to {tmp_path}: No such file or directory; choose another --out",
    ):
        Leases(tmp_path).claim(RUN)
    (tmp_path / RUN).touch()
    with pytest.raises(UserError, match="File exists; choose another --out"):
        Leases(tmp_path).note(RUN, "started")


def test_opening_leaves_nothing_but_the_folder(book):
    assert [path.name for path in book.folder.rglob("*")] == ["leases"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_no_lease_behind(book, monkeypatch, number):
    opened = Path.open

    @contextmanager
    def full(path: Path, mode: str):
        with opened(path, mode):
            yield io.StringIO()
        raise OSError(number, os.strerror(number))  # when what was buffered goes to the disk

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(run_folder.Unwritable, match="make space; the same command then goes on"):
        book.claim(RUN)
    monkeypatch.undo()
    assert names(book) == []


def test_the_history_of_a_run_names_events_owners_and_times(book):
    before = time.time()
    book.note(RUN, "started")
    book.note(RUN, "failed", reason="no luck")
    first, second = map(json.loads, (book.folder / RUN / "attempts.jsonl").read_text().splitlines())
    assert (first["event"], second["event"], second["reason"]) == ("started", "failed", "no luck")
    assert first["owner"] == ME
    assert before - 1 <= first["time"] <= second["time"] <= time.time() + 1


def test_status_is_what_the_run_wrote_last(book):
    assert book.status(RUN) == {}
    run = run_folder.RunFolder(book.folder / RUN, RUN)
    run.folder.mkdir()
    run.finish("diverged", 3, "nan")
    ended = book.status(RUN)
    assert (ended["status"], ended["round"], ended["reason"]) == ("diverged", 3, "nan")


def test_a_process_knows_itself():
    me = leases.me()
    assert (me.pid, leases._dead(asdict(me))) == (os.getpid(), False)
    assert not leases._dead(None)
    assert not leases._dead({})
    assert leases._dead(asdict(replace(me, pid=NOBODY)))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        other = pool.apply(leases.me)
    assert (other.host, other.space) == (me.host, me.space)
    assert other.pid != me.pid
