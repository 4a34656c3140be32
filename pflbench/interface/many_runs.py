"""Many runs, from Python and from the command line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pflbench.data import datasets
from pflbench.errors import UserError
from pflbench.interface.experiment_table import Blocks, Experiment, asked
from pflbench.interface.loading import LoadedRun
from pflbench.interface.methods import Method
from pflbench.interface.sweep_result import SweepResult
from pflbench.records.growing import Growing, Record
from pflbench.records.plan import Plan, Planned
from pflbench.sweep import experiment as experiments
from pflbench.sweep.launchers import machine
from pflbench.sweep.launchers.task import Launcher
from pflbench.sweep.progress import make_progress
from pflbench.sweep.scheduler import Sweep
from pflbench.trackers.live import Live

WatchRound = Callable[[str, Record, Record], None]
"""Called with the id of a run, and the record and the timing of a round."""
WatchRun = Callable[[LoadedRun], None]


def sweep(
    methods: Method | Iterable[Method] | None = None,
    *,
    experiment: Experiment | None = None,
    scenarios: Blocks | None = None,
    variants: Blocks | None = None,
    seeds: int | Sequence[int] | None = None,
    hparams: Mapping[str, Any] | None = None,
    name: str | None = None,
    title: str | None = None,
    scale: str = "paper",
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    out: str | Path = "results/runs",
    jobs: int | None = None,
    on: str = "local",
    address: str | None = None,
    device: str = "cpu",
    runs_per_gpu: int = 1,
    data_root: str | Path | None = None,
    track: Iterable[str] = (),
    watch: WatchRound | None = None,
    ended: WatchRun | None = None,
    progress: bool = False,
    retry_failed: bool = False,
    keep_outdated: bool = False,
    checkpoint_every: int = 10,
    state_memory: float = 2.0,
    save_models: bool = False,
    **settings: Any,
) -> SweepResult:
    """Many runs, as `pflbench sweep` does them: methods x scenarios x seeds. Finished runs stay.

    `methods` are names, paths of plugins, classes or objects. `settings` are those of a run; a list
    means each of its values. `experiment` is a name, a file or a table instead, which all others
    override. `hparams` are of all methods, or of one: {"lr": 0.1, "fedprox.mu": 0.5}. While runs are
    at work in other processes, `watch(id, record, timing)` is called with every round, and
    `ended(run)` with every run. A run that fails is a warning, and a row of `runs`.

        result = pflbench.sweep(["fedavg", Mine], partition=["dir:0.1", "path:2"], seeds=3, rounds=50)
        result.runs.groupby("method")["accuracy"].mean()
    """
    where = Path(out)
    data = Path(data_root) if data_root else None
    blocks = {"scenarios": scenarios, "variants": variants}
    listed = list(seeds) if isinstance(seeds, Iterable) else seeds
    one = asked(
        methods,
        experiment,
        name,
        hparams or {},
        blocks,
        data,
        seeds=listed,
        title=title,
        **settings,
    )
    plans = [experiments.make(one.name, one.table, scale, one.command, data)]
    trackers = Live(track, where.absolute())
    made = opened(
        plans,
        chosen(plans, only, exclude),
        where,
        machine.launcher(on, address, jobs, device, runs_per_gpu),
        scale,
        data,
        retry_failed=retry_failed,
        keep_outdated=keep_outdated,
        checkpoint_every=checkpoint_every,
        state_memory=state_memory,
        save_models=save_models,
    )
    result = SweepResult(made, data, device)
    calls = _Calls(where, watch, (lambda run: ended(result[run])) if ended else None)
    work(made, trackers, quiet=not progress, also=calls)
    result.warn_of_failures()
    return result


def chosen(
    plans: Sequence[Plan], only: Sequence[str], exclude: Sequence[str]
) -> dict[str, Planned]:
    """The runs that `only` and `exclude` leave, each once."""
    experiments.check_only([run for plan in plans for run in plan.runs], only)
    runs: dict[str, Planned] = {}
    for plan in plans:
        left = {run.id for run in experiments.chosen(plan.runs, only, exclude)}
        runs |= {id: run for id, run in plan.unique().items() if id in left}
    if not runs:
        raise UserError("--only and --exclude leave no run")
    return runs


def opened(
    plans: Sequence[Plan],
    runs: Mapping[str, Planned],
    out: Path,
    launcher: Launcher,
    scale: str,
    data_root: Path | None,
    **how: Any,
) -> Sweep:
    """A sweep that knows which runs are left; its plans are in the folder, unless it is refused."""
    specs = sorted({planned.run.dataset for planned in runs.values()})
    loaded = {spec: datasets.load(spec, data_root) for spec in specs}
    made = Sweep(out.absolute(), runs, loaded, launcher, scale, **how)
    made.open()
    for plan in plans:
        plan.write(out)
    return made


def work(
    made: Sweep,
    trackers: Live,
    *,
    quiet: bool,
    also: Callable[[Sweep, str | None], None] | None = None,
) -> None:
    """Do all runs that are left, with their progress on the screen and in trackers."""
    with trackers, make_progress(quiet) as progress:

        def watch(sweep: Sweep, ended: str | None) -> None:
            progress.watch(sweep, ended)
            trackers.see(sweep.held, ended)
            if also is not None:
                also(sweep, ended)

        made.watch = watch
        made.run()


class _Calls:
    """Tells a caller what the records of runs at work say."""

    def __init__(
        self, out: Path, watch: WatchRound | None, ended: Callable[[str], None] | None
    ) -> None:
        self.out = out
        self.watch = watch
        self.ended = ended
        self._runs: dict[str, Growing] = {}

    def __call__(self, sweep: Sweep, ended: str | None) -> None:
        if self.watch is not None:
            for run in [*sweep.held, *([ended] if ended in self._runs else [])]:
                records = self._runs.setdefault(str(run), Growing(self.out / str(run)))
                for record, timing in records.new():
                    self.watch(str(run), record, timing)
        if ended is not None and self.ended is not None:
            self.ended(ended)
