"""The committed measurements: their tables are made from their records, and pages show those tables."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference"
REPORT = REFERENCE / "report"


def test_tables_of_the_reference_are_remade_bit_for_bit(call: Callable[..., tuple[int, str, str]], tmp_path: Path):
    code, _, err = call("report", str(REFERENCE), "--only", "tables", "--out", str(tmp_path))
    assert code == 0, err
    kinds = {".tex", ".csv", ".md"}
    committed, remade = (
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.suffix in kinds}
        for folder in (REPORT, tmp_path)
    )
    assert committed.keys() == remade.keys()
    assert [str(name) for name in committed if committed[name] != remade[name]] == []


SHOWN = {  # tables on pages
    "README.md": ["reference/accuracy"],
    "docs/results.md": [
        "reference/accuracy",
        "reference/orders",
        "reference-ablation/accuracy",
        "reference-weighting/accuracy",
        "reference-fairness/clients",
        "reference-scarcity/accuracy",
        "reference-same/accuracy",
        "reference-tuned/accuracy",
    ],
}


@pytest.mark.parametrize("page, table", [(page, table) for page, tables in SHOWN.items() for table in tables])
def test_a_table_on_a_page_is_the_reports(page: str, table: str):
    lines = [line for line in (REPORT / f"{table}.md").read_text().splitlines() if line.startswith("|")]
    assert "\n".join(lines) in (ROOT / page).read_text()


@pytest.mark.parametrize("experiment", sorted(plan.stem for plan in (REFERENCE / "plans").glob("*.json")))
def test_every_planned_run_of_the_reference_is_measured(experiment: str):
    """A failed run would have to be marked and explained; there is none."""
    plan = json.loads((REFERENCE / "plans" / f"{experiment}.json").read_text())
    assert plan["runs"]
    status = {run["id"]: REFERENCE / run["id"] / "status.json" for run in plan["runs"]}
    assert {json.loads(path.read_text())["status"] for path in status.values()} == {"done"}


def test_the_committed_records_stay_small_and_know_no_machine():
    files = [file for file in REFERENCE.rglob("*") if file.is_file()]
    pictures = {".png", ".html"}  # a report that is made here has more of them than are kept
    assert sum(file.stat().st_size for file in files if file.suffix not in pictures) < 14e6
    assert not [file for file in files if file.suffix == ".pt"]
    absolute = re.compile(r"(^|[\s\"=])/\w+/")
    text = [file for file in files if file.suffix in {".json", ".jsonl", ".md", ".csv"}]
    assert not [file for file in text if absolute.search(file.read_text())]
