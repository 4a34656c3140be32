"""A report written to files: tables, figures and the page. From the same records come the same
bytes.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from pflbench.errors import UserError, unknown
from pflbench.records import run_folder
from pflbench.records.report_options import ReportOptions
from pflbench.records.verification import ENDED
from pflbench.report import manifest
from pflbench.report.figures.style import COLUMN, rendered
from pflbench.report.grouping import selection
from pflbench.report.load import runs
from pflbench.report.load.parallel import each
from pflbench.report.load.runs import Choice, Experiment
from pflbench.report.page.html import Picture, Sheet, render, small
from pflbench.report.render.parts import FigurePart, Section, TablePart
from pflbench.report.words import slug

KINDS: tuple[str, ...] = ("tables", "figures", "page")
FORMS = {
    ".tex": "tables",
    ".csv": "tables",
    ".md": "tables",
    ".pdf": "figures",
    ".png": "figures",
    ".html": "page",
}
METHODS = "methods"  # the section on the methods themselves; its files are next to the page
PAGE = "index.html"
RECORDS = ("run.json", "rounds.jsonl", "timing.jsonl", "status.json")  # of a run


@dataclass(frozen=True)
class Given:
    """Options of a report that do not come from its plans."""

    everywhere: Mapping[str, Any] = field(default_factory=dict)  # for all experiments
    files: Mapping[str, ReportOptions] = field(default_factory=dict)  # by experiment


@dataclass(frozen=True)
class Report:
    """What was read, and what was written."""

    experiments: tuple[Experiment, ...]  # those that were asked for
    written: tuple[Path, ...]
    removed: tuple[Path, ...]  # of an earlier report
    sections: tuple[Section, ...]  # without their figures

    @property
    def ended(self) -> tuple[int, int]:
        """How many of how many runs have ended."""
        runs = [run for experiment in self.experiments for run in experiment.runs]
        states = {run.planned.id: run.status for run in runs}
        return sum(state in ENDED for state in states.values()), len(states)


def report(
    folder: Path,
    out: Path,
    choice: Choice,
    names: Sequence[str] = (),
    only: Sequence[str] = (),
    margin: float = 0.01,
    given: Given | None = None,
) -> Report:
    """Read the records of a folder and write the report; `names` are experiments and `only` kinds
    of files, of KINDS; empty means all. `margin` is that of convergence, a fraction. `given` are
    options in place of those in the plans.
    """
    newest = max((changed for changed, _ in state(folder).values()), default=0) / 1e9
    everything = [_with(one, given or Given()) for one in runs.collect(folder, choice)]
    chosen = choose(everything, names)
    _check_names(chosen, (given or Given()).everywhere)
    wanted = only or KINDS
    sheets, written = [], []
    for experiment in chosen:
        section = make(experiment, everything, choice, wanted, margin)
        sheet, files = _write(section, experiment, out, wanted)
        sheets.append(sheet)
        written += files
    if {"tables", "page"} & {*wanted}:
        section = about_methods(chosen)
        written += put(out, table_files(section.tables) if "tables" in wanted else {})
        sheets.append(Sheet(section))
    if "page" in wanted:
        page = render(sheets, folder.resolve().name, choice, newest)
        written += put(out, {PAGE: page.encode()})
    removed = manifest.replace(out, written, partial(covers, names=names, wanted=wanted))
    sections = tuple(sheet.section for sheet in sheets)
    return Report(tuple(chosen), tuple(written), tuple(removed), sections)


def _with(experiment: Experiment, given: Given) -> Experiment:
    """An experiment whose plan has the options that hold for this report."""
    plan = experiment.plan
    looks = given.files.get(plan.name, plan.report)
    looks = looks.with_(given.everywhere, "the options of the report")
    return dataclasses.replace(experiment, plan=dataclasses.replace(plan, report=looks))


def _check_names(experiments: Sequence[Experiment], given: Mapping[str, Any]) -> None:
    """Whether a run has what options name: a mistake would go unnoticed."""
    found = [run for experiment in experiments for run in experiment.runs]
    called = {run.planned.config["algorithm"]: selection.method_names(run) for run in found}
    drawn = given.get("figures", {}).get("methods", ())
    for name in [given.get("proposed", ""), *given.get("methods", ()), *drawn]:
        if name and not any(selection.is_called(name, names) for names in called.values()):
            raise unknown("method of this folder", name, called)
    scenarios = {run.planned.scenario: [run] for run in found}
    for name in given.get("scenarios", ()):
        if not selection.matching(scenarios, name):
            raise unknown("scenario of this folder", name, scenarios)


def _write(
    section: Section, experiment: Experiment, out: Path, wanted: Sequence[str]
) -> tuple[Sheet, list[Path]]:
    """The files of an experiment; what of it goes into the page, and which files there are."""
    place = out / _folder_name(section.name)
    written = put(place, table_files(section.tables) if "tables" in wanted else {})
    drawn = each(partial(draw, wanted=wanted), section.figures, few=3)
    for files, _ in drawn:
        written += put(place, files)
    pictures = tuple(picture for _, picture in drawn if picture)
    return Sheet(dataclasses.replace(section, figures=()), pictures, experiment), written


def covers(file: PurePosixPath, names: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a report of these experiments and kinds of files is in the place of an earlier one's
    file.
    """
    asked = not names or len(file.parts) == 1 or file.parts[0] in names
    return asked and FORMS.get(file.suffix) in wanted


