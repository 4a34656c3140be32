"""The progress of a sweep: one line for every running run and one for the whole, live or as a
log.
"""

import sys
import time
from collections import Counter
from typing import Any

from pflbench.output import plural, show
from pflbench.records.status import STATES, RunStatus
from pflbench.records.time_left import duration, time_left
from pflbench.sweep.scheduler import Sweep

SECONDS_BETWEEN_LINES = 60.0  # of a log in which nothing ends


class SweepProgress:
    """Knows how far all runs are; this one shows nothing."""

    def __init__(self) -> None:
        self.known: dict[str, RunStatus] = {}
        self.started: dict[str, float] = {}

    def __enter__(self) -> "SweepProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def watch(self, sweep: Sweep, ended: str | None) -> None:
        """What a sweep calls."""
        now = time.monotonic()
        for run in sweep.held:
            self.started.setdefault(run, now)
        stale = [run for run in sweep.runs if run not in self.known]
        stale += [
            run
            for run in (*sweep.held, *sweep.elsewhere, *([ended] if ended else []))
            if run not in stale
        ]
        if ended is None and not self.due(now) and not any(run not in self.known for run in stale):
            return
        sweep.reader.refresh()
        for run in stale:
            self.known[run] = sweep.status(run)
        if ended is not None:
            self.ended(sweep, self.known[ended], now - self.started.pop(ended, now))
        self.show(sweep, now)

    def due(self, now: float) -> bool:
        """Whether it is time to look again."""
        return False

    def ended(self, sweep: Sweep, run: RunStatus, seconds: float) -> None:
        """A run has ended."""

    def show(self, sweep: Sweep, now: float) -> None:
        """Show how far the sweep is."""

    def close(self) -> None:
        """The sweep has ended, in whatever way."""

    def whole(self, sweep: Sweep) -> str:
        """The sweep in one line."""
        counts = Counter(run.label for run in self.known.values())
        parts = [f"{counts[label]} {label}" for label in STATES if counts[label]]
        left = time_left(self.known.values(), counts["running"])
        ahead = counts["running"] + counts["missing"]
        return f"{plural(len(self.known), 'run')}: {', '.join(parts)}" + (
            f"; {duration(left)} left" if left and ahead else ""
        )


def result(run: RunStatus) -> str:
    """The result of a run: its accuracy, with the round if that is not the newest one, or why it
    has none.
    """
    if run.reason or run.accuracy is None:
        return run.reason
    then = "" if run.evaluated == run.round else f" after round {run.evaluated}"
    return f"{100 * run.accuracy:.2f} % ({run.point}){then}"


class Lines(SweepProgress):
    """For a log: a line for every run that ends, and one for the whole every minute."""

    at = 0.0

    def due(self, now: float) -> bool:
        return now - self.at >= SECONDS_BETWEEN_LINES

    def ended(self, sweep: Sweep, run: RunStatus, seconds: float) -> None:
        number, digits = len(sweep.ended), len(str(len(sweep.runs)))
        what = ": ".join(filter(None, [sweep.ended[run.planned.id], run.planned.name, result(run)]))
        show(f"{number:>{digits}}/{len(sweep.runs)} {what} in {duration(seconds)}")

    def show(self, sweep: Sweep, now: float) -> None:
        if now - self.at >= SECONDS_BETWEEN_LINES:
            self.at = now
            running = [
                f"{self.known[run].planned.name} (round {self.known[run].round})"
                for run in sweep.held
            ]
            show("; ".join([self.whole(sweep), *running]))
        sys.stdout.flush()


class Live(SweepProgress):
    """For a terminal: the running runs are rewritten in place, those that failed or diverged scroll
    by.
    """

    def __init__(self) -> None:
        super().__init__()
        from rich.live import Live as Display

        self.display: Any = Display(refresh_per_second=4, transient=True)
        self.at = 0.0

    def __enter__(self) -> "SweepProgress":
        self.display.start()
        return self

    def due(self, now: float) -> bool:
        return now - self.at >= 1.0

    def ended(self, sweep: Sweep, run: RunStatus, seconds: float) -> None:
        what = sweep.ended[run.planned.id]
        if what != "finished":
            self.display.console.print(
                f"{what}: {run.planned.name}: {result(run)}", markup=False, highlight=False
            )

    def show(self, sweep: Sweep, now: float) -> None:
        from rich.text import Text

        self.at = now
        lines = []
        for id in sweep.held:
            run = self.known[id]
            lines.append(f"{run.round:>5}/{run.rounds}  {run.planned.name}  {result(run)}")
        lines.append(self.whole(sweep))
        self.display.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"))

    def close(self) -> None:
        self.display.stop()


def make_progress(quiet: bool) -> SweepProgress:
    """The progress that suits where stdout goes."""
    return SweepProgress() if quiet else Live() if sys.stdout.isatty() else Lines()
