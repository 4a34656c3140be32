"""`pflbench report`: records to tables, figures and a page."""

import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pflbench.cli import console, options, options_of_report
from pflbench.errors import UserError
from pflbench.output import plural

if TYPE_CHECKING:
    from pflbench.records.report_options import ReportOptions
    from pflbench.report.build import Report

SECONDS_BETWEEN_LOOKS = 3.0
TITLED = ("methods", "datasets", "partitions", "scenarios")


def report(
    ctx: typer.Context,
    folder: options.Records,
    out: options_of_report.ReportFolder = None,
    experiment: options_of_report.ReportedExperiments = None,
    only: options_of_report.OnlyFiles = None,
    proposed: options_of_report.Proposed = None,
    methods: options_of_report.ShownMethods = None,
    scenario: options_of_report.ShownScenarios = None,
    rename: options_of_report.Renamed = None,
    style: options_of_report.TableStyle = None,
    rows: options_of_report.TableRows = None,
    marks: options_of_report.TableMarks = None,
    caption: options_of_report.Caption = None,
    label: options_of_report.Label = None,
    decimals: options_of_report.Decimals = None,
    std: options_of_report.Std = None,
    published: options_of_report.PublishedNumbers = None,
    figure_methods: options_of_report.FigureMethods = None,
    figure_size: options_of_report.FigureSize = None,
    template: options_of_report.Template = None,
    options_file: options_of_report.ReportFile = None,
    round: options_of_report.ChosenRound = "last",
    point: options_of_report.Point = None,
    weighted: options_of_report.Weighted = False,
    margin: options_of_report.Margin = 1.0,
    watch: options_of_report.Watch = False,
    as_json: options.Json = False,
) -> None:
    """Write tables, figures and a page for all runs in a folder. Tables are LaTeX, CSV and Markdown,
    figures PDF and PNG.
    """
    from pflbench.interface import reports

    choice = reports.chosen(round, point, weighted, only or [], "--")
    if watch and as_json:
        raise UserError("--watch cannot be used together with --json")
    if watch and folder.is_file():
        raise UserError(f"--watch: {folder} is an archive, whose records do not change")
    from pflbench.records import archive
    from pflbench.report import build, summary

    looks = build.Given(_options(ctx.params), _from_files(options_file or []))

    records = ctx.with_resource(archive.opened(folder))
    place = out or archive.stem(folder) / "report"

    def once() -> "Report":
        parts = experiment or [], only or []
        return build.report(records, place, choice, *parts, margin / 100, looks)

    made = _watch(folder, once) if watch else once()
    table = summary.grouped([run for one in made.experiments for run in one.runs], weighted)
    if as_json:
        files = {"written": made.written, "removed": made.removed}
        paths = {name: [str(path) for path in paths] for name, paths in files.items()}
        console.dump({"rows": table, **paths})
        return
    if table:
        console.table(*summary.columns(table))
        print(textwrap.fill(summary.caption(choice), 110))
    _tell(made)


def _options(params: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a report as keys of its table in an experiment."""
    found: dict[str, Any] = {
        name: params[name]
        for name in ("proposed", "style", "caption", "label", "decimals", "std")
        if params[name] is not None
    }
    lists = {"scenarios": params["scenario"], "published": params["published"]}
    lists["methods"] = _listed(params["methods"] or [])
    found |= {name: values for name, values in lists.items() if values}
    for name in ("rows", "marks"):
        if params[name] is not None:
            found[name] = [word for word in _listed([params[name]]) if word != "none"]
    if titles := dict(_titled(pair) for pair in params["rename"] or []):
        found["titles"] = dict.fromkeys(TITLED, titles)
    names = {"methods": "figure_methods", "size": "figure_size", "template": "template"}
    figures = {key: params[name] for key, name in names.items() if params[name]}
    if "methods" in figures:
        figures["methods"] = _listed(figures["methods"])
    return {**found, "figures": figures} if figures else found


def _listed(texts: list[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _titled(pair: str) -> tuple[str, str]:
    name, equals, title = pair.partition("=")
    if not equals or not title:
        raise UserError(f"--rename {pair}: must be NAME=TITLE, as in --rename fedavg=FedAvg")
    return name.strip(), title.strip()


def _from_files(paths: list[Path]) -> "dict[str, ReportOptions]":
    """What experiment files say of their reports, by the name of the experiment at every scale."""
    from pflbench.records import report_options
    from pflbench.sweep import experiment

    found: dict[str, ReportOptions] = {}
    for path in paths:
        looks = report_options.of_experiment(path.stem, experiment.read(str(path)))
        scales = [name for name in experiment.scales() if name != "paper"]
        names = [path.stem, *(f"{path.stem}-{scale}" for scale in scales)]
        found |= dict.fromkeys(names, looks)
    return found


def _watch(folder: Path, once: "Callable[[], Report]") -> "Report":
    """Write the report whenever records have changed, until all runs have ended or Ctrl-C."""
    from pflbench.report.build import state

    before = state(folder)
    made = once()
    try:
        while True:
            ended, number = made.ended
            print(
                f"{ended} of {number} runs have ended; {len(made.written)} files are written",
                flush=True,
            )
            if ended == number:
                break
            while (now := state(folder)) == before:
                time.sleep(SECONDS_BETWEEN_LOOKS)
            before = now
            made = once()
    except KeyboardInterrupt:
        print("stopped; the files written so far are kept")
    return made


def _tell(made: "Report") -> None:
    """What was written; for every experiment, which runs are not finished; for every method, which
    are outdated.
    """
    from pflbench.records.status import OUTDATED, outdated_methods

    for experiment in made.experiments:
        states = {
            run.planned.id: OUTDATED if run.outdated else run.status for run in experiment.runs
        }
        rest = [state for state in states.values() if state != "finished"]
        if rest:
            counts = ", ".join(f"{rest.count(state)} {state}" for state in dict.fromkeys(rest))
            print(f"{experiment.plan.name}: {plural(len(states), 'run')}, of them {counts}")
    for line in outdated_methods(run for one in made.experiments for run in one.runs):
        print(f"outdated: {line}; sweep runs them again")
    folders: dict[Path, dict[str, None]] = {}
    for path in made.written:
        name = path.name if path.suffix == ".html" else path.stem.removesuffix("-page")
        folders.setdefault(path.parent, {})[name] = None
    for folder, names in folders.items():
        print(f"written to {folder}: {', '.join(names)}")
    if made.removed:
        print(
            f"removed {len(made.removed)} files of an earlier report that are no longer part of it"
        )
