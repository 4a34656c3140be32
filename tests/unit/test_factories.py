"""Made-up runs have the form of real ones: what tests of reports read is what runs write."""

import json
from pathlib import Path
from typing import Any

import pflbench
from pflbench.testing import TOY
from tests.factories.run_files import write_sweep


def form(value: Any) -> Any:
    """The keys of a tree of dicts, in their order; lists of clients and numbers count as leaves."""
    named = isinstance(value, dict) and not any(key.isdigit() for key in value)
    return {key: form(branch) for key, branch in value.items()} if named else None


def forms(folder: Path) -> dict[str, Any]:
    whole = {name: json.loads((folder / name).read_text()) for name in ("run.json", "status.json")}
    lines = {
        name: [json.loads(line) for line in (folder / name).read_text().splitlines()]
        for name in ("rounds.jsonl", "timing.jsonl")
    }
    return {
        **{name: form(content) for name, content in whole.items()},
        **{name: [form(line) for line in content] for name, content in lines.items()},
    }


def test_a_made_up_run_has_the_files_and_names_of_a_real_one(tmp_path):
    settings = {**TOY, "rounds": 2}
    real = pflbench.run("fedavg", out=tmp_path / "real", **settings).folder
    table = {"algorithms": ["fedavg"], **settings, "seeds": 1}
    (planned,) = write_sweep(tmp_path / "made-up", "trial", table)
    made_up = tmp_path / "made-up" / planned.id
    assert {path.name for path in made_up.iterdir()} == {path.name for path in real.iterdir()}
    expected, found = forms(real), forms(made_up)
    expected["rounds.jsonl"][0]["accuracy"]["post"] = None  # made-up runs have it from the start
    assert found == expected
