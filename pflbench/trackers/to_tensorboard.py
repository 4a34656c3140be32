"""TensorBoard: a folder of events for every run."""

from collections.abc import Sequence
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from pflbench.trackers.points import Point, TrackedRun

OURS = ".pflbench"  # how the names of files end that are written here, and may be replaced


class TensorBoard:
    """A folder that `tensorboard --logdir` shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = str(folder)
        self.hint = f"see it with: tensorboard --logdir {folder}"

    def start(self, run: TrackedRun) -> "Events":
        """Write the events of a run anew: events cannot be taken back one by one."""
        folder = self.folder / run.id
        for path in folder.glob(f"events.out.tfevents.*{OURS}"):
            path.unlink()
        return Events(folder, run)


class Events:
    """A run as a file of events."""

    def __init__(self, folder: Path, run: TrackedRun) -> None:
        self.writer = EventFileWriter(str(folder), filename_suffix=OURS)
        self.described = hparams_pb({**run.parameters, **run.tags}, trial_id=run.id)

    def write(self, points: Sequence[Point]) -> None:
        if points and self.described is not None:
            self.writer.add_event(Event(wall_time=points[0].time, summary=self.described))
            self.described = None
        for point in points:
            values = [
                Summary.Value(tag=name, simple_value=value) for name, value in point.values.items()
            ]
            self.writer.add_event(
                Event(wall_time=point.time, step=point.round, summary=Summary(value=values))
            )
        self.writer.flush()

    def end(self, status: str) -> None:
        self.writer.close()


def make(where: str, folder: Path) -> TensorBoard:
    """The tracker of a folder."""
    return TensorBoard(Path(where) if where else folder / "tensorboard")
