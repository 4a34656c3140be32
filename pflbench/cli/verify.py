"""`pflbench verify`: whether records and data are those that were written."""

from pathlib import Path

import typer

from pflbench.cli import console, options


def verify(
    ctx: typer.Context,
    folder: options.Records = Path("results/runs"),
    data_root: options.DataRoot = None,
    as_json: options.Json = False,
) -> None:
    """Verify records, models and data against their checksums. The exit code is 1 if any are
    damaged.
    """
    from pflbench.errors import UserError
    from pflbench.records import archive, models
    from pflbench.records.verification import damage

    records = ctx.with_resource(archive.opened(folder))
    runs = sorted(path.parent for path in records.glob("*/status.json"))
    if not runs:
        raise UserError(f"no run has ended in {folder}: there is nothing to verify")
    wrong = {run.name: damage(run) or models.wrong(run) for run in runs} | _damaged_data(
        runs, data_root
    )
    damaged = {name: reason for name, reason in wrong.items() if reason}
    if as_json:
        console.dump({"runs": len(runs), "damaged": damaged})
    else:
        for name, reason in damaged.items():
            console.say("damaged", f"{name}: {reason}")
        print(f"runs verified: {len(runs)}; damaged: {len(damaged)}")
    if damaged:
        raise typer.Exit(1)


def _damaged_data(runs: list[Path], data_root: Path | None) -> dict[str, str]:
    """What is wrong with the prepared data of these runs, as far as they are on this machine."""
    from pflbench.data import datasets, prepared
    from pflbench.errors import UserError
    from pflbench.records import run_folder

    found = {}
    configs = [run_folder.read_or_nothing(run / "run.json").get("config") for run in runs]
    specs = {config.get("dataset") for config in configs if isinstance(config, dict)}
    for spec in sorted(spec for spec in specs if isinstance(spec, str)):
        try:
            data = datasets.prepared_already(spec, data_root)
            if data is not None:
                prepared.verify(data, always=True)
        except UserError as error:
            found[f"data set {spec}"] = str(error)
    return found
