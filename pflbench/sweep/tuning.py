"""Tuning: for every method in every setting the same number of trials, scored on validation samples only.

A trial is an ordinary run (one for every tuning seed), done and stored like those of a sweep. Nothing else is stored:
a search is begun anew every time, asks again what it asked before, and is told the scores of the stored runs. It asks
for a generation of trials at a time and is told their scores in order, so that what it asks depends neither on how many
runs are done at once nor on where it was broken off.
"""

import csv
import dataclasses
import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflbench import config
from pflbench.data.npz import plain_arrays
from pflbench.errors import RunFailed, UserError
from pflbench.methods import registry
from pflbench.records import run_folder, toml_text
from pflbench.records.leases import FINAL, Leases
from pflbench.records.plan import Planned
from pflbench.rng import seed_of
from pflbench.sweep import experiment, search_space
from pflbench.sweep.experiment import Table
from pflbench.sweep.search_space import Dimension

if TYPE_CHECKING:
    import optuna

Grid = Mapping[str, Sequence[Any]]  # values to try of hyperparameters

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
    """The search of one method in one setting; `block` and `variant` are its place in the experiment's table."""

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
        self.name = registry.name_of(self.method)
        self.setting = first[0].setting
        run = config.read(first[0].config)
        self.dimensions: tuple[Dimension, ...]
        self.dimensions = (
            search_space.grid(self.method, run, grid)
            if grid
            else search_space.dimensions(self.method, run, asked)
        )
        self.grid = search_space.points(self.dimensions) if grid else None
        self.trials: list[Trial] = []
        self.scores: list[float] = []  # of the trials that have ended
        self.diverged: list[Planned] = []
        self.unfinished: list[
            Planned
        ] = []  # runs of the newest generation that the search waits for
        self._pending: list[optuna.Trial] = []  # the newest generation, as Optuna has it

    def advance(self, folder: Path, trials: int) -> list[Planned]:
        """Go on as far as the stored runs allow, and say which runs must end before the search can go on: none where
        all trials have ended.
        """
        ledger = Leases(folder)
        while True:
            newest = [run for trial in self.trials[len(self.scores) :] for run in trial.runs]
            ended = {run.id: str(ledger.status(run.id).get("status")) for run in newest}
            self.unfinished = [run for run in newest if ended[run.id] not in FINAL]
            if self.unfinished:
                return self.unfinished
            self._tell(folder, ended)
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

    def _tell(self, folder: Path, ended: Mapping[str, str]) -> None:
        """Take in the scores of the newest generation, in the order of its trials."""
        newest = self.trials[len(self.scores) :]
        for trial in newest:
            lost = [run for run in trial.runs if ended[run.id] != "finished"]
            scores = [accuracy(folder, run) for run in trial.runs if run not in lost]
            score = WORST if lost else sum(scores) / len(scores)
            self.diverged += lost
            self.scores.append(score)
        for pending, trial in zip(
            self._pending, newest, strict=self.grid is None
        ):  # a grid waits for no score
            self._search.tell(pending, self.scores[trial.number])
        self._pending = []

    @property
    def best(self) -> int:
        """The number of the trial with the highest score; the earlier of equals, so that a default is kept."""
        return max(range(len(self.scores)), key=lambda number: self.scores[number])

    def _trial(self, number: int, values: dict[str, Any]) -> Trial:
        runs = []
        for planned in self.first:
            first = config.read(planned.config)
            run = dataclasses.replace(first, hparams={**first.hparams, **values})
            runs.append(
                Planned(
                    run.id, planned.plugin, planned.setting, f"trial {number}", config.as_json(run)
                )
            )
        return Trial(number, values, tuple(runs))

    @cached_property
    def _search(self) -> "optuna.Study":
        """The seed is that of the first trial's name: no other method, setting or number of jobs is in it."""
        try:
            import optuna
        except ImportError as error:
            raise UserError(
                "tuning needs Optuna; get it with: pip install 'pflbench[tune]'"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        seed = seed_of("tune", self.first[0].id) % 2**32
        options: dict[str, Any] = {
            "multivariate": True,
            "constant_liar": True,
        }  # a generation spreads out
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, **options)
        search = optuna.create_study(direction="maximize", sampler=sampler)
        search.enqueue_trial({one.name: one.first for one in self.dimensions})
        return search


def accuracy(folder: Path, run: Planned) -> float:
    """Mean over clients of the accuracy on validation samples after the last round, at the method's point."""
    series = f"{registry.load(run.plugin).evaluation_point}_validation"
    last = run_folder.rounds(folder / run.id)[-1]
    known = [value for value in last["accuracy"].get(series, []) if value is not None]
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
    grid: Grid | None = None,
) -> list[Study]:
    """The searches of an experiment: every method that `only` leaves, in every setting that it leaves. With a `grid`,
    all its values are tried and nothing else.
    """
    taken = {run.config["seed"] for run in experiment.make(name, table).runs}
    if shared := sorted(taken & {*seeds}):
        raise UserError(
            f"--seed {shared[0]} is a seed of experiment {name}; what is tuned on it cannot be tested on it"
        )
    places: list[tuple[Table, Table, list[Planned]]] = []
    for block, variant in itertools.product(
        experiment.blocks(table, "settings"), experiment.blocks(table, "variants")
    ):
        here = {**table, "settings": [block], "variants": [variant], "seeds": [*seeds]}
        runs = experiment.chosen(experiment.make(name, here, scale).runs, only, [])
        for plugin in dict.fromkeys(run.plugin for run in runs):
            places.append(
                (block, variant, [_held_out(run) for run in runs if run.plugin == plugin])
            )
    search_space.check_names(
        {registry.load(runs[0].plugin) for _, _, runs in places},
        grid or asked,
        "--grid" if grid else "--tune",
    )
    found = [Study(*place, asked, grid) for place in places]
    _check(name, found)
    return found