def choose(experiments: Sequence[Experiment], names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names; all, if there are none."""
    known = {experiment.plan.name: experiment for experiment in experiments}
    for name in names:
        if name not in known:
            raise unknown("experiment of this folder", name, known)
    return [experiment for name, experiment in known.items() if not names or name in names]


def make(
    experiment: Experiment,
    everything: Sequence[Experiment],
    choice: Choice,
    wanted: Sequence[str],
    margin: float,
) -> Section:
    """Tables and figures of an experiment, with notes; what nobody wants is not made."""
    from pflbench.report.figures.kinds import figures
    from pflbench.report.tables.all_tables import tables

    page = "page" in wanted
    made: list[TablePart] = []
    drawn: list[FigurePart] = []
    notes: list[str] = []
    if page or "tables" in wanted:
        made, notes = tables(experiment, everything, choice, margin)
    if page or "figures" in wanted:
        drawn, more = figures(experiment, choice)
        notes = [*notes, *more]
    said = tuple(dict.fromkeys(notes))
    return Section(experiment.plan.name, experiment.plan.title, said, tuple(made), tuple(drawn))


def about_methods(experiments: Sequence[Experiment]) -> Section:
    """What the methods are, from the records of their runs."""
    from pflbench.report.tables.methods import method_tables

    runs = [run for experiment in experiments for run in experiment.runs]
    return Section(METHODS, "The methods", (), tuple(method_tables(runs)))


def table_files(tables: Sequence[TablePart]) -> dict[str, bytes]:
    """Content by name of the file, in every form that a table has."""
    found: dict[str, bytes] = {}
    for table in tables:
        forms = {
            ".tex": table.latex,
            "-page.tex": table.document,
            ".csv": table.csv,
            ".md": table.markdown,
        }
        name = slug(table.name)
        found |= {f"{name}{ending}": text.encode() for ending, text in forms.items() if text}
    return found


def draw(part: FigurePart, wanted: Sequence[str]) -> tuple[dict[str, bytes], Picture | None]:
    """Content by name of the file, and the picture of the page; what nobody wants is not made."""
    png, pdf = rendered(part.figure, "png"), rendered(part.figure, "pdf")
    files, picture = {}, None
    if "figures" in wanted:
        files = {f"{part.name}.png": png, f"{part.name}.pdf": pdf}
    if "page" in wanted:
        narrow = rendered(part.make(COLUMN), "png") if part.width > COLUMN else b""
        images = small(png), small(narrow) if narrow else b""
        picture = Picture(part.name, part.title, part.caption, part.width, *images, pdf)
    return files, picture


def put(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files, each as a whole."""
    if not files:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise run_folder.unwritable(folder, error) from error
    for name, content in files.items():
        run_folder.write(folder / name, content)
    return [folder / name for name in files]


def state(folder: Path) -> dict[Path, tuple[int, int]]:
    """Time (in nanoseconds) and size of every record of a folder: another state needs another
    report. Of a lease it only matters that it is there: its owner touches it all the time.
    """
    found = dict.fromkeys(folder.glob("leases/[!.]*"), (0, 0))
    for path in _records(folder):
        with contextlib.suppress(FileNotFoundError):  # a run that starts again removes its records
            about = path.stat()
            found[path] = about.st_mtime_ns, about.st_size
    return found


def _records(folder: Path) -> Iterator[Path]:
    yield from folder.glob("plans/*.json")
    for name in RECORDS:
        yield from folder.glob(f"*/{name}")
        yield folder / name


def _folder_name(experiment: str) -> str:
    if experiment in ("", ".", "..") or "/" in experiment or "\\" in experiment:
        raise UserError(
            f"the experiment {experiment!r} cannot name a folder; rename its file in plans/"
        )
    return experiment
