"""What `sweep` and `tune` are asked for: experiments from files and options, each with the command
that makes it.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pflbench.cli import options
from pflbench.errors import UserError

if TYPE_CHECKING:
    from pflbench.sweep.asked import Asked
    from pflbench.sweep.experiment import Table

DIGITS = 18  # of a seed, at most


def experiments(
    ctx: typer.Context, files: Sequence[str], also: Iterable[str] = ()
) -> "list[Asked]":
    """The experiments of these names or files, in which options override the file; without one, the
    experiment that the options make. Options `also` are part of the command.
    """
    from pflbench.sweep import experiment
    from pflbench.sweep.asked import Asked

    given = _table(ctx)
    own = _own_name(ctx, files)
    if not files:
        return [_without_file(ctx, given, own, also)]
    stems = [own or Path(file).stem for file in files]
    if len({*stems}) < len(stems):
        raise UserError(f"two experiments have the same name: {', '.join(files)}; rename one file")
    return [
        Asked(
            stem,
            experiment.overridden(experiment.read(file), given),
            _command(ctx, [file], also),
        )
        for stem, file in zip(stems, files, strict=True)
    ]


def _own_name(ctx: typer.Context, files: Sequence[str]) -> str | None:
    """What --name says, which becomes the name of a file."""
    name: str | None = ctx.params["name"]
    if len(files) > 1 and (name or ctx.params["title"]):
        raise UserError("--name and --title need a single experiment; run several one by one")
    if name is not None and not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(f"--name {name}: must be letters, digits, '.', '_' and '-'")
    return name


def _without_file(
    ctx: typer.Context, table: "Table", name: str | None, also: Iterable[str]
) -> "Asked":
    from pflbench.sweep.asked import without_file

    if "algorithms" not in table:
        raise UserError(
            "name an experiment, or --algorithms for a grid;"
            " 'pflbench experiments' lists those that exist"
        )
    return without_file(table, name, _command(ctx, [], also), ctx.params.get("data_root"))


def _command(ctx: typer.Context, files: Sequence[str], also: Iterable[str]) -> str:
    """The options that say what the experiment is, as a command."""
    words = ["pflbench", str(ctx.info_name), *files]
    for param in ctx.command.params:
        if param.name not in (*options.EXPERIMENT, "scale", *also):
            continue
        value = ctx.params[param.name]
        if value is True or value is False:
            words += (param.opts if value else param.secondary_opts)[:1]
        elif value is not None and value != param.default:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [param.opts[0], str(one)]
    return shlex.join(words)


def _table(ctx: typer.Context) -> "Table":
    """The options as keys of an experiment."""
    from pflbench.sweep import experiment

    table = options.settings_of(ctx)
    if ctx.params["title"]:
        table["title"] = ctx.params["title"]
    lists = {}
    for name in ("algorithms", "datasets", "partitions", "seeds"):
        if ctx.params[name]:
            lists[name] = experiment.listed(",".join(ctx.params[name]))
    if "algorithms" in lists:
        table["algorithms"] = lists["algorithms"]
    if "seeds" in lists:
        table["seeds"] = _seeds(lists["seeds"])
    data = {"dataset": "datasets", "partition": "partitions"}
    scenario = {key: lists[name] for key, name in data.items() if name in lists}
    if scenario:
        table["scenarios"] = [scenario]
    for pair in ctx.params["hparams"] or []:
        _add_hyperparameter(table, pair)
    return table


def _add_hyperparameter(table: dict[str, Any], pair: str) -> None:
    name, equals, value = pair.partition("=")
    if not equals:
        raise UserError(
            f"--set {pair}: must be NAME=VALUE or METHOD.NAME=VALUE, as in --set fedprox.mu=0.1"
        )
    method, _, name = name.strip().rpartition(".")
    where = table.setdefault("methods", {}).setdefault(method, {}) if method else table
    where.setdefault("hparams", {})[name] = value.strip()


def _seeds(texts: list[str]) -> int | list[int]:
    if not all(text.isdecimal() and len(text) <= DIGITS for text in texts):
        raise UserError(
            f"--seeds {','.join(texts)}: must be a number of seeds, or a list, e.g. 0,1,2"
        )
    return int(texts[0]) if len(texts) == 1 else [int(text) for text in texts]