def _check(name: str, found: Sequence[Study]) -> None:
    """One variant at most, and a whole grid: all that the tuned experiment runs must have been tuned."""
    if not found:
        raise UserError("no method and setting is left by --only")
    if any(study.variant != found[0].variant for study in found):
        raise UserError(
            f"experiment {name} has several [[variants]]; choose the one to tune: --only variant=LABEL"
        )
    settings: dict[str, list[str]] = {}
    for study in found:
        settings.setdefault(study.setting, []).append(study.name)
    if any(
        sorted(methods) != sorted({study.name for study in found}) for methods in settings.values()
    ):
        raise UserError(
            "--only must leave the same methods in every setting, and every setting once"
        )


def _held_out(planned: Planned) -> Planned:
    """A planned run with validation samples, and without what only a report needs."""
    run = config.read(planned.config)
    kind, _, path = run.partition.partition(":")
    own = kind == "file" and "validation_0" in plain_arrays(path)
    run = dataclasses.replace(
        run, validation=run.validation or (0.0 if own else VALIDATION), representations=0
    )
    return dataclasses.replace(planned, id=run.id, config=config.as_json(run))


def frontier(folder: Path, found: Sequence[Study], trials: int) -> dict[str, Planned]:
    """The runs to do now, so that every study can go on: call it again when one of them has ended."""
    return {run.id: run for study in found for run in study.advance(folder, trials)}


def tuned(table: Table, found: Sequence[Study]) -> Table:
    """The experiment with the best values of every method in every setting, as its one variant."""
    names = {registry.plain(study.name) for study in found}
    blocks: list[Table] = []
    for setting in dict.fromkeys(study.setting for study in found):
        here = [study for study in found if study.setting == setting]
        blocks.append({**here[0].block, "methods": {study.name: _best(study) for study in here}})
    variant = {key: value for key, value in found[0].variant.items() if key != "methods"}
    new = {
        **table,
        "title": f"{table.get('title', 'methods')}, tuned",
        "algorithms": list(dict.fromkeys(study.first[0].plugin for study in found)),
        "settings": blocks,
        "variants": [{**variant, "label": "tuned"}],
    }
    if "methods" in table:
        new["methods"] = {
            name: own for name, own in table["methods"].items() if registry.plain(name) in names
        }
    return new


def _best(study: Study) -> Table:
    """What is different for a method in a setting: what the block and the variant say, and the best values."""
    merged: Table = {}
    best = {"hparams": study.trials[study.best].values}
    layers = [
        own for layer in (study.block, study.variant) for own in layer.get("methods", {}).items()
    ]
    for own in [
        *(values for name, values in layers if registry.plain(name) == registry.plain(study.name)),
        best,
    ]:
        merged = {
            **merged,
            **own,
            "hparams": {**merged.get("hparams", {}), **own.get("hparams", {})},
        }
    return merged


def rows(found: Sequence[Study]) -> list[dict[str, Any]]:
    """A row for every study; accuracies as fractions, None where there is none."""
    return [
        {
            "method": study.method.title,
            "setting": study.setting,
            "trials": len(study.scores),
            "diverged": len(
                {run.variant for run in study.diverged}
            ),  # trials, whatever the number of seeds
            "default": study.scores[0] if study.scores else None,
            "best": study.scores[study.best] if study.scores else None,
            "trial": study.best if study.scores else None,
            "values": study.trials[study.best].values if study.scores else {},
        }
        for study in found
    ]


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row for a person: accuracies in percent."""
    shown = {**row, "values": " ".join(f"{name}={value}" for name, value in row["values"].items())}
    shown |= {
        name: f"{100 * row[name]:.2f}" for name in ("default", "best") if row[name] is not None
    }
    return ["" if value is None else str(value) for value in shown.values()]


def write(folder: Path, table: Table, found: Sequence[Study]) -> list[Path]:
    """`tuning.md` and `tuning.csv`; `tuned.toml` too if every study has all its trials."""
    made = rows(found)
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(made[0])
    lines.writerows([*list(row.values())[:-1], cells(row)[-1]] for row in made)
    grid = [[*made[0]], ["---"] * len(made[0]), *map(cells, made)]
    page = "\n".join("| " + " | ".join(line) + " |" for line in grid)
    files = {"tuning.csv": text.getvalue(), "tuning.md": f"{caption(found)}\n\n{page}\n"}
    if not any(study.unfinished for study in found):
        files["tuned.toml"] = toml_text.dumps(tuned(table, found))
    for name, content in files.items():
        run_folder.write(folder / name, content.encode())
    return [folder / name for name in files]


def caption(found: Sequence[Study]) -> str:
    """What the numbers mean."""
    seeds = " ".join(str(run.config["seed"]) for run in found[0].first)
    return (
        "Accuracy in % on validation samples, which are held out of every client's training samples: the mean over"
        f" clients after the last round, each method at its point, tuning seed {seeds}. default: the first trial, with"
        " the experiment's own values. best: the highest of all trials, so it is optimistic. A trial that diverged"
        " counts as 0."
    )
