"""`pflbench export`: records to experiment trackers."""

from pathlib import Path

import typer

from pflbench.cli import options
from pflbench.errors import UserError
from pflbench.output import plural


def export(
    ctx: typer.Context,
    folder: options.Records = Path("results/runs"),
    to: options.ExportTo = None,
) -> None:
    """Write runs to TensorBoard, MLflow or Weights & Biases. Each run is written with its
    configuration and, for every round, accuracies, loss, bytes, seconds and logs. Exporting again
    writes nothing twice.
    """
    from pflbench.records import archive
    from pflbench.trackers import export, tracker

    if not to:
        raise UserError(f"name a tracker: --to must be one of {', '.join(tracker.KINDS)}")
    trackers = {one: tracker.make(one, archive.stem(folder)) for one in to}
    runs = export.ended_runs(ctx.with_resource(archive.opened(folder)))
    for name, one in trackers.items():
        for run, status in runs.items():
            export.export(run, status, one)
        kind = name.partition("=")[0]
        print(
            "; ".join(
                filter(None, [f"{plural(len(runs), 'run')} to {kind}: {one.place}", one.hint])
            )
        )
