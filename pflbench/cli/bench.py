"""`pflbench bench`: how fast this machine runs the harness, as ratios."""

from typing import Annotated

import typer

from pflbench.cli import console, options
from pflbench.errors import UserError, unknown

PARTS = {
    "throughput": "training against a bare PyTorch loop and the core's peak",
    "rounds": "whole rounds: one worker, two workers, FedAvg as it is usually written",
    "methods": "a round of every method against FedAvg's, next to published seconds",
    "growth": "20 to 10,000 clients with a cohort of 20",
    "start": "the help, and the first round of a run",
}


def bench(
    parts: Annotated[
        list[str] | None, typer.Argument(help=f"Parts to measure: {', '.join(PARTS)}. [all]")
    ] = None,
    turns: Annotated[int, typer.Option(metavar="N", help="Turns per contender.")] = 5,
    as_json: options.Json = False,
) -> None:
    """Measure the speed of pflbench on this machine. Contenders take turns; compare the ratios."""
    for part in parts or []:
        if part not in PARTS:
            raise unknown("part of the benchmark", part, PARTS)
    if turns < 1:
        raise UserError(f"--turns {turns}: must be at least 1")
    import importlib

    everything = []
    for part in [part for part in PARTS if not parts or part in parts]:
        if not as_json:
            print(f"{part}: {PARTS[part]}", flush=True)
        found = importlib.import_module(f"pflbench.benchmarks.{part}").measure(turns)
        rows = [
            (f.what, f.text, f.goal, {True: "yes", False: "NO", None: ""}[f.met], f.note)
            for f in found
        ]
        everything += [
            dict(zip(("what", "measured", "goal", "met", "note"), row, strict=True)) for row in rows
        ]
        if not as_json:
            console.table(["what", "median (quartiles)", "goal", "met", "note"], rows)
            print(flush=True)
    if as_json:
        console.dump(everything)
