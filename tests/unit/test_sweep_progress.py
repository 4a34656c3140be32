"""What a log shows of a sweep, line by line; the launcher only writes down how runs ended."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pflbench.config import as_json
from pflbench.methods.hyperparameters import make_run
from pflbench.records import run_folder
from pflbench.records.leases import Leases
from pflbench.records.plan import Planned
from pflbench.records.status import StatusReader
from pflbench.sweep import progress
from pflbench.sweep.launchers.task import Task
from pflbench.sweep.progress import Lines, Live, SweepProgress
from pflbench.sweep.scheduler import Sweep
from tests.factories.runs import about_run, in_plan

PLAYED: dict[str, Any] = {"cohort": [0, 1], "bytes": {}}
REASONS = {
    "failed": "ZeroDivisionError: no luck",
    "diverged": "numbers that are not finite",
    "finished": "",
}


class Clock:
    """Seconds that pass only where a test says so."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch):
    Clock.now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def planned(method: str, seed: int = 0) -> Planned:
    return in_plan(make_run(method, {"rounds": 4, "seed": seed}, {}), "digits iid")


class Place:
    """A launcher that plays two rounds of every run, 3 s each, then lets it end as `ends` says, `room` at a time."""

    glance = 65.0  # seconds that pass at every look

    def __init__(self, ends: Mapping[str, str], room: int = 1) -> None:
        self.ends, self.places = ends, room
        self.tasks: list[Task] = []
        self.log: list[str] = []
        self.folders: dict[str, run_folder.RunFolder] = {}

    def room(self):
        return self.places - len(self.tasks)

    def submit(self, task):
        self.tasks.append(task)
        run = run_folder.RunFolder(task.folder / task.run.id, task.run.id)
        self.folders[task.run.id] = run
        run.clear()
        about = about_run(as_json(task.run), task.run.clients)
        (run.folder / "run.json").write_text(json.dumps({"id": task.run.id, **about}))
        run.append("timing.jsonl", {"round": 2, "wall": 3.0})
        run.append("rounds.jsonl", {"round": 2, **PLAYED, "accuracy": {"pre": [0.5, 0.25]}})

    def ended(self, timeout):
        Clock.now += self.glance
        if not self.tasks:
            return {}
        task = self.tasks.pop(0)
        how = self.ends[task.run.algorithm]
        if how == "full":
            return {task.run.id: "cannot write to x: No space left on device"}
        if how == "Ctrl-C":
            self.tasks.append(task)
            raise KeyboardInterrupt
        if how != "nothing":
            self.folders[task.run.id].finish(how, 2, REASONS[how])
        return {task.run.id: None}

    def stop(self):
        self.log.append("stop")

    def close(self):
        self.log.append("close")


def swept(
    folder: Path, ends: Mapping[str, str], told: SweepProgress | None = None, room: int = 1, **how
) -> Sweep:
    """A sweep of one run for every method in `ends`."""
    runs = {run.id: run for run in map(planned, ends)}
    done = sweep_of(folder, runs, Place(ends, room), watch=(told or Lines()).watch, **how)
    done.run()
    return done


def sweep_of(folder: Path, runs: Mapping[str, Planned], place: "Place", **how) -> Sweep:
    """A sweep that has seen which runs are left; no data are needed."""
    no_data: Any = {"digits": None}
    made = Sweep(folder, runs, no_data, place, "paper", **how)
    made.open()
    return made


def test_a_log_has_a_line_for_every_end_and_one_for_the_whole_now_and_then(tmp_path, clock, capsys):
    done = swept(tmp_path, {"fedavg": "finished", "local": "failed", "fedper": "diverged"})
    assert capsys.readouterr().out.splitlines() == [
        # 2 rounds of fedavg and 2 x 4 of the others are left, 3 s each
        "3 runs: 1 running, 2 missing; 30 s left; fedavg, digits iid, seed 0 (round 2)",
        "1/3 finished: fedavg, digits iid, seed 0: 37.50 % (pre) in 1 min 5 s",
        "3 runs: 1 finished, 2 missing; 24 s left",
        "2/3 failed: local, digits iid, seed 0: ZeroDivisionError: no luck in 1 min 5 s",
        "3 runs: 1 finished, 1 failed, 1 missing; 12 s left",
        "3/3 diverged: fedper, digits iid, seed 0: numbers that are not finite in 1 min 5 s",
        "3 runs: 1 finished, 1 diverged, 1 failed",
    ]
    assert list(done.ended.values()) == ["finished", "failed", "diverged"]
    assert list((tmp_path / "leases").iterdir()) == []


