"""A power cut at any moment: what is on the disk then is a run that is finished with all its lines,
or one that goes on to the same bytes.

The disk is an ext4 file system in a file. A copy of that file, taken while it is mounted, is what a
power cut leaves: what the kernel has not yet written is lost, and mounting the copy replays the
journal.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pflbench.records.verification import damage, how_it_ended
from pflbench.simulation import runner
from pflbench.testing.problem import toy_setup
from tests.end_to_end.commands import Started, wait_until

ROUNDS = 9
CUTS = (1, 4, 8)  # after so many lines of rounds.jsonl


def play(out: str, seconds: float) -> None:
    """A run that takes a moment for every round."""
    setup = toy_setup("fedper", rounds=ROUNDS)

    def watch(record: Any, timing: Any) -> None:
        time.sleep(seconds)

    runner.execute(setup, Path(out), checkpoint_every=3, watch=watch)


@contextlib.contextmanager
def mounted(image: Path) -> Iterator[Path]:
    place = image.with_suffix(".mounted")
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The file of a file system, and where it is mounted."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    with contextlib.ExitStack() as stack:
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
            place = stack.enter_context(mounted(image))
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no file system can be mounted here")
        yield image, place


def cut(process: Started, image: Path, name: str) -> Path:
    """What is on the disk at this moment."""
    copy = image.with_name(f"{name}.img")
    with contextlib.suppress(ProcessLookupError):  # it may have ended
        os.kill(process.pid, signal.SIGSTOP)
    shutil.copy(image, copy)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGCONT)
    return copy


def test_a_power_cut_at_any_moment_loses_no_finished_run_and_changes_no_number(
    disk: tuple[Path, Path], tmp_path: Path
):
    setup = toy_setup("fedper", rounds=ROUNDS)
    play(str(tmp_path / "whole"), 0)
    expected = (tmp_path / "whole" / setup.run.id / "rounds.jsonl").read_bytes()
    image, place = disk
    folder = place / "out" / setup.run.id
    process = Started(play, str(place / "out"), 0.05)

    def lines() -> int:
        path = folder / "rounds.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    copies = []
    for number in CUTS:
        wait_until(lambda number=number: lines() >= number, process)  # type: ignore[misc]
        copies.append(cut(process, image, f"after-{number}"))
    wait_until((folder / "status.json").exists, process)
    copies.append(cut(process, image, "status"))  # its name may not be on the disk yet
    process.communicate()
    assert process.returncode == 0
    copies.append(cut(process, image, "end"))

    ends = []
    for copy in copies:
        with mounted(copy) as there:
            found = there / "out" / setup.run.id
            ends.append(how_it_ended(found)[0])
            if ends[-1] != "finished":
                # its owner is gone, and a lease of nobody would be waited for
                shutil.rmtree(there / "out" / "leases", ignore_errors=True)
                play(str(there / "out"), 0)
            assert how_it_ended(found) == ("finished", "")
            assert damage(found) == ""
            assert (found / "rounds.jsonl").read_bytes() == expected
    assert ends[: len(CUTS)] == ["missing"] * len(CUTS)
    assert ends[-1] == "finished"
