"""Tuning: for every method in every scenario the same number of trials, evaluated on validation
samples only.

A trial is an ordinary run (one for every tuning seed), done and stored like those of a sweep.
Nothing else is stored: a search starts anew every time, asks again what it asked before, and gets
the accuracies of the stored runs. It asks for a generation of trials at a time and gets their
accuracies in order, so that what it asks depends neither on how many runs are done at once nor on
where it was interrupted.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflbench.config import Run
from pflbench.data.npz import plain_arrays
from pflbench.errors import RunFailed, UserError, unknown
from pflbench.methods import registry
from pflbench.methods.hyperparameters import complete, stored
from pflbench.records.leases import FINAL
from pflbench.records.plan import Planned
from pflbench.records.status import stem_of
from pflbench.records.verification import Damaged, how_it_ended, verified
from pflbench.rng import seed_of
from pflbench.sweep import experiment, plugins, search_space
from pflbench.sweep.experiment import Table
from pflbench.sweep.search_space import Dimension

if TYPE_CHECKING:
    import optuna

Grid = Mapping[str, Sequence[Any]]  # values to try of `lr` of all methods, of `fedprox.mu` of one

GENERATION = 4  # trials that are asked for at once
STARTUP = 2 * GENERATION  # trials, the first one among them, that do not learn from others
SEED = 1000  # of tuning, where none is given
VALIDATION = 0.2  # of every client's training samples, where the experiment holds out none
WORST = 0.0  # score of a trial that diverged: an accuracy cannot be less


@dataclass(frozen=True)
class Trial:
    """Values to try, and the runs that do so: one for every tuning seed."""

    number: int  # from 0, which is the experiment's own values
    values: dict[str, Any]
    runs: tuple[Planned, ...]


class Study:
    """The search of one method in one scenario; `block` and `variant` are those of the experiment's
    table.
    """

    def __init__(
        self,
        block: Table,
        variant: Table,
        first: Sequence[Planned],
        asked: Sequence[str],
        grid: Grid | None,
    ) -> None:
        self.block, self.variant, self.first = block, variant, tuple(first)
        self.method = registry.load(first[0].plugin)
        self.name = first[0].run.algorithm
        self.scenario = first[0].scenario
        run = first[0].run
        self.dimensions: tuple[Dimension, ...]
        self.dimensions = (
            search_space.grid(self.method, run, grid)
            if grid is not None
            else search_space.dimensions(self.method, run, asked)
        )
        self.grid = search_space.points(self.dimensions) if grid is not None else None
        self.trials: list[Trial] = []
        self.scores: list[float] = []  # of the trials that have ended
        self.diverged: list[Planned] = []
        self.unfinished: list[Planned] = []  # of the newest generation: the search waits for them
        self._pending: list[optuna.Trial] = []  # the newest generation, as Optuna has it

    def advance(self, folder: Path, trials: int) -> list[Planned]:
        """Go on as far as the stored runs allow, and return the runs that must end before the
        search can go on: none where all trials have ended.
        """
        while True:
            newest = [run for trial in self.trials[len(self.scores) :] for run in trial.runs]
            ended = {run.id: how_it_ended(folder / run.id)[0] for run in newest}
            self.unfinished = [run for run in newest if ended[run.id] not in FINAL]
            if self.unfinished:
                return self.unfinished
            self._take_scores(folder, ended)
            left = self.budget(trials) - len(self.trials)
            if left <= 0:
                return []
            for values in self.grid or self._asked(min(GENERATION, left)):
                self.trials.append(self._trial(len(self.trials), values))

    def budget(self, trials: int) -> int:
        """How many trials there will be if a search is given so many; a grid has its own number."""
        return trials if self.grid is None else len(self.grid)

    def _asked(self, number: int) -> list[dict[str, Any]]:
        """Optuna's next generation; the very first trial is exactly as the experiment has it."""
        search = self._search
        distributions = {one.name: one.distribution() for one in self.dimensions}
        self._pending = [search.ask(distributions) for _ in range(number)]
        values = [
            {one.name: one.rounded(pending.params[one.name]) for one in self.dimensions}
            for pending in self._pending
        ]
        return (
            values
            if self.trials
            else [{one.name: one.first for one in self.dimensions}, *values[1:]]
        )

    def _take_scores(self, folder: Path, ended: Mapping[str, str]) -> None:
        """Take in the scores of the newest generation, in the order of its trials."""
        newest = self.trials[len(self.scores) :]
        for trial in newest:
            diverged = [run for run in trial.runs if ended[run.id] != "finished"]
            self.diverged += diverged
            if diverged:
                self.scores.append(WORST)
            else:
                accuracies = [accuracy(folder, run) for run in trial.runs]
                self.scores.append(sum(accuracies) / len(accuracies))
        if self.grid is None:
            for pending, trial in zip(self._pending, newest, strict=True):
                self._search.tell(pending, self.scores[trial.number])
        self._pending = []

    @property
    def best(self) -> int:
        """The number of the trial with the highest score; the earlier of equals, so that a default
        is kept.
        """
        return max(range(len(self.scores)), key=lambda number: self.scores[number])

    def _trial(self, number: int, values: dict[str, Any]) -> Trial:
        runs = []
        for first in self.first:
            method = registry.load(first.plugin)
            given = {**first.run.hparams, **values}
            tried = complete(registry.hparams_type(method), given, first.run.dataset, method.title)
            run = dataclasses.replace(first.run, hparams=stored(tried))
            runs.append(Planned(run.id, first.plugin, first.scenario, f"trial {number}", run))
        return Trial(number, values, tuple(runs))

    @cached_property
    def _search(self) -> "optuna.Study":
        """Its seed comes from the first trial's id: no other method, scenario or number of jobs is
        in it.
        """
        try:
            import optuna
        except ImportError as error:
            raise UserError(
                "tuning needs Optuna; get it with: pip install 'pflbench[tune]'"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        seed = seed_of("tune", stem_of(self.first[0].id)) % 2**32
        spread: dict[str, Any] = {"multivariate": True, "constant_liar": True}  # of a generation
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, **spread)
        search = optuna.create_study(direction="maximize", sampler=sampler)
        search.enqueue_trial({one.name: one.first for one in self.dimensions})
        return search


