"""`pflbench predict`: labels of samples, by the model of a client that a run has saved."""

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pflbench.cli import console, options
from pflbench.errors import UserError

if TYPE_CHECKING:
    from pflbench.interface import LoadedRun
    from pflbench.simulation.saved_models import ClientModel

PARTS = ("test", "train", "validation")

RunFolder = Annotated[
    Path, typer.Argument(help="The folder of a run with --save-models.", show_default=False)
]
ClientNumber = Annotated[
    int, typer.Option("--client", help="Whose model: a number from 0.", metavar="N", min=0)
]
Samples = Annotated[
    str,
    typer.Option(
        "--data",
        help="npz:PATH with x (y is optional), or a part of the client's data: test, train,"
        " validation. [test]",
        metavar="SAMPLES",
        show_default=False,
    ),
]
Point = Annotated[
    str | None,
    typer.Option(help="pre, post or another series. [the method's own]", metavar="POINT"),
]
OwnMethod = Annotated[
    Path | None,
    typer.Option("--method", help="The file of a method of your own.", metavar="PATH.py"),
]
Scores = Annotated[bool, typer.Option("--scores", help="The score of every class, too.")]


def predict(
    run: RunFolder,
    client: ClientNumber,
    data: Samples = "test",
    point: Point = None,
    scores: Scores = False,
    method: OwnMethod = None,
    data_root: options.DataRoot = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Labels of samples by a client's model of a finished run, as CSV."""
    from pflbench.interface import load

    loaded = load(run, method=method, data_root=data_root, device=device)
    model = loaded.model(client, point)
    x, y = _samples(loaded, client, data)
    table = _table(model, x, y, scores)
    if as_json:
        about = {"run": loaded.folder.name, "client": client, "point": model.point}
        if y is not None:
            about["accuracy"] = model.accuracy(x, y)
        console.dump({**about, "predictions": table})
        return
    names = ["sample", "label", *(["true"] if y is not None else [])]
    names += [f"score_{label}" for label in range(model.classes)] if scores else []
    lines = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    lines.writeheader()
    lines.writerows(table)


def _samples(loaded: "LoadedRun", client: int, data: str) -> tuple[Any, Any]:
    """Samples, and their labels where they are known."""
    from pflbench.data.npz import plain_arrays

    kind, _, path = data.partition(":")
    if data in PARTS:
        return loaded.samples(client, data)
    if kind != "npz" or not path:
        raise UserError(f"--data {data}: must be npz:PATH, {', '.join(PARTS[:-1])} or {PARTS[-1]}")
    arrays = plain_arrays(path)
    if "x" not in arrays:
        found = ", ".join(sorted(arrays)) or "none"
        raise UserError(f"{path} has no array x; its arrays: {found}")
    x, y = arrays["x"], arrays.get("y")
    if y is not None and (y.shape != x.shape[:1] or y.dtype.kind not in "iu"):
        raise UserError(
            f"{path}: y is {y.dtype} of the shape {y.shape}: must be {len(x)} whole numbers, as x has"
            " samples"
        )
    return x, y


def _table(model: "ClientModel", x: Any, y: Any, scores: bool) -> list[dict[str, Any]]:
    """A row for every sample."""
    found, rows = model(x), []
    for number, (label, row) in enumerate(zip(found.argmax(1).tolist(), found, strict=True)):
        line: dict[str, Any] = {"sample": number, "label": label}
        if y is not None:
            line["true"] = int(y[number])
        if scores:
            line |= {f"score_{place}": value for place, value in enumerate(row.tolist())}
        rows.append(line)
    return rows
