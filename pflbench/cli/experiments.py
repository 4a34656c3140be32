"""`pflbench experiments`: the experiments that come with pflbench."""

from pflbench.cli import console, options


def experiments(as_json: options.Json = False) -> None:
    """List the experiments that come with pflbench."""
    from pflbench.sweep import experiment

    rows = [
        {"name": name, "title": str(experiment.read(name).get("title", ""))}
        for name in experiment.names()
    ]
    if as_json:
        console.dump(rows)
    else:
        console.table(["name", "title"], [[*row.values()] for row in rows])
