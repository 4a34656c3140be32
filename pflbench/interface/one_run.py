"""One run, from Python and from the command line."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pflbench.interface.loading import LoadedRun
from pflbench.interface.methods import Method, hparams_of, plugin_of
from pflbench.interface.run_progress import progress as make_progress
from pflbench.methods.hyperparameters import make_run
from pflbench.output import plural
from pflbench.records import extension, run_folder
from pflbench.simulation import runner
from pflbench.simulation.client_worker import Setup
from pflbench.trackers.live import Live

Record = dict[str, Any]
Watch = Callable[[Record, Record], None]
"""Called after every round with its record and its timing, as in rounds.jsonl and timing.jsonl."""


def run(
    method: Method,
    *,
    hparams: Mapping[str, Any] | None = None,
    out: str | Path = "results/runs",
    workers: int = 1,
    device: str = "cpu",
    data_root: str | Path | None = None,
    checkpoint_every: int = 10,
    state_memory: float = 2.0,
    save_models: bool = False,
    fresh: bool = False,
    strict: bool = False,
    track: Iterable[str] = (),
    watch: Watch | None = None,
    progress: bool = False,
    **settings: Any,
) -> LoadedRun:
    """One run of a method, as `pflbench run` does it; what is stored already is not computed again.

    `method` is a name, the path of a plugin, a class, or an object of one. `settings` are those of
    `pflbench run`, with `_` for `-`; `hparams` are hyperparameters. `watch(record, timing)` is
    called after every round. The result has the records as pandas frames and, with `save_models`,
    the models of all clients.

        result = pflbench.run("ditto", dataset="digits", rounds=20, save_models=True)
        result.rounds["post"].plot()
        result.model(3).predict(x)
    """
    plugin, folder = plugin_of(method), Path(data_root) if data_root else None
    chosen = make_run(plugin, settings, hparams_of(method, hparams), data_root=folder)
    setup = runner.prepare(chosen, plugin, folder, device)
    do(
        setup,
        Path(out),
        watch=watch,
        track=track,
        quiet=not progress,
        workers=workers,
        checkpoint_every=checkpoint_every,
        state_memory=state_memory,
        save_models=save_models,
        fresh=fresh,
        strict=strict,
    )
    return LoadedRun(Path(out) / chosen.id, plugin, folder, device)


def do(
    setup: Setup,
    out: Path,
    *,
    watch: Watch | None = None,
    track: Iterable[str] = (),
    quiet: bool,
    **how: Any,
) -> bool:
    """Do a run and show its progress, also in trackers; False if it was finished already."""
    folder = out / setup.run.id
    point = setup.algorithm().evaluation_point
    shown = make_progress(setup.run.rounds, point, quiet)
    with Live(track, out) as trackers, shown as progress:

        def started(done: int) -> None:
            shorter = run_folder.read_json(folder / "run.json").get(extension.KEY, {})
            if done and shorter.get("round") == done and not quiet:
                print(f"going on from {out / shorter['id']}, which has {plural(done, 'round')}")
            progress.start(done, run_folder.rounds(folder))
            trackers.see([setup.run.id])

        def watched(record: Record, timing: Record) -> None:
            progress.watch(record, timing)
            if watch is not None:
                watch(record, timing)

        runner.execute(setup, out, started=started, watch=watched, **how)
    return progress.has_started
