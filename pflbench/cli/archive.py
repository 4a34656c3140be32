"""`pflbench archive` and `pflbench unpack`: the records of a folder as one file, and back."""

from pathlib import Path
from typing import Annotated

import typer


def archive(
    folder: Annotated[Path, typer.Argument(help="A folder of runs, as results/runs.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The archive. [FOLDER.tar.xz]", metavar="FILE.tar.xz"),
    ] = None,
) -> None:
    """Write the plans and the finished runs of a folder to one file, which report and status read."""
    from pflbench.methods import versions
    from pflbench.records import archive

    file = out or folder.with_name(f"{folder.name}{archive.ENDING}")
    made = archive.write(folder, file, versions.current)
    left_out = f"; not finished and left out: {made.unfinished}" if made.unfinished else ""
    print(f"{made.runs} runs in {file}, {made.bytes / 1000:,.0f} kB{left_out}")


def unpack(
    file: Annotated[Path, typer.Argument(help="What 'pflbench archive' wrote.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to. [FILE without .tar.xz]", metavar="FOLDER"),
    ] = None,
) -> None:
    """Write the files of an archive to a folder, in which a sweep can go on."""
    from pflbench.records import archive

    folder = out or archive.stem(file)
    archive.unpack(file, folder)
    print(f"unpacked into {folder}")
