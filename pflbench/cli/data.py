"""`pflbench data`: list, get, import, show, export."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pflbench.cli import console, options

if TYPE_CHECKING:
    from pflbench.data.partition import Partition
    from pflbench.data.prepared import Data

app = typer.Typer(help="The data sets, and how they are divided among clients.")

Name = Annotated[
    str, typer.Argument(help="A data set of 'pflbench data list', npz:PATH or FILE.py.")
]


@app.command("list")
def list_data(data_root: options.DataRoot = None, as_json: options.Json = False) -> None:
    """The known data sets, and whether they are in the data folder."""
    from pflbench.data import datasets

    rows = [(name, *datasets.describe(name, data_root)) for name in datasets.names()]
    if as_json:
        keys = ("name", "title", "there")
        console.dump(
            {
                "root": str(datasets.data_root(data_root)),
                "data": [dict(zip(keys, r, strict=True)) for r in rows],
            }
        )
    else:
        console.table(("name", "title", "there"), rows)
        print(f"in {datasets.data_root(data_root)}; get one with: pflbench data get NAME")


@app.command()
def get(name: Name, data_root: options.DataRoot = None) -> None:
    """Download a data set and verify it."""
    from pflbench.data import datasets

    printed: list[str] = []

    def show(line: str) -> None:
        printed.append(line)
        print(line, flush=True)

    found = datasets.download(name, data_root, show)
    if not printed:
        print(f"{found.title} is already available: {found.size}, in {found.folder}")


@app.command("import")
def import_data(
    name: Name,
    files: Annotated[
        Path | None,
        typer.Argument(help="A file or folder; left out, a message says which.", metavar="PATH"),
    ] = None,
    data_root: options.DataRoot = None,
) -> None:
    """Import a data set from files. It is verified: ag_news, cifar10, fashion_mnist or uci_har."""
    from pflbench.data import datasets

    found, new = datasets.import_files(name, files, data_root)
    there = f"imported from {files}" if new else "already available"
    print(f"{found.title} is {there}: {found.size}, digest {found.digest}, in {found.folder}")


@app.command()
@options.added(options.DIVISION, before="data_root")
def show(
    ctx: typer.Context,
    name: Name,
    data_root: options.DataRoot = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The picture: .png, .pdf or .svg. [a name of its own]"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Draw which client has how many samples of which class."""
    loaded, spec, split = _divided(ctx, name, data_root)
    from pflbench.report.figures import distribution
    from pflbench.report.grouping.headings import in_words

    parts = {
        part: distribution.counts(rows, loaded.y, loaded.classes)
        for part, rows in split.parts.items()
    }
    train = parts["train"]
    if out is None:
        out = Path(
            re.sub(r"[^A-Za-z0-9.]+", "-", f"{Path(name).stem}-{spec}-{len(train)}") + ".png"
        )
    title = f"{loaded.title}, {in_words(spec)}, {len(train)} clients"
    distribution.picture(train, title, out, loaded.class_names)
    numbers = distribution.summary(parts)
    if as_json:
        counts = {part: table.tolist() for part, table in parts.items()}
        console.dump(
            {"digest": split.digest, "picture": str(out), "summary": numbers, "counts": counts}
        )
    else:
        console.table(
            ("per client", "min", "median", "max"),
            [(what, *row.values()) for what, row in numbers.items()],
        )
        print(f"digest {split.digest}; drawn in {out}")


@app.command()
@options.added(options.DIVISION, before="data_root")
def export(
    ctx: typer.Context,
    name: Name,
    file: Annotated[
        Path, typer.Argument(help="What --partition file:PATH then reads.", metavar="FILE.npz")
    ],
    data_root: options.DataRoot = None,
) -> None:
    """Write which samples every client has.

    The file holds index arrays train_0, test_0, train_1, ... into the pooled data set.
    """
    _, spec, split = _divided(ctx, name, data_root)
    split.save(file)
    print(f"{spec}, {len(split.train)} clients, digest {split.digest}: written to {file}")


def _divided(
    ctx: typer.Context, name: str, data_root: Path | None
) -> "tuple[Data, str, Partition]":
    """The data set, and its partition as the options say."""
    from pflbench import config
    from pflbench.data import datasets, partition

    given = config.checked(options.settings_of(ctx))
    spec = given.pop("partition", config.Run.partition)
    if spec.startswith("file:") or spec == "natural":
        given.setdefault("clients", None)  # as many as there are
    loaded = datasets.load(name, data_root)
    chosen = partition.Options(**given)
    return loaded, spec, partition.make(spec, loaded.y, loaded.classes, chosen, loaded.client)