def test_runs_at_once_share_the_time_that_is_left(tmp_path, clock):
    class Always(SweepProgress):
        said: ClassVar[list[str]] = []

        def due(self, now):
            return True

        def show(self, sweep, now):
            self.said.append(self.whole(sweep))

    swept(tmp_path, {"fedavg": "finished", "local": "finished"}, Always(), room=2)
    assert Always.said[:2] == [
        "2 runs: 1 running, 1 missing; 18 s left",  # 2 + 4 rounds of 3 s, by one
        "2 runs: 2 running; 6 s left",  # 2 + 2 rounds, by two
    ]
    assert Always.said[-1] == "2 runs: 2 finished"


def test_a_log_is_quiet_between_ends_for_a_minute(tmp_path, clock, capsys):
    told = Lines()
    sweep = sweep_of(tmp_path, {run.id: run for run in [planned("fedavg")]}, Place({}))
    for step in (0, 30, 29, 2, 59, 2):
        clock.now += step
        told.watch(sweep, None)
    assert capsys.readouterr().out == "1 run: 1 missing\n" * 3  # at 0, 61 and 122 s


def test_ends_within_a_minute_have_a_line_each_and_no_more(tmp_path, clock, capsys, monkeypatch):
    monkeypatch.setattr(Place, "glance", 10.0)
    swept(tmp_path, {"fedavg": "finished", "local": "finished"})
    _, *ends = capsys.readouterr().out.splitlines()
    assert ends == [
        "1/2 finished: fedavg, digits iid, seed 0: 37.50 % (pre) in 10 s",
        "2/2 finished: local, digits iid, seed 0: 37.50 % (pre) in 10 s",
    ]


def test_what_was_done_before_is_counted_and_not_told_again(tmp_path, clock, capsys):
    swept(tmp_path, {"fedavg": "finished", "local": "failed"})
    capsys.readouterr()
    done = swept(tmp_path, {"fedavg": "finished", "local": "finished", "fedper": "finished"})
    said = capsys.readouterr().out
    assert re.findall(r"^\d/.*", said, re.MULTILINE) == [
        "3/3 finished: fedper, digits iid, seed 0: 37.50 % (pre) in 1 min 5 s"
    ]
    assert sorted(done.ended.values()) == ["failed", "finished", "finished"]
    done = swept(
        tmp_path,
        {"fedavg": "finished", "local": "finished", "fedper": "finished"},
        retry_failed=True,
    )
    said = capsys.readouterr().out
    assert re.findall(r"^\d/.*", said, re.MULTILINE) == [
        "3/3 finished: local, digits iid, seed 0: 37.50 % (pre) in 1 min 5 s"
    ]


def test_a_run_that_another_sweep_holds_is_looked_at_now_and_then_until_it_ends(
    tmp_path, clock, capsys, monkeypatch
):
    run, claims, claim = planned("fedavg"), [], Leases.claim
    other = Leases(tmp_path)
    other.open()
    lease = other.claim(run.id)
    assert lease is not None

    class Elsewhere(Place):
        glance, looks = 1.0, 0

        def ended(self, timeout):
            self.looks += 1
            if self.looks == 8:
                other.note(run.id, "started")
                run_folder.RunFolder(tmp_path / run.id, run.id).finish("finished", 4)
                lease.release()
            return super().ended(timeout)

    monkeypatch.setattr(
        Leases, "claim", lambda self, id: (claims.append(Clock.now), claim(self, id))[1]
    )
    done = sweep_of(tmp_path, {run.id: run}, Elsewhere({}), watch=Lines().watch)
    done.run()
    assert done.ended == {run.id: "finished"}
    assert claims == [1000, 1005, 1010]
    # nothing was started here
    assert (tmp_path / run.id / run_folder.ATTEMPTS).read_text().count('"event"') == 1
    assert capsys.readouterr().out.splitlines() == [
        "1 run: 1 running",
        "1/1 finished: fedavg, digits iid, seed 0 in 0 s",
    ]


@pytest.mark.parametrize(
    ("end", "error"), [("Ctrl-C", KeyboardInterrupt), ("full", run_folder.Unwritable)]
)
def test_a_sweep_that_is_broken_off_stops_all_and_gives_everything_back(
    tmp_path, clock, capsys, end, error
):
    ends = {"fedavg": end, "local": "finished", "fedper": "finished"}
    runs = {run.id: run for run in map(planned, ends)}
    sweep = sweep_of(tmp_path, runs, place := Place(ends, room=2), watch=Lines().watch)
    released = []
    place.close = lambda: released.append(len(sweep.held))
    with pytest.raises(error):
        sweep.run()
    assert place.log == ["stop"]
    # all has ended before a lease is free for others
    assert released == [2 if end == "Ctrl-C" else 1]
    assert list((tmp_path / "leases").iterdir()) == []
    assert set(sweep.ended.values()) == {"stopped"}
    assert (
        len(
            re.findall(
                r"stopped: .*, seed 0: 37.50 % \(pre\) in 1 min 5 s", capsys.readouterr().out
            )
        )
        == 2
    )


