"""The progress of a run: a bar on a terminal, else lines."""

import sys
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from pflbench import output
from pflbench.records.time_left import duration

SECONDS_BETWEEN_LINES = 10.0
LINES = 20  # of a quick run, at most: one for every 5 % of the rounds


class Progress:
    """The progress of a run; this one shows nothing."""

    def __init__(self, rounds: int, point: str) -> None:
        self.rounds = rounds
        self.point = point
        self.has_started = False
        self.done = 0
        self.resumed = 0  # rounds that were there at the start
        self.megabytes = 0.0
        self.accuracy: float | None = None  # mean over clients, of the newest evaluation
        self.evaluated = 0  # the round of that evaluation
        self.times: list[float] = []  # at the start, and after every round

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def start(self, done: int, stored: Iterable[Mapping[str, Any]]) -> None:
        """Start after `done` rounds, whose records are `stored`."""
        self.has_started, self.done, self.resumed = True, done, done
        for record in stored:
            self._count(record)
        self.times = [time.monotonic()]
        self.show()

    def watch(self, record: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Take in the record of a round."""
        self._count(record)
        self.done = record["round"]
        self.times.append(time.monotonic())
        self.show()

    def show(self) -> None:
        """Show it."""

    def close(self) -> None:
        """The run has ended, in whatever way."""

    @property
    def left(self) -> str:
        """The time that the remaining rounds will take, if they are like the last ten; the workers'
        start apart.
        """
        recent = (self.times[1:] or self.times)[-11:]
        if len(recent) < 2:
            return "-:--"
        return duration((recent[-1] - recent[0]) / (len(recent) - 1) * (self.rounds - self.done))

    @property
    def is_evaluated(self) -> bool:
        """Whether the accuracy is that of the newest round."""
        return self.accuracy is not None and self.evaluated == self.done

    def what(self, accuracy: str) -> str:
        """A round in words; `accuracy` is what to say of it, if anything."""
        cost = [f"{self.megabytes:.1f} MB", f"{self.left} left"]
        return "  ".join([*filter(None, [accuracy]), *cost])

    @property
    def shown_accuracy(self) -> str:
        """The accuracy of the newest evaluation at the evaluation point."""
        if self.accuracy is None:
            return ""
        return f"accuracy {100 * self.accuracy:.2f} % ({self.point})"

    def _count(self, record: Mapping[str, Any]) -> None:
        self.megabytes += (
            sum(sum(parts.values()) for parts in record.get("bytes", {}).values()) / 1e6
        )
        known = [
            value for value in record.get("accuracy", {}).get(self.point, []) if value is not None
        ]
        if known:
            self.accuracy = sum(known) / len(known)
            self.evaluated = record["round"]


class Lines(Progress):
    """A line for the first evaluation in every twentieth of the rounds, after ten seconds without
    one, and for the last round. Only rounds that were evaluated have an accuracy.
    """

    shown = -1.0  # rounds at the newest line
    at = 0.0  # when that was

    def show(self) -> None:
        now = time.monotonic()
        if self.done == self.resumed and self.shown < 0:
            if self.resumed:
                output.show(f"resuming after round {self.resumed} of {self.rounds}")
            self.shown, self.at = self.done, now
            return
        due = self.is_evaluated and self.done - self.shown >= self.rounds / LINES
        if due or now - self.at >= SECONDS_BETWEEN_LINES or self.done == self.rounds:
            self.shown, self.at = self.done, now
            what = self.what(self.shown_accuracy if self.is_evaluated else "")
            output.show(f"round {self.done:>{len(str(self.rounds))}}/{self.rounds}  {what}")


class Bar(Progress):
    """A bar on a terminal. An accuracy of an earlier round is shown with that round."""

    def __init__(self, rounds: int, point: str) -> None:
        super().__init__(rounds, point)
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("{task.fields[what]}", markup=False),
            expand=True,
        )
        self._task: progress.TaskID | None = None

    def show(self) -> None:
        accuracy = self.shown_accuracy
        if accuracy and not self.is_evaluated:
            accuracy += f" after round {self.evaluated}"
        what = self.what(accuracy)
        if self._task is None:
            if self.resumed:
                print(f"resuming after round {self.resumed} of {self.rounds}")
            self._bar.start()
            self._task = self._bar.add_task(
                "run", total=self.rounds, completed=self.done, what=what
            )
        else:
            self._bar.update(self._task, completed=self.done, what=what)

    def close(self) -> None:
        self._bar.stop()


def progress(rounds: int, point: str, quiet: bool) -> Progress:
    """The progress that suits where stdout goes."""
    kind = Progress if quiet else Bar if sys.stdout.isatty() else Lines
    return kind(rounds, point)
