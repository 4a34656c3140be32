"""All runs of a folder as one table: printed, as CSV and as Markdown."""

import csv
import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pflbench import records
from pflbench.errors import UserError
from pflbench.report.result import Result

CAPTION = (
    "Accuracy in %, the mean over clients in the last round, +/- the standard deviation over clients (of several seeds:"
    " the mean of both), at each method's point: pre is the model that a client has after the server's newest message,"
    " post the one right after its local training. A run that is not done shows the last round that it reached."
    " MB: sent and received, for a client and a round. Seconds: of a round, with evaluation."
)

Row = dict[str, Any]


def results(folder: Path, point: str | None = None) -> list[Result]:
    """The runs in a folder, whatever became of them; one that cannot be read is warned of."""
    found = []
    for path in [folder / "run.json", *sorted(folder.glob("*/run.json"))]:
        if path.exists():
            try:
                result = Result(path.parent, point)
                result.config, result.point, result.about["data"], result.about["partition"]
                found.append(result)
            except (UserError, KeyError, TypeError) as error:
                warnings.warn(f"left out: {path} is not the description of a run ({error})", stacklevel=2)
    if not found:
        raise UserError(f"no runs in {folder}: none of its folders has a run.json")
    return found


def row(result: Result) -> Row:
    """A run's numbers of its last round; accuracies as fractions."""
    lines = records.rounds(result.folder)
    sent = [
        sum(sum(parts.values()) for parts in line["bytes"].values()) / len(line["cohort"]) / 1e6
        for line in lines
        if line.get("cohort")
    ]
    seconds = [line["wall"] for line in records.rounds(result.folder, "timing.jsonl") if "wall" in line]
    return {
        "id": result.about["id"],
        "folder": str(result.folder),
        "algorithm": result.config["algorithm"],
        "method": result.about["method"]["title"],
        "data": result.about["data"]["title"],
        "partition": result.config["partition"],
        "clients": result.config["clients"],
        "seed": result.config["seed"],
        "status": status(result),
        "reason": records.read_json(result.folder / "status.json").get("reason", ""),
        "round": lines[-1]["round"] if lines else 0,
        "rounds": result.config["rounds"],
        "point": result.point,
        "accuracy": result.accuracy,
        "std": result.std,
        "megabytes": _mean(sent),
        "seconds": _mean(seconds),
    }


def status(result: Result) -> str:
    """done, diverged, failed, stopped, or unfinished: whether it still runs cannot be seen."""
    return "unfinished" if result.status == "running" else result.status


def line(row: Row) -> str:
    """A run's result in one line."""
    score = f"{_percent(row['accuracy'])} % +/- {_percent(row['std'])} over {row['clients']} clients"
    what = f"{row['method']} on {row['data']}, {row['partition']}: {score}"
    return f"{what} ({row['point']}, round {row['round']}); {row['folder']}"


def groups(found: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Finished runs that differ in their seed only, and others one by one; with the settings that set them apart."""
    together: dict[str, list[Result]] = {}
    for result in found:
        ended = None if status(result) == "done" else str(result.folder)
        same = {**result.config, "seed": None, "data": result.about["data"], "ended": ended}
        together.setdefault(json.dumps(same, sort_keys=True), []).append(result)
    return [(_apart(members[0], found), members) for members in together.values()]


def grouped(found: Sequence[Result]) -> list[Row]:
    """A row for every group: numbers are means over seeds; by data, partition and accuracy."""
    rows = []
    for settings, members in groups(found):
        each = [row(member) for member in members]
        mean = {name: _mean([r[name] for r in each]) for name in ("accuracy", "std", "megabytes", "seconds")}
        one = {name: each[0][name] for name in ("method", "data", "partition", "point", "rounds", "status")}
        spread = float(np.std([r["accuracy"] for r in each], ddof=1)) if len(each) > 1 else float("nan")
        ended = {"seeds": sorted(r["seed"] for r in each), "round": each[0]["round"], "reason": each[0]["reason"]}
        rows.append({**one, "settings": settings, **ended, **mean, "seeds_std": spread})
    return sorted(rows, key=lambda r: (r["data"], r["partition"], not r["accuracy"] >= 0, -r["accuracy"]))


def columns(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headers and cells for a person; a column that says nothing is left out."""
    table = [
        {
            "method": r["method"],
            "settings": r["settings"],
            "data": r["data"],
            "partition": r["partition"],
            "seeds": ",".join(map(str, r["seeds"])),
            "accuracy": f"{_percent(r['accuracy'])} +/- {_percent(r['std'])}",
            "std over seeds": "" if r["seeds_std"] != r["seeds_std"] else _percent(r["seeds_std"]),
            "point": r["point"],
            "MB": _number(r["megabytes"], 3),
            "seconds": _number(r["seconds"], 2),
            "round": f"{r['round']}" if r["round"] == r["rounds"] else f"{r['round']} of {r['rounds']}",
            "status": r["status"] if r["status"] == "done" else r["status"].upper(),
        }
        for r in rows
    ]
    headers = [name for name in table[0] if any(cells[name] for cells in table)]
    return headers, [[cells[name] for name in headers] for cells in table]


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write summary.csv (all digits) and summary.md."""
    text = io.StringIO()
    lines = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    lines.writeheader()
    lines.writerows({**r, "seeds": " ".join(map(str, r["seeds"]))} for r in rows)
    headers, cells = columns(rows)
    table = [headers, ["---"] * len(headers), *cells]
    marked = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        records.write(folder / "summary.csv", text.getvalue().encode())
        records.write(folder / "summary.md", f"{marked}\n\n{CAPTION}\n".encode())
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    return [folder / "summary.csv", folder / "summary.md"]


def _apart(result: Result, found: Sequence[Result]) -> str:
    """The settings in which a run differs from other runs, and the hyperparameters from others of its method."""
    shown = {"algorithm", "dataset", "partition", "seed", "rounds", "hparams"}
    kin = [other.config["hparams"] for other in found if other.config["algorithm"] == result.config["algorithm"]]
    parts = [
        f"{name}={value}"
        for name, value in result.config.items()
        if name not in shown and any(other.config.get(name) != value for other in found)
    ]
    for name, value in result.config["hparams"].items():
        if any(other.get(name) != value for other in kin):
            parts.append(f"{name}={value}")
    return " ".join(parts)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _percent(fraction: float) -> str:
    return _number(100 * fraction, 2)


def _number(value: float, digits: int) -> str:
    return "--" if value != value else f"{value:.{digits}f}"