def test_a_run_that_left_no_word_is_told_as_stopped(tmp_path, clock, capsys):
    done = swept(tmp_path, {"fedavg": "nothing"})
    assert list(done.ended.values()) == ["stopped"]
    assert (
        "1/1 stopped: fedavg, digits iid, seed 0: 37.50 % (pre) in 1 min 5 s"
        in capsys.readouterr().out
    )


def test_a_place_with_less_than_no_room_gets_nothing(tmp_path, clock):
    class Shrinking(Place):
        def room(self):
            return -1 if self.tasks else 1

    runs = {run.id: run for run in map(planned, ("fedavg", "local"))}
    place = Shrinking({"fedavg": "finished", "local": "finished"})
    most = []
    sweep_of(tmp_path, runs, place, watch=lambda sweep, ended: most.append(len(place.tasks))).run()
    assert max(most) == 1


def test_a_lease_that_was_taken_over_is_not_given_back_and_the_run_ends_elsewhere(tmp_path, clock):
    run = planned("fedavg")

    class Slept(Place):
        def ended(self, timeout):
            if self.tasks:  # we slept; another sweep took over and has done it
                (path,) = (tmp_path / "leases").iterdir()
                path.unlink()
                (tmp_path / "leases" / f"{run.id}.000002").write_text('{"token": "theirs"}')
                self.folders[run.id].finish("finished", 4)
                return super().ended(timeout)
            (tmp_path / "leases" / f"{run.id}.000002").unlink(missing_ok=True)
            return super().ended(timeout)

    sweep = sweep_of(tmp_path, {run.id: run}, Slept({"fedavg": "nothing"}))
    sweep.run()
    assert sweep.ended == {run.id: "finished"}
    history = (tmp_path / run.id / run_folder.ATTEMPTS).read_text()
    assert history.count('"event"') == 1  # "started": how it ended is for the other to say


@pytest.mark.parametrize(
    ("reason", "accuracy", "said"),
    [("", None, ""), ("", 0.12345, "12.35 % (post)"), ("why", 0.5, "why")],
)
def test_a_result_is_its_accuracy_or_why_there_is_none(reason, accuracy, said):
    run = progress.RunStatus(
        planned("fedavg"), "finished", Path(), reason=reason, accuracy=accuracy, point="post"
    )
    assert progress.result(run) == said


def test_an_accuracy_of_an_earlier_round_is_shown_with_that_round(tmp_path, clock):
    told = SweepProgress()
    swept(tmp_path, {"fedavg": "finished"}, told)
    (run,) = told.known.values()
    assert progress.result(run) == "37.50 % (pre)"
    with (run.folder / "timing.jsonl").open("a") as file:
        file.write('{"round": 3, "wall": 3.0}\n')
    (run.folder / "status.json").unlink()
    later = StatusReader(Leases(tmp_path), lambda plugin: "").status(run.planned)
    assert progress.result(later) == "37.50 % (pre) after round 2"


def test_quiet_progress_says_nothing_and_knows_all(tmp_path, clock, capsys):
    told = progress.make_progress(quiet=True)
    swept(tmp_path, {"fedavg": "finished", "local": "failed"}, told)
    assert capsys.readouterr().out == ""
    assert [run.state for run in told.known.values()] == ["finished", "failed"]


def test_a_terminal_shows_what_runs_and_keeps_what_went_wrong(tmp_path, clock, capsys):
    assert type(progress.make_progress(quiet=False)) is Lines  # a test has no terminal
    with Live() as told:
        drawn = []
        update = told.display.update
        told.display.update = lambda text: (drawn.append(text.plain.splitlines()), update(text))
        swept(tmp_path, {"fedavg": "finished", "local": "failed"}, told)
    assert drawn[0] == [
        "    2/4  fedavg, digits iid, seed 0  37.50 % (pre)",
        "2 runs: 1 running, 1 missing; 18 s left",
    ]
    assert drawn[-1] == ["2 runs: 1 finished, 1 failed"]
    said = capsys.readouterr().out
    assert "failed: local, digits iid, seed 0: ZeroDivisionError: no luck" in " ".join(said.split())
    assert "finished: fedavg" not in said
