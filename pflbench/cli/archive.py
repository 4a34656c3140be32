"""`pflbench archive` and `pflbench unpack`: the records of a folder as one file, and back."""

from pathlib import Path
from typing import Annotated

import typer

from pflbench.output import plural


def archive(
    folder: Annotated[Path, typer.Argument(help="A folder of runs, e.g. results/runs.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The archive. [FOLDER.tar.xz]", metavar="FILE.tar.xz"),
    ] = None,
) -> None:
    """Write plans and finished runs to one file. The commands report, status, verify and export read
    it.
    """
    from pflbench.methods import versions
    from pflbench.records import archive

    file = out or folder.with_name(f"{folder.name}{archive.ENDING}")
    made = archive.write(folder, file, versions.current)
    left_out = f"; not finished and left out: {made.unfinished}" if made.unfinished else ""
    print(f"{plural(made.runs, 'run')} in {file}, {made.bytes / 1000:,.0f} kB{left_out}")


def unpack(
    file: Annotated[Path, typer.Argument(help="A file written by 'pflbench archive'.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output folder. [FILE without .tar.xz]", metavar="FOLDER"),
    ] = None,
) -> None:
    """Unpack an archive into a folder. A sweep can be continued there."""
    from pflbench.records import archive

    folder = out or archive.stem(file)
    archive.unpack(file, folder)
    print(f"unpacked into {folder}")
