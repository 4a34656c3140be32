"""What tests of the command line share."""

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pflbench.cli import main
from pflbench.methods import registry
from pflbench.methods.costs import by_default
from pflbench.records.plan import Planned
from pflbench.sweep import experiment

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in a shell's background: processes that we start would
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # never hear the Ctrl-C that tests send them

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """The command line in this process, in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main.main(words)
        return int(end.value.code or 0), *capsys.readouterr()

    return run


MadeUp = Callable[..., list[Planned]]


@pytest.fixture(scope="session")
def made_up() -> MadeUp:
    """Writes the plan of a sweep and the records of its runs, which nobody made; says which runs there are.

    `ended` is how runs ended that are not done, by their place in the plan: failed, diverged, missing.
    """

    def write(
        folder: Path, name: str, table: Mapping[str, Any], ended: Mapping[int, str] | None = None
    ) -> list[Planned]:
        plan = experiment.make(name, table, command=f"pflbench sweep {name}.toml")
        plan.write(folder)
        for place, planned in enumerate(plan.runs):
            how = (ended or {}).get(place, "finished")
            if how != "missing":
                _write_run(folder / planned.id, planned, how)
        return list(plan.runs)

    return write


def _write_run(folder: Path, planned: Planned, ended: str) -> None:
    """A run that learns from 0.1 towards a level of its own; one that failed or diverged stops half way."""
    config = planned.config
    clients, rounds = config["clients"], config["rounds"]
    rng = np.random.default_rng(list(planned.id.encode()))
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"id": planned.id, **_about(planned)}))
    level = rng.uniform(0.5, 0.8, clients) + rng.uniform(0, 0.15)
    lines, timing = [], []
    for number in range((rounds if ended == "finished" else rounds // 2) + 1):
        curve = (
            0.1 + (level - 0.1) * (1 - np.exp(-4 * number / rounds)) + rng.normal(0, 0.01, clients)
        )
        series = {"pre": curve.tolist(), "post": np.minimum(curve + 0.02, 1).tolist()}
        line: dict[str, Any] = {"round": number, "accuracy": series}
        if number:
            sent = {
                "down": {"theta": 400_000 * clients},
                "up": {"theta": 400_000 * clients, "n": 4 * clients},
            }
            line |= {
                "cohort": [*range(clients)],
                "loss": 2.0 / number,
                "bytes": sent,
                "logs": {},
                "server": {},
            }
            timing.append(
                {"round": number, "client": 1.5, "server": 0.1, "evaluation": 0.2, "wall": 1.25}
            )
        lines.append(line)
    for file, records in (("rounds.jsonl", lines), ("timing.jsonl", timing)):
        (folder / file).write_text(
            "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        )
    said = {
        "failed": {"reason": "out of <luck>", "details": "Traceback: line 1\n  boom()"},
        "diverged": {"reason": "nan"},
    }
    (folder / "status.json").write_text(
        json.dumps({"status": ended, "round": number, **said.get(ended, {})})
    )


def _about(planned: Planned) -> dict[str, Any]:
    config, cls = planned.config, registry.load(planned.plugin)
    counts = np.random.default_rng(config["seed"]).integers(5, 20, (config["clients"], 10))
    sparse = [{str(label): int(number) for label, number in enumerate(row)} for row in counts]
    sizes = counts.sum(1).tolist()
    partition = {"n_train": sizes, "n_test": sizes, "train_classes": sparse, "test_classes": sparse}
    return {
        "config": config,
        "scale": "paper",
        "method": {
            "title": cls.title,
            "evaluation_point": cls.evaluation_point,
            "one_shot": cls.one_shot,
            "costs": dict(zip(("down", "up"), by_default(cls), strict=True)),
        },
        "data": {"title": config["dataset"].title(), "digest": "0123456789abcdef", "classes": 10},
        "partition": {"digest": f"{config['partition']} {config['seed']}", **partition},
        "code": {"plugin": "fedcba9876543210", "commit": "0" * 40, "changed": False},
        "versions": {
            "python": "3.11.0",
            "pflbench": "0.1.0",
            "torch": "2.4.0",
            "numpy": "2.0.0",
            "scipy": "1.14.0",
        },
        "machine": {
            "system": "Linux",
            "processor": "x86_64",
            "cores": 2,
            "device": "cpu",
            "workers": 1,
        },
    }