def accuracy(folder: Path, run: Planned) -> float:
    """Mean over clients of the accuracy on validation samples after the last round, at the method's
    point.
    """
    series = f"{registry.load(run.plugin).evaluation_point}_validation"
    try:
        last = verified(folder / run.id).rounds[-1]
    except Damaged as error:
        where = folder / run.id
        raise UserError(
            f"{where} is damaged: {error}; remove it, and the run is done again"
        ) from error
    known = [value for value in last.get("accuracy", {}).get(series, []) if value is not None]
    if not known:
        raise RunFailed(
            f"{folder / run.id} has no validation accuracy ({series}) in its last round"
        )
    return float(sum(known) / len(known))


def studies(
    name: str,
    table: Table,
    scale: str = "paper",
    seeds: Sequence[int] = (SEED,),
    asked: Sequence[str] = (search_space.RULE,),
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    grid: Grid | None = None,
    data_root: Path | None = None,
) -> list[Study]:
    """The searches of an experiment: every method that `only` and `exclude` leave, in every
    scenario that they leave. With a `grid`, all its values are tried and nothing else.
    """
    whole = experiment.make(name, table, data_root=data_root).runs
    experiment.check_only(whole, only)
    taken = {planned.run.seed for planned in whole}
    if shared := sorted(taken & {*seeds}):
        raise UserError(
            f"--seed {shared[0]} is a seed of experiment {name};"
            " methods must not be tested on the seed that they are tuned on"
        )
    cells: list[tuple[Table, Table, list[Planned]]] = []
    for block, variant in itertools.product(
        experiment.blocks(table, "scenarios"), experiment.blocks(table, "variants")
    ):
        here = {**table, "scenarios": [block], "variants": [variant], "seeds": [*seeds]}
        made = experiment.make(name, here, scale, data_root=data_root)
        runs = experiment.chosen(made.runs, only, exclude)
        for plugin in dict.fromkeys(run.plugin for run in runs):
            first = [_held_out(run) for run in runs if run.plugin == plugin]
            cells.append((block, variant, first))
    methods = {runs[0].run.algorithm: runs[0] for _, _, runs in cells}
    search_space.check_names(
        {registry.load(run.plugin) for run in methods.values()},
        [one for one in grid if "." not in one] if grid else asked,
        "--grid" if grid else "--tune",
    )
    for one in grid or ():
        _check_own(one, methods)
    found = [
        Study(block, variant, first, asked, _grid_of(grid, first[0]) if grid else None)
        for block, variant, first in cells
    ]
    _check(name, found)
    return found


def _grid_of(grid: Grid, planned: Planned) -> Grid:
    """What is tried of a method: `lr=...` as of all, `fedprox.lr=...` of FedProx instead."""
    own = {}
    for key, values in grid.items():
        method, _, name = key.rpartition(".")
        if method and plugins.called([planned], method):
            own[name] = values
    return {**{key: values for key, values in grid.items() if "." not in key}, **own}


def _check_own(key: str, methods: Mapping[str, Planned]) -> None:
    """Refuse `method.name` of a method that is not tuned, or that it does not have."""
    method, _, name = key.rpartition(".")
    if not method:
        return
    meant = plugins.called(methods.values(), method)
    if not meant:
        raise unknown("method in --grid", method, methods)
    for planned in methods.values():
        hparams = registry.hparams_type(registry.load(planned.plugin))
        known = [f.name for f in dataclasses.fields(hparams)]
        if planned.plugin in meant and name not in known:
            raise unknown(f"hyperparameter of {planned.run.algorithm}", name, known)


def _check(name: str, found: Sequence[Study]) -> None:
    """One variant at most, and a whole grid: all that the tuned experiment runs must have been
    tuned.
    """
    if not found:
        raise UserError("--only and --exclude leave no method in any scenario")
    if any(study.variant != found[0].variant for study in found):
        raise UserError(
            f"experiment {name} has several [[variants]];"
            " choose the one to tune: --only variant=LABEL"
        )
    scenarios: dict[str, list[str]] = {}
    for study in found:
        scenarios.setdefault(study.scenario, []).append(study.name)
    every = sorted({study.name for study in found})
    if any(sorted(methods) != every for methods in scenarios.values()):
        raise UserError(
            "--only and --exclude must leave the same methods in every scenario, and every scenario"
            " once"
        )


def _held_out(planned: Planned) -> Planned:
    """A planned run with validation samples, and without what only a report needs."""
    run: Run = planned.run
    kind, _, path = run.partition.partition(":")
    own = kind == "file" and "validation_0" in plain_arrays(path)
    run = dataclasses.replace(
        run, validation=run.validation or (0.0 if own else VALIDATION), representations=0
    )
    return dataclasses.replace(planned, id=run.id, run=run)


def frontier(folder: Path, found: Sequence[Study], trials: int) -> dict[str, Planned]:
    """The runs to do now, so that every study can go on: call it again when one of them has
    ended.
    """
    return {run.id: run for study in found for run in study.advance(folder, trials)}
