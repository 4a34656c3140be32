"""The committed measurements: their tables are made from their records, and pages show those tables."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference"
ACCURACY = REFERENCE / "report" / "reference" / "accuracy.md"


def test_tables_of_the_reference_are_remade_bit_for_bit(call: Callable[..., tuple[int, str, str]], tmp_path: Path):
    code, _, err = call("report", str(REFERENCE), "--only", "tables", "--out", str(tmp_path))
    assert code == 0, err
    kinds = {".tex", ".csv", ".md"}
    committed, remade = (
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.suffix in kinds}
        for folder in (REFERENCE / "report", tmp_path)
    )
    assert committed.keys() == remade.keys()
    assert [str(name) for name in committed if committed[name] != remade[name]] == []


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_main_table_on_a_page_is_the_reports(page):
    table = [line for line in ACCURACY.read_text().splitlines() if line.startswith("|")]
    assert "\n".join(table) in (ROOT / page).read_text()


def test_every_method_and_setting_of_the_reference_is_measured():
    """A failed run would have to be marked and explained; there is none."""
    assert "\u2013m" not in ACCURACY.read_text()


def test_the_committed_records_stay_small_and_know_no_machine():
    files = [file for file in REFERENCE.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 20e6
    assert not [file for file in files if file.suffix == ".pt"]
    absolute = re.compile(r"(^|[\s\"=])/\w+/")
    text = [file for file in files if file.suffix in {".json", ".jsonl", ".md", ".csv"}]
    assert not [file for file in text if absolute.search(file.read_text())]
