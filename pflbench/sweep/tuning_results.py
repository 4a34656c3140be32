"""What tuning found: a table of all searches, and the experiment with the best values."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from pflbench.methods.files import plain
from pflbench.records import run_folder
from pflbench.sweep import plugins
from pflbench.sweep.experiment import Table
from pflbench.sweep.tuning import Study


def write(folder: Path, table: Table, found: Sequence[Study]) -> list[Path]:
    """`tuning.md`, `tuning.csv` and `trials.csv`; `tuned.toml` too if every study has all its
    trials.
    """
    made = rows(found)
    page = [caption(found), _markdown(made), *filter(None, [at_an_end(found)])]
    files = {"tuning.csv": _csv(made), "tuning.md": "\n\n".join(page) + "\n"}
    if ended := trials(found):
        files["trials.csv"] = _csv(ended)
    if not any(study.unfinished for study in found):
        best = plugins.for_file(tuned(table, found), folder / "tuned.toml")
        files["tuned.toml"] = tomli_w.dumps(best)
    for name, content in files.items():
        run_folder.write(folder / name, content.encode())
    return [folder / name for name in files]


def tuned(table: Table, found: Sequence[Study]) -> Table:
    """The experiment with the best values of every method in every scenario, as its one variant."""
    names = {plain(study.name) for study in found}
    blocks: list[Table] = []
    for scenario in dict.fromkeys(study.scenario for study in found):
        here = [study for study in found if study.scenario == scenario]
        blocks.append({**here[0].block, "methods": {study.name: _best(study) for study in here}})
    variant = {key: value for key, value in found[0].variant.items() if key != "methods"}
    new = {
        **table,
        "title": f"{table.get('title', 'methods')}, tuned",
        "algorithms": list(dict.fromkeys(study.first[0].plugin for study in found)),
        "scenarios": blocks,
        "variants": [{**variant, "label": "tuned"}],
    }
    if "methods" in table:
        new["methods"] = {
            name: own for name, own in table["methods"].items() if plain(name) in names
        }
    return new


def rows(found: Sequence[Study]) -> list[dict[str, Any]]:
    """A row for every study; accuracies as fractions, None where there is none."""
    return [
        {
            "method": study.method.title,
            "scenario": study.scenario,
            "trials": len(study.scores),
            "diverged": len({run.variant for run in study.diverged}),  # trials, not seeds
            "default": study.scores[0] if study.scores else None,
            "best": study.scores[study.best] if study.scores else None,
            "trial": study.best if study.scores else None,
            "values": study.trials[study.best].values if study.scores else {},
        }
        for study in found
    ]


def trials(found: Sequence[Study]) -> list[dict[str, Any]]:
    """A row for every trial that has ended; accuracies as fractions."""
    return [
        {
            "method": study.method.title,
            "scenario": study.scenario,
            "trial": number,
            "accuracy": score,
            "values": trial.values,
        }
        for study in found
        for number, (trial, score) in enumerate(zip(study.trials, study.scores, strict=False))
    ]


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row for a person: accuracies in percent."""
    shown = {**row, "values": _listed(row["values"])}
    for name in ("default", "best"):
        if row[name] is not None:
            shown[name] = f"{100 * row[name]:.2f}"
    return ["" if value is None else str(value) for value in shown.values()]


def caption(found: Sequence[Study]) -> str:
    """What the numbers mean."""
    seeds = " ".join(str(planned.run.seed) for planned in found[0].first)
    return (
        "Accuracy in % on validation samples, which are held out of every client's training"
        " samples: the mean over clients after the last round, each method at its evaluation"
        f" point, tuning seed {seeds}. default: the first trial, with the experiment's own values."
        " best: the highest of all trials, so it is optimistic. A trial that diverged counts as 0."
    )


def at_an_end(found: Sequence[Study]) -> str:
    """Of grids: the best values that are the largest or the smallest of those tried, and whose they
    are. "" if there are none.
    """
    methods: dict[str, list[str]] = {}
    for study in found:
        if study.grid is None or not study.scores:
            continue
        for name, best in study.trials[study.best].values.items():
            tried = {
                value for value in (trial.values[name] for trial in study.trials) if _number(value)
            }
            if len(tried) == 1 or not _number(best):
                continue
            for end, value in (("largest", max(tried)), ("smallest", min(tried))):
                if best == value:
                    what = f"{name}={best}, the {end} tried"
                    methods.setdefault(what, []).append(study.method.title)
    if not methods:
        return ""
    listed = [f"{what} ({', '.join(dict.fromkeys(whose))})" for what, whose in methods.items()]
    return f"At an end of the grid, where values beyond may be better: {'; '.join(listed)}."


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _best(study: Study) -> Table:
    """What is different for a method in a scenario: what the scenario and the variant say, and the
    best values.
    """
    merged: Table = {"hparams": {}}
    for layer in (study.block, study.variant):
        for name, own in layer.get("methods", {}).items():
            if plain(name) == plain(study.name):
                hparams = {**merged["hparams"], **own.get("hparams", {})}
                merged = {**merged, **own, "hparams": hparams}
    merged["hparams"] = {**merged["hparams"], **study.trials[study.best].values}
    return merged


def _csv(made: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(made[0])
    for row in made:
        lines.writerow({**row, "values": _listed(row["values"])}.values())
    return text.getvalue()


def _listed(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _markdown(made: Sequence[Mapping[str, Any]]) -> str:
    lines = [[*made[0]], ["---"] * len(made[0]), *map(cells, made)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
